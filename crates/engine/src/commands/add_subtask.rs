//! `add_subtask`: a child of a task, with its parent's list and configuration.

use super::add_task::AddTaskOutput;
use super::creation::{self, NewTask};
use super::{check, locked};
use crate::change::Key;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::task::Kind;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// A new child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddSubtask {
    /// The task that it is a child of.
    pub parent_id: String,
    /// One line.
    pub title: String,
    /// The agent's first prompt.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it goes to the queue at once.
    #[serde(default)]
    pub queue: bool,
    /// The model; left out or blank it is the parent's.
    #[serde(default)]
    pub model: Option<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

impl Engine {
    /// Adds a child to a task. It branches from its parent's base.
    ///
    /// # Errors
    /// As [`Engine::add_task`]; `FAILED_PRECONDITION` for an archived parent.
    pub async fn add_subtask(&self, caller: &Caller, input: AddSubtask) -> Result<AddTaskOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { add(tx, &caller, input).await })).await
    }
}

async fn add(tx: &mut Tx, caller: &Caller, input: AddSubtask) -> Result<AddTaskOutput> {
    let key = Key::of(caller, "add_subtask", input.idempotency_key.as_deref(), &input)?;
    let parent = locked::task(tx, caller, "parent_id", &input.parent_id).await?;
    if let Some(before) = Key::replay::<AddTaskOutput>(key.as_ref(), tx, parent.workspace_id).await? {
        return Ok(AddTaskOutput { replayed: true, ..before });
    }
    if parent.archived_at.is_some() {
        return Err(Error::precondition(format!("{} is archived and takes no subtasks", parent.short_id)).with_field("parent_id"));
    }
    let list = tx.list_fetch(parent.list_id).await?.ok_or_else(|| Error::internal(format!("{} has no list", parent.short_id)))?;
    let workspace = tx.workspace_fetch(parent.workspace_id).await?;
    let workspace = workspace.ok_or_else(|| Error::internal(format!("{} has no workspace", parent.short_id)))?;
    let new = NewTask {
        list,
        workspace,
        title: check::title("title", &input.title)?,
        description: check::text("description", input.description.as_deref().unwrap_or_default(), check::DESCRIPTION)?,
        config: parent.config.clone(),
        model: input.model.filter(|model| !model.trim().is_empty()),
        priority: parent.priority,
        sort_order: 0.0,
        due_at: None,
        manual: false,
        blockers: Vec::new(),
        kind: Kind::Task,
        slug: None,
        draft: false,
        queue: input.queue,
        parent: Some(parent),
    };
    let task = creation::create(tx, caller, new).await?;
    let output = AddTaskOutput::of(&task, &[]);
    Key::keep(key.as_ref(), tx, task.workspace_id, &output).await?;
    Ok(output)
}
