//! `reset_failed_task`: a failed task can be queued again, with its worktree as it is.

use super::locked;
use crate::merge::check_no_run;
use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::Result;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::task::{Context, Fact, Status};
use taskyard_store::Tx;

/// Which task to reset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResetFailedTask {
    /// The task.
    pub task_id: String,
}

/// The task that is ready again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResetFailedTaskOutput {
    /// True.
    pub reset: bool,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// `ready`.
    pub status: String,
    /// Whether it has a worktree, which is kept.
    pub worktree_kept: bool,
}

impl Engine {
    /// Makes a failed task ready again. One that is ready already stays so.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for a task in any other status.
    pub async fn reset_failed_task(&self, caller: &Caller, input: ResetFailedTask) -> Result<ResetFailedTaskOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { reset(tx, &caller, input).await })).await
    }
}

async fn reset(tx: &mut Tx, caller: &Caller, input: ResetFailedTask) -> Result<ResetFailedTaskOutput> {
    let mut task = locked::task(tx, caller, "task_id", &input.task_id).await?;
    if task.status == Status::Failed {
        check_no_run(tx, &task).await?;
        task.failure = None;
        task.not_before = None;
        task.interruptions = 0;
        change::status(tx, &mut task, Fact::Reset, Context::default()).await?;
        change::audit(tx, caller, task.workspace_id, Action::TaskReset, About::Task(task.id), json!({ "status": task.status })).await?;
    } else {
        taskyard_domain::task::next(task.status, Fact::Reset, Context::default())?;
    }
    let worktree = tx.worktree_current(task.id).await?;
    Ok(ResetFailedTaskOutput {
        reset: true,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        status: task.status.to_string(),
        worktree_kept: worktree.is_some(),
    })
}
