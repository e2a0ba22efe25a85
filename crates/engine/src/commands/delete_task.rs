//! `delete_task`: takes a task away and keeps its work.
//!
//! The task is set aside first, so that nothing starts it; then its worktrees are put away, with a snapshot of
//! what is unsaved; then the record goes. A failure on the way brings the task back as it was. A server that dies on
//! the way leaves the intent in the outbox, and the next one finishes it.

use super::{locked, named};
use crate::effect::{Deletion, Effect};
use crate::merge::none_under_way;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RunId, TaskId};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::{Error, Result};
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

/// What the first step of a deletion came to.
pub(crate) enum Begun {
    /// There was nothing to put away first: the task is gone.
    Gone(DeleteTaskOutput),
    /// It is set aside.
    Aside(Deletion),
}

impl Engine {
    /// Deletes a task that doesn't run. Its children go to its parent; branches with work of their own stay, and what
    /// was unsaved in its worktrees is in a snapshot.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while a run or a merge of it is open, or while other tasks wait for it unfinished;
    /// `FORBIDDEN` for an agent that didn't make it.
    pub async fn delete_task(&self, caller: &Caller, input: DeleteTask) -> Result<DeleteTaskOutput> {
        let (owned, handle) = (caller.clone(), input.task_id.clone());
        let id = self.store().read(move |read| Box::pin(async move { handle::task(read, &owned, "task_id", &handle).await })).await?.id;
        let _turn = self.deletion_turn(id).await;
        match self.begin_deletion(caller, input).await? {
            Begun::Gone(output) => Ok(output),
            Begun::Aside(deletion) => self.delete_aside(&deletion).await?,
        }
    }

    /// Effect: finishes a deletion whose call was cut off. Nothing happens to one that is over, or while its call goes on.
    pub(crate) async fn finish_deletion(&self, deletion: &Deletion) -> Result<()> {
        let id = deletion.task_id;
        let _turn = self.deletion_turn(id).await;
        let task = self.store().read(move |read| Box::pin(async move { read.task_fetch(id).await })).await?;
        if task.is_some_and(|task| deletion.holds(&task))
            && let Err(error) = self.delete_aside(deletion).await?
        {
            tracing::warn!(task = %id, %error, "a deletion that was cut off can't be finished; the task is back");
        }
        Ok(())
    }

    /// Waits until no deletion of this task goes on in this process.
    async fn deletion_turn(&self, task: TaskId) -> impl Drop + use<> {
        self.git().lock(&self.paths().data().join("deleting").join(task.to_string())).await
    }

    /// First step: deletes a task without worktrees, sets others aside, so that nothing starts them.
    pub(crate) async fn begin_deletion(&self, caller: &Caller, input: DeleteTask) -> Result<Begun> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { begin(tx, &caller, &input.task_id).await })).await
    }

    /// The other steps. The outer error is the store's, when not even bringing the task back was possible.
    async fn delete_aside(&self, deletion: &Deletion) -> Result<Result<DeleteTaskOutput>> {
        let deleted = match self.release_task(&deletion.caller(), deletion.task_id).await {
            Ok(()) => {
                let (caller, id) = (deletion.caller(), deletion.task_id);
                self.store().write(move |tx| Box::pin(async move { delete(tx, &caller, id).await })).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &deleted {
            let (deletion, why) = (deletion.clone(), error.message.clone());
            self.store().write(move |tx| Box::pin(async move { bring_back(tx, &deletion, &why).await })).await?;
        }
        Ok(deleted)
    }
}

async fn begin(tx: &mut Tx, caller: &Caller, task_id: &str) -> Result<Begun> {
    let mut task = locked::task(tx, caller, "task_id", task_id).await?;
    check_own(tx, caller, &task).await?;
    check_free(tx, &task).await?;
    let worktrees = tx.worktree_list(WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() }).await?;
    if !worktrees.iter().any(|worktree| worktree.has_folder || !worktree.is_ready) {
        return delete(tx, caller, task.id).await.map(Begun::Gone);
    }
    let deletion = Deletion {
        task_id: task.id,
        aside_at: tx.now(),
        archived_before: task.archived_at,
        actor: caller.actor.clone(),
        face: caller.face,
    };
    task.archived_at = Some(deletion.aside_at);
    change::task(tx, &mut task, &["archived_at"]).await?;
    let data = json!({ "short_id": task.short_id, "title": task.title });
    change::audit(tx, caller, task.workspace_id, Action::TaskDeletionBegun, About::Task(task.id), data).await?;
    Effect::DeleteTask(deletion.clone()).push(tx).await?;
    Ok(Begun::Aside(deletion))
}

async fn bring_back(tx: &mut Tx, deletion: &Deletion, why: &str) -> Result<()> {
    let Some(mut task) = tx.task_lock(deletion.task_id).await?.filter(|task| deletion.holds(task)) else { return Ok(()) };
    task.archived_at = deletion.archived_before;
    change::task(tx, &mut task, &["archived_at"]).await?;
    let data = json!({ "short_id": task.short_id, "reason": why });
    change::audit(tx, &Caller::system(), task.workspace_id, Action::TaskDeletionUndone, About::Task(task.id), data).await
}

async fn delete(tx: &mut Tx, caller: &Caller, id: TaskId) -> Result<DeleteTaskOutput> {
    let task = locked::task(tx, caller, "task_id", &id.to_string()).await?;
    check_free(tx, &task).await?;
    let mut reparented = Vec::new();
    for child in tx.task_children(task.id).await? {
        let Some(mut child) = tx.task_lock(child.id).await? else { continue };
        child.parent_id = task.parent_id;
        change::task(tx, &mut child, &["parent_id"]).await?;
        let why = json!({ "fields": ["parent_id"], "reason": format!("{} was deleted", task.short_id) });
        change::audit(tx, caller, child.workspace_id, Action::TaskUpdated, About::Task(child.id), why).await?;
        reparented.push(child.short_id.to_string());
    }
    for waiting in tx.blocked_by_me(task.id).await? {
        let Some(mut waiting) = tx.task_lock(waiting).await? else { continue };
        tx.blocker_remove(waiting.id, task.id).await?;
        change::task(tx, &mut waiting, &["blocked_by"]).await?;
        let why = json!({ "depends_on_task_id": task.id, "reason": format!("{} was deleted", task.short_id) });
        change::audit(tx, caller, waiting.workspace_id, Action::TaskDependencyRemoved, About::Task(waiting.id), why).await?;
    }
    let snapshots = tx.snapshot_list(Some(task.id), None).await?.iter().map(|snapshot| snapshot.id.to_string()).collect();
    tx.task_delete(task.id).await?;
    let data = json!({ "short_id": task.short_id, "title": task.title, "status": task.status, "reparented": reparented });
    tx.event(NewEvent::new(task.workspace_id, Kind::TaskDeleted).task(task.id).data(data.clone()));
    change::audit(tx, caller, task.workspace_id, Action::TaskDeleted, About::Task(task.id), data).await?;
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
    none_under_way(read, task).await?;
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
