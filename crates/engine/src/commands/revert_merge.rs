//! `revert_merge`: undoes a task's merge with one new commit.

use crate::merge::MergeView;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;

/// Which merge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RevertMerge {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
    /// The local branch to undo it on; the one it was merged into by default.
    #[serde(default)]
    pub target_branch: Option<String>,
}

/// A merge that was undone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RevertMergeOutput {
    /// Always true.
    pub reverted: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's status now.
    pub status: String,
    /// The revert: `commit` is the new commit, `tip` the one that it undoes.
    pub revert: MergeView,
}

impl Engine {
    /// Undoes the recorded merge of a done task, which then waits for review again; its work is kept.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without a recorded merge, or when it is already reverted (with the commit that did);
    /// `CONFLICT` with the files that later work has changed too; `FORBIDDEN` for an agent that Taskyard runs.
    /// Nothing has changed in any case.
    pub async fn revert_merge(&self, caller: &Caller, input: RevertMerge) -> Result<RevertMergeOutput> {
        caller.require_person("revert a merge")?;
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let done = self.revert_worktree(caller, place.worktree.id, input.target_branch).await?;
        Ok(RevertMergeOutput {
            reverted: true,
            task_id: done.task.id.to_string(),
            short_id: done.task.short_id.to_string(),
            status: done.task.status.to_string(),
            revert: MergeView::from(&done),
        })
    }
}
