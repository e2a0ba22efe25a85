//! `delete_task`: takes a task away and keeps its work.
//!
//! The task is set aside first, so that nothing starts it; then its worktrees are put away, with a snapshot of
//! what is unsaved; then the record goes. A failure on the way brings the task back as it was.

use super::{locked, named};
use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RunId, TaskId};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::{Error, Result, Timestamp, merge};
use taskyard_store::{Read, Tx, WorktreeFilter};

/// Which task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteTask {
    /// UUID or short id.
    pub task_id: String,
}

/// The task that is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteTaskOutput {
    /// True.
    pub deleted: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`, never given to another task.
    pub short_id: String,
    /// Its title.
    pub title: String,
    /// Children that went to its parent, or to the top level, by short id.
    pub reparented: Vec<String>,
    /// Their parent now.
    pub new_parent_id: Option<String>,
    /// Snapshots of what was unsaved in its worktrees, for `restore_snapshot`.
    pub snapshots: Vec<String>,
}

/// A task that was set aside to be deleted.
struct Aside {
    id: TaskId,
    archived_before: Option<Timestamp>,
    has_worktrees: bool,
}

impl Engine {
    /// Deletes a task that doesn't run. Its children go to its parent; branches with work of their own stay, and what
    /// was unsaved in its worktrees is in a snapshot.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while a run or a merge of it is open, or while other tasks wait for it unfinished;
    /// `FORBIDDEN` for an agent that didn't make it.
    pub async fn delete_task(&self, caller: &Caller, input: DeleteTask) -> Result<DeleteTaskOutput> {
        let (owned, task_id) = (caller.clone(), input.task_id.clone());
        let aside = self.store().write(move |tx| Box::pin(async move { set_aside(tx, &owned, &task_id).await })).await?;
        let id = aside.id;
        let archived_before = aside.archived_before;
        let deleted = self.delete_aside(caller.clone(), aside).await;
        if deleted.is_err() {
            self.store().write(move |tx| Box::pin(async move { bring_back(tx, id, archived_before).await })).await?;
        }
        deleted
    }

    async fn delete_aside(&self, caller: Caller, aside: Aside) -> Result<DeleteTaskOutput> {
        if aside.has_worktrees {
            self.release_task(aside.id).await?;
        }
        self.store().write(move |tx| Box::pin(async move { delete(tx, &caller, aside).await })).await
    }
}

async fn set_aside(tx: &mut Tx, caller: &Caller, task_id: &str) -> Result<Aside> {
    let mut task = locked::task(tx, caller, "task_id", task_id).await?;
    check_own(tx, caller, &task).await?;
    check_free(tx, &task).await?;
    let worktrees = tx.worktree_list(WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() }).await?;
    let aside = Aside {
        id: task.id,
        archived_before: task.archived_at,
        has_worktrees: worktrees.iter().any(|worktree| worktree.has_folder || !worktree.is_ready),
    };
    if aside.has_worktrees && task.archived_at.is_none() {
        task.archived_at = Some(tx.now());
        tx.task_update(&task).await?;
    }
    Ok(aside)
}

async fn bring_back(tx: &mut Tx, id: TaskId, archived_before: Option<Timestamp>) -> Result<()> {
    let Some(mut task) = tx.task_lock(id).await? else { return Ok(()) };
    if task.archived_at != archived_before {
        task.archived_at = archived_before;
        tx.task_update(&task).await?;
    }
    Ok(())
}

async fn delete(tx: &mut Tx, caller: &Caller, aside: Aside) -> Result<DeleteTaskOutput> {
    let task = locked::task(tx, caller, "task_id", &aside.id.to_string()).await?;
    check_free(tx, &task).await?;
    let mut reparented = Vec::new();
    for child in tx.task_children(task.id).await? {
        let Some(mut child) = tx.task_lock(child.id).await? else { continue };
        child.parent_id = task.parent_id;
        change::task(tx, &mut child, &["parent_id"]).await?;
        reparented.push(child.short_id.to_string());
    }
    let snapshots = tx.snapshot_list(Some(task.id), None).await?.iter().map(|snapshot| snapshot.id.to_string()).collect();
    tx.task_delete(task.id).await?;
    let data = json!({ "short_id": task.short_id, "title": task.title, "status": task.status, "reparented": reparented });
    tx.event(NewEvent::new(task.workspace_id, Kind::TaskDeleted).task(task.id).data(data.clone()));
    change::audit(tx, caller, task.workspace_id, "task.deleted", ("task", task.id), data).await?;
    Ok(DeleteTaskOutput {
        deleted: true,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        title: task.title,
        new_parent_id: task.parent_id.filter(|_| !reparented.is_empty()).map(|id| id.to_string()),
        reparented,
        snapshots,
    })
}

/// Refuses a task that something still hangs on.
async fn check_free(read: &mut Read, task: &Task) -> Result<()> {
    let name = &task.short_id;
    if let Some(run) = read.run_open_for_task(task.id).await? {
        return Err(Error::precondition(format!("{name} can't be deleted: a run of it is open"))
            .with_details(json!({ "run_id": run.id, "kind": run.kind }))
            .with_hint("end it with cancel_task first"));
    }
    if read.merge_list(task.id).await?.iter().any(|record| record.state == merge::State::Open) {
        return Err(Error::precondition(format!("{name} can't be deleted: a merge of it is open"))
            .with_hint("end it with abort_merge or continue_merge first"));
    }
    if task.status == Status::Done {
        return Ok(());
    }
    let waiting = named::dependants(read, task.id).await?;
    let waiting: Vec<String> =
        waiting.iter().filter(|t| !matches!(t.status, Status::Done | Status::Cancelled)).map(|t| t.short_id.to_string()).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    // Without its blocker a dependant would start from a base that lacks the blocker's work.
    Err(Error::precondition(format!("{name} can't be deleted: {} would start without its work", waiting.join(", ")))
        .with_details(json!({ "waiting": waiting }))
        .with_hint("remove_task_dependency for each of them first, or delete them first"))
}

/// Refuses a run that didn't make the task, by itself or through its task's descendants.
async fn check_own(read: &mut Read, caller: &Caller, task: &Task) -> Result<()> {
    let Some(own) = caller.task_id() else { return Ok(()) };
    let maker: Option<RunId> = task.created_by.strip_prefix("run:").and_then(|id| id.parse().ok());
    let maker = match maker {
        Some(run) => read.run_fetch(run).await?.map(|run| run.task_id),
        None => None,
    };
    let mut at = maker;
    let mut seen = Vec::new();
    while let Some(id) = at.filter(|id| !seen.contains(id)) {
        if id == own {
            return Ok(());
        }
        seen.push(id);
        at = read.task_fetch(id).await?.and_then(|task| task.parent_id);
    }
    let hint = "an agent may delete only tasks that it or its subtasks' agents made";
    Err(Error::forbidden(format!("{} wasn't made by this run's task", task.short_id)).with_hint(hint))
}
