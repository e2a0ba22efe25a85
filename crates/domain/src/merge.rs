//! The record of a merge: what moved from where to where, and how far the saga got.

use crate::id::{MergeId, TaskId, WorkspaceId, WorktreeId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

crate::vocabulary! {
    /// How the work gets onto the target.
    Strategy, "strategy", {
        /// Always a merge commit.
        Merge = "merge",
        /// One commit with all changes.
        Squash = "squash",
        /// The task's commits on top of the target.
        Rebase = "rebase",
    }
}

crate::vocabulary! {
    /// What a record is about.
    Kind, "merge kind", {
        /// Work going in.
        Merge = "merge",
        /// Work coming out again.
        Revert = "revert",
    }
}

crate::vocabulary! {
    /// How far it got.
    State, "merge state", {
        /// Intended; nothing has happened outside the database.
        Prepared = "prepared",
        /// The result exists under a private ref; the target hasn't moved.
        Computed = "computed",
        /// A conflict is open in a private merge worktree.
        Open = "open",
        /// The target has moved.
        Landed = "landed",
        /// Undone by a later revert.
        Reverted = "reverted",
        /// Given up; nothing changed.
        Aborted = "aborted",
    }
}

/// A merge or a revert, per worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRecord {
    /// Its UUID.
    pub id: MergeId,
    /// Shared by records that landed as one.
    pub unit_id: Option<Uuid>,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The task.
    pub task_id: TaskId,
    /// The worktree whose work it is.
    pub worktree_id: WorktreeId,
    /// Merge or revert.
    pub kind: Kind,
    /// For a revert: the merge that it undoes.
    pub reverts: Option<MergeId>,
    /// How far it got.
    pub state: State,
    /// By which strategy.
    pub strategy: Strategy,
    /// The branch merged into.
    pub target: String,
    /// Its commit before.
    pub target_before: String,
    /// Its commit after.
    pub target_after: Option<String>,
    /// The task branch's tip that was merged.
    pub tip: String,
    /// The merge base.
    pub merge_base: Option<String>,
    /// The message asked for.
    pub message: Option<String>,
    /// The private merge worktree of an open conflict.
    pub merge_worktree_path: Option<String>,
    /// The label of who decided it.
    pub actor: String,
    /// Whether it is the merge of an approving review.
    pub is_approval: bool,
    /// When it was intended.
    pub created_at: Timestamp,
    /// When the target moved.
    pub landed_at: Option<Timestamp>,
}

/// A snapshot of unsaved work under a private ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its UUID.
    pub id: crate::id::SnapshotId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The repository that holds it.
    pub repository_id: crate::id::RepositoryId,
    /// The task it was taken of.
    pub task_id: Option<TaskId>,
    /// The worktree it was taken of.
    pub worktree_id: Option<WorktreeId>,
    /// The private ref, `refs/taskyard/snapshots/…`.
    pub ref_name: String,
    /// Its commit.
    pub commit: String,
    /// Why it was taken.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
    /// Where it was last restored to.
    pub restored_to: Option<String>,
}
