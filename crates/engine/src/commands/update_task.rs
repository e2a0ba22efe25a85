//! `update_task`: a task's texts, priority, times and place; its status by a person's word.

use super::cancel_task::CancelTask;
use super::update_task_status::read_word;
use super::words::{self, Spoken};
use super::{check, locked};
use crate::view::TaskRow;
use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::Result;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::task::{Task, Word};
use taskyard_store::Tx;

const CLEARABLE: &[&str] = &["description", "due_at"];

/// What to change about a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateTask {
    /// The task.
    pub task_id: String,
    /// Its new title.
    #[serde(default)]
    pub title: Option<String>,
    /// Its new description; the next run starts with it.
    #[serde(default)]
    pub description: Option<String>,
    /// `ready`, `queued`, `cancelled` or `done`, as `update_task_status` takes it.
    #[serde(default)]
    pub state: Option<String>,
    /// `critical`, `high`, `medium` or `low`.
    #[serde(default)]
    pub priority: Option<String>,
    /// The queue doesn't start it before this time.
    #[serde(default)]
    pub due_at: Option<String>,
    /// The queue never starts it.
    #[serde(default)]
    pub manual: Option<bool>,
    /// Its place in the queue, lower first.
    #[serde(default)]
    pub sort_order: Option<f64>,
    /// Fields to empty: `description`, `due_at`.
    #[serde(default)]
    pub clear: Vec<String>,
}

/// The task as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateTaskOutput {
    /// Whether anything changed.
    pub updated: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The fields that the call named.
    pub fields: Vec<String>,
    /// Its status before the call.
    pub previous_status: String,
    /// The task.
    pub task: TaskRow,
}

impl Engine {
    /// Changes a task. A status is set by the rules of [`Engine::update_task_status`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the field; `NOT_FOUND`; what `update_task_status` refuses, and then nothing changed.
    pub async fn update_task(&self, caller: &Caller, input: UpdateTask) -> Result<UpdateTaskOutput> {
        let word = input.state.as_deref().map(|text| read_word("state", text)).transpose()?;
        let (task, running) = self.task_and_run(caller, &input.task_id).await?;
        let stop = running && word == Some(Word::Cancelled);
        if stop {
            caller.require_person("cancel a task")?;
        }
        let spoken = match word.filter(|_| !stop) {
            Some(word) => Some(self.prepare_word(&task, word).await?),
            None => None,
        };
        let (owned, task_id) = (caller.clone(), input.task_id.clone());
        let mut output = self.store().write(move |tx| Box::pin(async move { update(tx, &owned, input, spoken, stop).await })).await?;
        if stop {
            let cancelled = self.cancel_task(caller, CancelTask { task_id }).await?;
            output.updated = true;
            output.task.status = cancelled.status;
        }
        Ok(output)
    }
}

async fn update(tx: &mut Tx, caller: &Caller, input: UpdateTask, spoken: Option<Spoken>, stop: bool) -> Result<UpdateTaskOutput> {
    let mut task = locked::task(tx, caller, "task_id", &input.task_id).await?;
    let before = task.clone();
    let mut named = set(&mut task, &input)?;
    let fields_changed = task != before;
    let said = spoken.is_some() || stop;
    if !said {
        check::some(&named)?;
    }
    if let Some(spoken) = spoken {
        words::say(tx, caller, &mut task, spoken).await?;
    }
    if fields_changed {
        change::task(tx, &mut task, &named).await?;
        change::audit(tx, caller, task.workspace_id, Action::TaskUpdated, About::Task(task.id), json!({ "fields": named })).await?;
    }
    if said {
        named.push("state");
    }
    Ok(UpdateTaskOutput {
        updated: task != before,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        fields: named.into_iter().map(str::to_owned).collect(),
        previous_status: before.status.to_string(),
        task: TaskRow::from(&task),
    })
}

/// Writes the fields that the call names into `task`; returns their names.
fn set(task: &mut Task, input: &UpdateTask) -> Result<Vec<&'static str>> {
    let mut named = Vec::new();
    if let Some(title) = &input.title {
        task.title = check::title("title", title)?;
        named.push("title");
    }
    if let Some(description) = &input.description {
        task.description = check::text("description", description, check::DESCRIPTION)?;
        named.push("description");
    }
    if let Some(priority) = &input.priority {
        task.priority = check::priority(priority)?;
        named.push("priority");
    }
    if let Some(due_at) = &input.due_at {
        task.due_at = Some(check::time("due_at", due_at)?);
        named.push("due_at");
    }
    if let Some(manual) = input.manual {
        task.manual = manual;
        named.push("manual");
    }
    if let Some(order) = input.sort_order {
        task.sort_order = check::order("sort_order", order)?;
        named.push("sort_order");
    }
    let cleared = check::clear(&input.clear, CLEARABLE)?;
    check::not_both(&cleared, &named)?;
    for field in &cleared {
        match *field {
            "description" => task.description = String::new(),
            _ => task.due_at = None,
        }
    }
    named.extend(cleared);
    Ok(named)
}
