//! The task: a unit of work with its place, its configuration and its facts.

use crate::id::{ListId, TaskId, WorkspaceId};
use crate::list::Config;
use crate::name::{ShortId, slugify};
use crate::run::Outcome;
pub use crate::task_status::{Context, Fact, Status, Word, next};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What sort of thing a task is.
    Kind, "kind", {
        /// Work that an agent can do.
        Task = "task",
        /// A group of tasks.
        Epic = "epic",
        /// A plan above epics.
        Plan = "plan",
    }
}

crate::vocabulary! {
    /// How much it matters.
    Priority, "priority", {
        /// Before everything else.
        Critical = "critical",
        /// Soon.
        High = "high",
        /// The usual.
        Medium = "medium",
        /// When there is room.
        Low = "low",
    } aliases { "p0" => Critical, "p1" => High, "p2" => Medium, "p3" => Low, }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its UUID.
    pub id: TaskId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The list it is in.
    pub list_id: ListId,
    /// Its readable name on the server, never re-used.
    pub short_id: ShortId,
    /// One line.
    pub title: String,
    /// Its agent's first prompt.
    pub description: String,
    /// Task, epic or plan.
    pub kind: Kind,
    /// Its name in a backlog, unique in the workspace among its kind.
    pub slug: Option<String>,
    /// How much it matters.
    pub priority: Priority,
    /// The task it is a child of.
    pub parent_id: Option<TaskId>,
    /// Where it stands; written only through [`next`].
    pub status: Status,
    /// Place in the queue, lower first.
    pub sort_order: f64,
    /// Not started by the queue before this.
    pub due_at: Option<Timestamp>,
    /// Never started by the queue.
    pub manual: bool,
    /// On the My Day list.
    pub my_day: bool,
    /// What it sets for itself; the rest is inherited.
    pub config: Config,
    /// Held back by a usage limit until then.
    pub not_before: Option<Timestamp>,
    /// How its last run ended.
    pub last_outcome: Option<Outcome>,
    /// Why it is `failed`, in a sentence.
    pub failure: Option<String>,
    /// Interrupted runs in a row, so that a run that kills the server isn't repeated for ever.
    pub interruptions: i64,
    /// Feedback or another prompt that its next run starts with instead of the description.
    pub next_prompt: Option<String>,
    /// The label of who made it.
    pub created_by: String,
    /// When it was archived.
    pub archived_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Task {
    /// The last part of its branch: `ty-42-fix-the-login`.
    pub fn branch_leaf(&self) -> String {
        format!("{}-{}", self.short_id.to_string().to_ascii_lowercase(), slugify(&self.title, 40))
    }
}
