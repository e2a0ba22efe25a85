//! `add_task_dependency` and `remove_task_dependency`: what a task waits for.

use super::{locked, named, ring};
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::{Error, Result};
use taskyard_store::{Read, Tx};

/// A task and one that it is to wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskDependency {
    /// The task that waits.
    pub task_id: String,
    /// The task that must be done first.
    pub depends_on_task_id: String,
}

/// A task and one that it no longer waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveTaskDependency {
    /// The task that waits.
    pub task_id: String,
    /// The task that it waits for.
    pub depends_on_task_id: String,
}

/// What a task waits for now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DependencyOutput {
    /// Whether a dependency was added; absent after a removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<bool>,
    /// Whether a dependency was removed; absent after an addition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<bool>,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Every task it waits for, by short id.
    pub blocked_by: Vec<String>,
    /// Those of them that aren't done.
    pub unfinished: Vec<String>,
}

impl Engine {
    /// Makes a task wait for another one of its workspace. One that runs already isn't stopped.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FAILED_PRECONDITION` naming the ring that it would close.
    pub async fn add_task_dependency(&self, caller: &Caller, input: AddTaskDependency) -> Result<DependencyOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { add(tx, &caller, input).await })).await
    }

    /// Makes a task wait no longer for another one.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown task. A dependency that isn't there is no error: `removed` is false.
    pub async fn remove_task_dependency(&self, caller: &Caller, input: RemoveTaskDependency) -> Result<DependencyOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { remove(tx, &caller, input).await })).await
    }
}

async fn add(tx: &mut Tx, caller: &Caller, input: AddTaskDependency) -> Result<DependencyOutput> {
    let found = handle::task(tx, caller, "task_id", &input.task_id).await?;
    tx.workspace_lock(found.workspace_id).await?;
    let mut task = locked::task(tx, caller, "task_id", &input.task_id).await?;
    let blocker = blocker(tx, caller, &task, &input.depends_on_task_id).await?;
    let known = tx.blockers_of(task.id).await?.contains(&blocker.id);
    if !known {
        ring::check(tx, "depends_on_task_id", &task, &blocker).await?;
        tx.blocker_add(task.id, blocker.id).await?;
        note(tx, caller, &mut task, &blocker, Action::TaskDependencyAdded).await?;
    }
    output(tx, &task, Some(!known), None).await
}

async fn remove(tx: &mut Tx, caller: &Caller, input: RemoveTaskDependency) -> Result<DependencyOutput> {
    let mut task = locked::task(tx, caller, "task_id", &input.task_id).await?;
    let blocker = blocker(tx, caller, &task, &input.depends_on_task_id).await?;
    let known = tx.blockers_of(task.id).await?.contains(&blocker.id);
    if known {
        tx.blocker_remove(task.id, blocker.id).await?;
        note(tx, caller, &mut task, &blocker, Action::TaskDependencyRemoved).await?;
    }
    output(tx, &task, None, Some(known)).await
}

/// The task that `task` waits for, of its own workspace.
async fn blocker(tx: &mut Tx, caller: &Caller, task: &Task, handle: &str) -> Result<Task> {
    let blocker = handle::task(tx, caller, "depends_on_task_id", handle).await?;
    if blocker.workspace_id != task.workspace_id {
        return Err(Error::not_found("task", handle).with_field("depends_on_task_id"));
    }
    Ok(blocker)
}

async fn note(tx: &mut Tx, caller: &Caller, task: &mut Task, blocker: &Task, action: Action) -> Result<()> {
    change::task(tx, task, &["blocked_by"]).await?;
    change::audit(tx, caller, task.workspace_id, action, About::Task(task.id), json!({ "depends_on_task_id": blocker.id })).await
}

async fn output(read: &mut Read, task: &Task, added: Option<bool>, removed: Option<bool>) -> Result<DependencyOutput> {
    let blockers = named::blockers(read, task.id).await?;
    let names = |tasks: &[&Task]| tasks.iter().map(|task| task.short_id.to_string()).collect();
    let unfinished: Vec<&Task> = blockers.iter().filter(|blocker| blocker.status != Status::Done).collect();
    Ok(DependencyOutput {
        added,
        removed,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        blocked_by: names(&blockers.iter().collect::<Vec<_>>()),
        unfinished: names(&unfinished),
    })
}
