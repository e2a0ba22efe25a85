//! Repositories.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{RepositoryId, WorkspaceId};
use taskyard_domain::repository::Repository;

entity!(Repository, "repository", "repository", {
    id, workspace_id, name, local_path, remote_url, default_branch, branch_prefix, setup_script, cleanup_script, verify_script,
    copy_files as json, hook_policy, sign_policy, created_at,
});

impl Tx {
    /// Stores a new repository.
    ///
    /// # Errors
    /// `CONFLICT` when its path is in the workspace already.
    pub async fn repository_insert(&mut self, repository: &Repository) -> Result<()> {
        self.insert(repository).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn repository_update(&mut self, repository: &Repository) -> Result<()> {
        self.update(repository).await
    }
}

impl Read {
    /// The repository with this id.
    pub async fn repository_fetch(&mut self, id: RepositoryId) -> Result<Option<Repository>> {
        self.by_id(id).await
    }

    /// The workspace's repositories, oldest first.
    pub async fn repository_list(&mut self, workspace: WorkspaceId) -> Result<Vec<Repository>> {
        self.select("WHERE workspace_id = $1 ORDER BY created_at, id", values![workspace]).await
    }

    /// The workspace's repository at this local path.
    pub async fn repository_by_path(&mut self, workspace: WorkspaceId, path: &str) -> Result<Option<Repository>> {
        self.select_one("WHERE workspace_id = $1 AND local_path = $2", values![workspace, path.to_owned()]).await
    }
}
