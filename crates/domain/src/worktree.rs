//! The worktree of a task: where its agent works and what became of it.

use crate::id::{RepositoryId, TaskId, WorkspaceId, WorktreeId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What became of a worktree.
    State, "worktree state", {
        /// Its work is not merged.
        Active = "active",
        /// Its work is merged.
        Merged = "merged",
        /// Its merge was reverted; its tip is kept.
        Kept = "kept",
        /// Removed, with a snapshot of what was unsaved.
        Discarded = "discarded",
    }
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Its UUID.
    pub id: WorktreeId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The task it was made for.
    pub task_id: TaskId,
    /// The repository it is of.
    pub repository_id: RepositoryId,
    /// Its folder, absolute.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The local branch it was made from, if it was one.
    pub base_branch: Option<String>,
    /// The commit it was made from.
    pub base_commit: String,
    /// What became of it.
    pub state: State,
    /// Whether making it is finished; an unfinished one is completed or taken away by the reconciler.
    pub is_ready: bool,
    /// Whether the folder is there.
    pub has_folder: bool,
    /// The last known tip of its branch.
    pub tip: Option<String>,
    /// The private ref that keeps the tip of a merged or kept one.
    pub kept_ref: Option<String>,
    /// Files copied in with their content hashes, so that they count as nobody's work.
    pub copied_files: Vec<CopiedFile>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// An untracked file that Taskyard copied into a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFile {
    /// Path inside the worktree.
    pub path: String,
    /// Hash of the content as copied.
    pub hash: String,
}
