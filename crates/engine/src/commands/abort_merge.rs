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
    /// The snapshot of what was resolved or left in the merge worktree, for `restore_snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Engine {
    /// Removes the private merge worktree, with a snapshot of what a person did in it. The target was never moved; the task
    /// still waits for review.
    ///
    /// # Errors
    /// `NOT_FOUND` without a worktree; `FAILED_PRECONDITION` when its files can't be kept; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn abort_merge(&self, caller: &Caller, input: AbortMerge) -> Result<AbortMergeOutput> {
        caller.require_person("abort a merge")?;
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let given_up = self.abort_open(caller, place.worktree.id).await?;
        let snapshot_id = given_up.snapshot.map(|snapshot| snapshot.id.to_string());
        let task = place.task();
        Ok(AbortMergeOutput {
            aborted: true,
            was_open: given_up.was_open,
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            status: task.status.to_string(),
            note: snapshot_id
                .as_ref()
                .map(|id| format!("what was done in the merge worktree is kept; restore_snapshot({id}) brings it back")),
            snapshot_id,
        })
    }
}
