//! `add_task`: a new task in a list, queued at once where asked.

use super::check;
use super::creation::{self, NewTask};
use crate::change::Key;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::list::Config;
use taskyard_domain::task::{Kind, Task};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// A new task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTask {
    /// The list.
    pub list_id: String,
    /// One line.
    pub title: String,
    /// The agent's first prompt.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it goes to the queue at once.
    #[serde(default)]
    pub queue: bool,
    /// The model; blank inherits.
    #[serde(default)]
    pub model: Option<String>,
    /// How to run it: UUID or name of a profile.
    #[serde(default)]
    pub agent_profile_id: Option<String>,
    /// `critical`, `high`, `medium` or `low`.
    #[serde(default = "medium")]
    pub priority: String,
    /// Place in the queue, lower first; 0 when left out.
    #[serde(default)]
    pub sort_order: Option<f64>,
    /// The queue doesn't start it before this time.
    #[serde(default)]
    pub due_at: Option<String>,
    /// The queue never starts it.
    #[serde(default)]
    pub manual: bool,
    /// Tasks that must be done first.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

fn medium() -> String {
    "medium".into()
}

/// The new task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskOutput {
    /// True.
    pub added: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its list.
    pub list_id: String,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Its title.
    pub title: String,
    /// `ready` or `queued`.
    pub status: String,
    /// The tasks it waits for, by short id.
    pub blocked_by: Vec<String>,
    /// Whether this is the result of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl AddTaskOutput {
    pub(crate) fn of(task: &Task, blockers: &[Task]) -> Self {
        Self {
            added: true,
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            list_id: task.list_id.to_string(),
            parent_id: task.parent_id.map(|id| id.to_string()),
            title: task.title.clone(),
            status: task.status.to_string(),
            blocked_by: blockers.iter().map(|blocker| blocker.short_id.to_string()).collect(),
            replayed: false,
        }
    }
}

impl Engine {
    /// Adds a task.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` and `NOT_FOUND` naming the argument; `FAILED_PRECONDITION` when it is to be queued and
    /// `repository_id` or `agent_profile_id` doesn't resolve; `CONFLICT` for a key used for another call.
    pub async fn add_task(&self, caller: &Caller, input: AddTask) -> Result<AddTaskOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { add(tx, &caller, input).await })).await
    }
}

async fn add(tx: &mut Tx, caller: &Caller, input: AddTask) -> Result<AddTaskOutput> {
    let key = Key::of(caller, "add_task", input.idempotency_key.as_deref(), &input)?;
    let list = handle::list(tx, caller, "list_id", &input.list_id).await?;
    let workspace = tx.workspace_lock(list.workspace_id).await?;
    let workspace = workspace.ok_or_else(|| Error::internal(format!("the list {} has no workspace", list.id)))?;
    if let Some(before) = Key::replay::<AddTaskOutput>(key.as_ref(), tx, list.workspace_id).await? {
        return Ok(AddTaskOutput { replayed: true, ..before });
    }
    let mut config = Config::default();
    if let Some(handle) = &input.agent_profile_id {
        config.agent_profile_id = Some(handle::profile(tx, list.workspace_id, "agent_profile_id", handle).await?.id);
    }
    let blockers = creation::blockers(tx, caller, &list, &input.blocked_by).await?;
    let new = NewTask {
        parent: None,
        title: check::title("title", &input.title)?,
        description: check::text("description", input.description.as_deref().unwrap_or_default(), check::DESCRIPTION)?,
        config,
        model: input.model,
        priority: check::priority(&input.priority)?,
        sort_order: check::order("sort_order", input.sort_order.unwrap_or_default())?,
        due_at: input.due_at.as_deref().map(|text| check::time("due_at", text)).transpose()?,
        manual: input.manual,
        blockers: blockers.clone(),
        kind: Kind::Task,
        slug: None,
        draft: false,
        queue: input.queue,
        list,
        workspace,
    };
    let task = creation::create(tx, caller, new).await?;
    let output = AddTaskOutput::of(&task, &blockers);
    Key::keep(key.as_ref(), tx, task.workspace_id, &output).await?;
    Ok(output)
}
