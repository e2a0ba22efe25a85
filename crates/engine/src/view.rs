//! What commands answer with: flat, snake_case, without long texts in lists.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use taskyard_domain::run::Run;
use taskyard_domain::task::Task;

/// A task in a list: no description.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskRow {
    /// UUID.
    pub id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its list.
    pub list_id: String,
    /// One line.
    pub title: String,
    /// Where it stands.
    pub status: String,
    /// How much it matters.
    pub priority: String,
    /// `task`, `epic` or `plan`.
    pub kind: String,
    /// Its parent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_id: Option<String>,
    /// Not started by the queue.
    #[serde(skip_serializing_if = "is_false", default)]
    pub manual: bool,
    /// Archived.
    #[serde(skip_serializing_if = "is_false", default)]
    pub archived: bool,
    /// When due.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub due_at: Option<Timestamp>,
    /// How the last run ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_outcome: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// Last change.
    pub updated_at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl From<&Task> for TaskRow {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            list_id: task.list_id.to_string(),
            title: cut(&task.title, 200).to_owned(),
            status: task.status.to_string(),
            priority: task.priority.to_string(),
            kind: task.kind.to_string(),
            parent_id: task.parent_id.map(|id| id.to_string()),
            manual: task.manual,
            archived: task.archived_at.is_some(),
            due_at: task.due_at,
            last_outcome: task.last_outcome.map(|o| o.to_string()),
            failure: task.failure.as_deref().map(|f| cut(f, 300).to_owned()),
            updated_at: task.updated_at,
        }
    }
}

/// A run as `list_runs` and `get_run` show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunView {
    /// UUID.
    pub id: String,
    /// Its task.
    pub task_id: String,
    /// Its session; none for a claim.
    pub session_id: Option<String>,
    /// `managed` or `claimed`.
    pub kind: String,
    /// `starting`, `running`, `waiting`, `ended`.
    pub state: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// Why.
    pub exit_reason: Option<String>,
    /// Who started or claimed it.
    pub actor: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The profile's name.
    pub agent_profile: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// `queue`, `override`, or null while it has given its slot back.
    pub slot: Option<String>,
    /// Alive but silent for longer than `stall_after`.
    pub stalled: bool,
    /// Turns of the agent's own loop.
    pub turns: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// Cost in US dollars, where the agent says.
    pub cost_usd: Option<f64>,
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// What a claimer wrote.
    pub notes: Option<String>,
    /// When it was opened.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl RunView {
    /// The view of `run` with the names of its agent and profile.
    pub fn of(run: &Run, agent: Option<String>, agent_profile: Option<String>) -> Self {
        Self {
            id: run.id.to_string(),
            task_id: run.task_id.to_string(),
            session_id: run.session_id.map(|id| id.to_string()),
            kind: run.kind.to_string(),
            state: run.state.to_string(),
            outcome: run.outcome.map(|o| o.to_string()),
            exit_reason: run.cause.clone(),
            actor: run.actor.clone(),
            agent,
            agent_profile,
            model: run.model.clone(),
            slot: run.slot.map(|s| s.to_string()),
            stalled: run.stalled,
            turns: run.usage.turns,
            input_tokens: run.usage.input_tokens,
            output_tokens: run.usage.output_tokens,
            cost_usd: run.usage.cost_usd,
            exit_code: run.exit_code,
            notes: run.notes.clone(),
            started_at: run.started_at,
            ended_at: run.ended_at,
        }
    }
}

/// `text` cut to at most `max` bytes on a character boundary.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
