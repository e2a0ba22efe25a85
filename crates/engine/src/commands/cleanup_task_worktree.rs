//! `cleanup_task_worktree`: removes a worktree's folder without losing anything.

use crate::merge::Loss;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::id::WorktreeId;
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};
use taskyard_store::WorktreeFilter;

/// Which worktree, and whether unsaved work may go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CleanupTaskWorktree {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
    /// Whether unsaved work is put into a snapshot instead of refusing.
    #[serde(default)]
    pub discard_changes: bool,
}

/// A folder that is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CleanupTaskWorktreeOutput {
    /// Always true: the folder is not there any more.
    pub removed: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The worktree.
    pub worktree_id: String,
    /// Its state now.
    pub worktree_state: String,
    /// The folder that was removed.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// Whether the branch went too, because another ref has everything of it.
    pub branch_deleted: bool,
    /// The snapshot of what was unsaved, for `restore_snapshot`.
    pub snapshot_id: Option<String>,
}

impl Engine {
    /// Removes a worktree's folder. Its branch stays while it holds commits of its own.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` with what would be lost unless `discard_changes` allows a snapshot, for a process that
    /// works in it, an open run or an open merge; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn cleanup_task_worktree(&self, caller: &Caller, input: CleanupTaskWorktree) -> Result<CleanupTaskWorktreeOutput> {
        caller.require_person("clean up worktrees")?;
        let (task, place) = self.find_place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let worktree = match place {
            Some(place) => place.worktree.id,
            None => self.last_discarded(&task).await?,
        };
        let loss = if input.discard_changes { Loss::Snapshot("cleanup_task_worktree with discard_changes".into()) } else { Loss::Refuse };
        let aside = self.put_away(caller, worktree, loss).await?;
        Ok(CleanupTaskWorktreeOutput {
            removed: true,
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            worktree_id: aside.worktree.id.to_string(),
            worktree_state: aside.worktree.state.to_string(),
            path: aside.worktree.path,
            branch: aside.worktree.branch,
            branch_deleted: aside.branch_deleted,
            snapshot_id: aside.snapshot.map(|snapshot| snapshot.id.to_string()),
        })
    }

    /// The newest worktree of a task that has only discarded ones: cleaning up again is fine.
    async fn last_discarded(&self, task: &Task) -> Result<WorktreeId> {
        let filter = WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() };
        let mut all = self.store().read(move |read| Box::pin(async move { read.worktree_list(filter).await })).await?;
        let none = || Error::not_found("worktree", format!("of {}", task.short_id)).with_field("task_id");
        all.pop().map(|worktree| worktree.id).ok_or_else(none)
    }
}
