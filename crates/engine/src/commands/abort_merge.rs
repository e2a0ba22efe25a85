//! `abort_merge`: gives up a merge that was left open.

use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;

/// Which open merge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AbortMerge {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
}

/// No merge is open any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AbortMergeOutput {
    /// Always true: no merge is open now.
    pub aborted: bool,
    /// Whether one was open before.
    pub was_open: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's status, which is as before.
    pub status: String,
}

impl Engine {
    /// Removes the private merge worktree. The target was never moved; the task still waits for review.
    ///
    /// # Errors
    /// `NOT_FOUND` without a worktree; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn abort_merge(&self, caller: &Caller, input: AbortMerge) -> Result<AbortMergeOutput> {
        caller.require_person("abort a merge")?;
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let was_open = self.abort_open(caller, place.worktree.id).await?;
        let task = place.task();
        Ok(AbortMergeOutput {
            aborted: true,
            was_open,
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            status: task.status.to_string(),
        })
    }
}
