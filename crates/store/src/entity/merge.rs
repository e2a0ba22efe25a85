//! Merge records and snapshots.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{Field as _, values};
use std::fmt::Write as _;
use taskyard_domain::Result;
use taskyard_domain::id::{MergeId, RepositoryId, SnapshotId, TaskId, WorktreeId};
use taskyard_domain::merge::{MergeRecord, Snapshot};

entity!(MergeRecord, "merge_record", "merge record", {
    id, unit_id, workspace_id, task_id, worktree_id, kind, reverts, state, strategy, target, target_before, target_after, tip,
    merge_base, message, merge_worktree_path, actor, is_approval, created_at, landed_at,
});

entity!(Snapshot, "snapshot", "snapshot", {
    id, workspace_id, repository_id, task_id, worktree_id, ref_name, commit = "commit_id", reason, created_at, restored_to,
});

impl Tx {
    /// Stores a new merge record.
    pub async fn merge_insert(&mut self, merge: &MergeRecord) -> Result<()> {
        self.insert(merge).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn merge_update(&mut self, merge: &MergeRecord) -> Result<()> {
        self.update(merge).await
    }

    /// The merge record, locked until the end of the transaction.
    pub async fn merge_lock(&mut self, id: MergeId) -> Result<Option<MergeRecord>> {
        self.lock(id).await
    }

    /// Stores a new snapshot.
    pub async fn snapshot_insert(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.insert(snapshot).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn snapshot_update(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.update(snapshot).await
    }
}

impl Read {
    /// The merge record with this id.
    pub async fn merge_fetch(&mut self, id: MergeId) -> Result<Option<MergeRecord>> {
        self.by_id(id).await
    }

    /// The task's merge records, oldest first.
    pub async fn merge_list(&mut self, task: TaskId) -> Result<Vec<MergeRecord>> {
        self.select("WHERE task_id = $1 ORDER BY created_at, id", values![task]).await
    }

    /// Every merge record on the server that is prepared, computed or open, oldest first.
    pub async fn merge_unfinished(&mut self) -> Result<Vec<MergeRecord>> {
        self.select("WHERE state IN ('prepared', 'computed', 'open') ORDER BY created_at, id", Vec::new()).await
    }

    /// The worktree's record that landed last and wasn't undone, merge or revert.
    pub async fn merge_last_landed(&mut self, worktree: WorktreeId) -> Result<Option<MergeRecord>> {
        let tail = "WHERE worktree_id = $1 AND state = 'landed' ORDER BY landed_at DESC, id DESC LIMIT 1";
        self.select_one(tail, values![worktree]).await
    }

    /// The snapshot with this id.
    pub async fn snapshot_fetch(&mut self, id: SnapshotId) -> Result<Option<Snapshot>> {
        self.by_id(id).await
    }

    /// The snapshots of a task, of a repository, or all, oldest first.
    pub async fn snapshot_list(&mut self, task: Option<TaskId>, repository: Option<RepositoryId>) -> Result<Vec<Snapshot>> {
        let mut values = Vec::new();
        let mut sql = String::from("WHERE 1 = 1");
        for (column, value) in [("task_id", task.map(|id| id.value())), ("repository_id", repository.map(|id| id.value()))] {
            if let Some(value) = value {
                values.push(value);
                let _ = write!(sql, " AND {column} = ${}", values.len());
            }
        }
        sql.push_str(" ORDER BY created_at, id");
        self.select(&sql, values).await
    }
}
