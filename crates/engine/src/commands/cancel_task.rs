//! `cancel_task`: stops the whole process tree of a task's run and keeps its worktree.

use super::claim::{self, End};
use crate::effect::Effect;
use crate::merge::none_under_way;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::id::{RunId, TaskId};
use taskyard_domain::run::{Kind, Outcome};
use taskyard_domain::task::{Context, Fact, Status, Task, Word};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// Longest that the answer waits for the processes to be gone; ending them is bounded well below.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Calls a task off.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelTask {
    /// UUID or short id.
    pub task_id: String,
}

/// A task that was called off.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskCancelled {
    /// Whether it is cancelled now: not a done one, of which only a claim was ended.
    pub cancelled: bool,
    /// The task's UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's status now.
    pub status: String,
    /// The run that was ended, if one was open.
    pub ended_run_id: Option<String>,
    /// Whether the worktree is kept: always true where there is one.
    pub worktree_kept: bool,
}

enum Found {
    /// A managed run; its processes end first.
    Managed(TaskId, RunId),
    /// A claim; it has ended with its record.
    Claimed(TaskId, RunId),
    /// No open run.
    Idle(TaskId),
}

impl Engine {
    /// Ends an open run with its whole process tree, else takes the task out of queue or backlog.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for a done task and while a merge of it is open; `CONFLICT` while one goes on; `UNAVAILABLE` when the processes aren't gone in time (they are still
    /// being ended); `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn cancel_task(&self, caller: &Caller, input: CancelTask) -> Result<TaskCancelled> {
        caller.require_person("cancel a task")?;
        let caller = caller.clone();
        let found = self
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let task = handle::task(tx, &caller, "task_id", &input.task_id).await?;
                    let mut task = tx.task_lock(task.id).await?.unwrap_or(task);
                    let open = tx.run_open_for_task(task.id).await?;
                    let metadata = json!({ "previous_status": task.status, "run_id": open.as_ref().map(|run| run.id) });
                    let about = (task.workspace_id, About::Task(task.id));
                    let noted = async |tx: &mut Tx| change::audit(tx, &caller, about.0, Action::TaskCancelled, about.1, metadata).await;
                    let Some(open) = open else {
                        if task.status != Status::Cancelled {
                            none_under_way(tx, &task).await?;
                            call_off(tx, &mut task).await?;
                            noted(tx).await?;
                        }
                        return Ok(Found::Idle(task.id));
                    };
                    let mut run = tx.run_lock(open.id).await?.unwrap_or(open);
                    if run.kind == Kind::Claimed {
                        none_under_way(tx, &task).await?;
                        // Nothing of ours works on it: the record is all there is to end.
                        let cause = Some("cancelled by a person".to_owned());
                        let end = End { outcome: Outcome::Cancelled, cause, review: false, unmerged_changes: false };
                        claim::end(tx, &mut task, &mut run, end).await?;
                        // A claim leaves what is no longer to be worked on as it is; this is about the task.
                        if !matches!(task.status, Status::Cancelled | Status::Done) {
                            call_off(tx, &mut task).await?;
                        }
                        noted(tx).await?;
                        let metadata = json!({ "backlog_item_id": task.id, "outcome": Outcome::Cancelled, "status": task.status, "by_claimer": false });
                        change::audit_run(tx, &caller, None, &run, Action::TaskCompleted, metadata).await?;
                        return Ok(Found::Claimed(task.id, run.id));
                    }
                    if !run.cancel_requested {
                        run.cancel_requested = true;
                        tx.run_update(&run).await?;
                        Effect::StopRun { run_id: run.id }.push(tx).await?;
                        noted(tx).await?;
                    }
                    Ok(Found::Managed(task.id, run.id))
                })
            })
            .await?;
        match found {
            Found::Idle(task) => self.cancelled(task, None).await,
            Found::Claimed(task, run) => self.cancelled(task, Some(run)).await,
            Found::Managed(task, run) => {
                if !self.run_ended(run, END_LIMIT).await? {
                    return Err(Error::unavailable("the run is being cancelled, but its processes are not gone yet")
                        .with_hint("look again with get_task; the cancel stands"));
                }
                self.cancelled(task, Some(run)).await
            }
        }
    }

    async fn cancelled(&self, task_id: TaskId, run: Option<RunId>) -> Result<TaskCancelled> {
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let task = read.task_fetch(task_id).await?.ok_or_else(|| Error::not_found("task", task_id))?;
                    let worktree = read.worktree_current(task_id).await?;
                    Ok(TaskCancelled {
                        cancelled: task.status == Status::Cancelled,
                        task_id: task.id.to_string(),
                        short_id: task.short_id.to_string(),
                        status: task.status.to_string(),
                        ended_run_id: run.map(|id| id.to_string()),
                        worktree_kept: worktree.is_some_and(|w| w.has_folder),
                    })
                })
            })
            .await
    }
}

async fn call_off(tx: &mut Tx, task: &mut Task) -> Result<()> {
    task.failure = None;
    change::status(tx, task, Fact::Word(Word::Cancelled), Context::default()).await
}
