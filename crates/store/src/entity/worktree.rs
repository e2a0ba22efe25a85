//! Worktrees.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{Field as _, values};
use std::fmt::Write as _;
use taskyard_domain::Result;
use taskyard_domain::id::{RepositoryId, TaskId, WorkspaceId, WorktreeId};
use taskyard_domain::worktree::{State, Worktree};

entity!(Worktree, "worktree", "worktree", {
    id, workspace_id, task_id, repository_id, path, branch, base_branch, base_commit, state, is_ready, has_folder, tip, kept_ref,
    copied_files as json, created_at, updated_at,
});

/// Which worktrees; every part that is given must fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorktreeFilter {
    /// The workspace.
    pub workspace: Option<WorkspaceId>,
    /// The repository.
    pub repository: Option<RepositoryId>,
    /// The state.
    pub state: Option<State>,
    /// The task.
    pub task: Option<TaskId>,
}

impl Tx {
    /// Stores a new worktree.
    pub async fn worktree_insert(&mut self, worktree: &Worktree) -> Result<()> {
        self.insert(worktree).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn worktree_update(&mut self, worktree: &Worktree) -> Result<()> {
        self.update(worktree).await
    }

    /// The worktree, locked until the end of the transaction.
    pub async fn worktree_lock(&mut self, id: WorktreeId) -> Result<Option<Worktree>> {
        self.lock(id).await
    }
}

impl Read {
    /// The worktree with this id.
    pub async fn worktree_fetch(&mut self, id: WorktreeId) -> Result<Option<Worktree>> {
        self.by_id(id).await
    }

    /// The worktrees that fit, oldest first.
    pub async fn worktree_list(&mut self, filter: WorktreeFilter) -> Result<Vec<Worktree>> {
        let parts = [
            ("workspace_id", filter.workspace.map(|id| id.value())),
            ("repository_id", filter.repository.map(|id| id.value())),
            ("state", filter.state.map(|state| state.value())),
            ("task_id", filter.task.map(|id| id.value())),
        ];
        let mut values = Vec::new();
        let mut sql = String::from("WHERE 1 = 1");
        for (column, value) in parts.into_iter().filter_map(|(column, value)| Some((column, value?))) {
            values.push(value);
            let _ = write!(sql, " AND {column} = ${}", values.len());
        }
        sql.push_str(" ORDER BY created_at, id");
        self.select(&sql, values).await
    }

    /// The task's newest worktree that isn't discarded.
    pub async fn worktree_current(&mut self, task: TaskId) -> Result<Option<Worktree>> {
        let tail = "WHERE task_id = $1 AND state <> 'discarded' ORDER BY created_at DESC, id DESC LIMIT 1";
        self.select_one(tail, values![task]).await
    }
}
