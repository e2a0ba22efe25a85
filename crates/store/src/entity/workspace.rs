//! Workspaces and their counters.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{text, values};
use taskyard_domain::Result;
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::workspace::Workspace;

entity!(Workspace, "workspace", "workspace", { id, slug, name, task_prefix, prompt, default_profile_id, created_at });

impl Tx {
    /// Stores a new workspace with its counters.
    ///
    /// # Errors
    /// `CONFLICT` when the slug or the task prefix is taken.
    pub async fn workspace_insert(&mut self, workspace: &Workspace) -> Result<()> {
        self.insert(workspace).await?;
        let counter = |kind: &str| values![workspace.id, kind.to_owned(), 0_i64];
        self.insert_rows("counter", &["workspace_id", "kind", "value"], vec![counter("event"), counter("task")]).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `CONFLICT` when the slug is taken.
    pub async fn workspace_update(&mut self, workspace: &Workspace) -> Result<()> {
        self.update(workspace).await
    }

    /// The workspace, locked until the end of the transaction.
    pub async fn workspace_lock(&mut self, id: WorkspaceId) -> Result<Option<Workspace>> {
        self.lock(id).await
    }

    /// The next number of the workspace's short ids: 1, 2, 3 …, never given twice.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such workspace.
    pub async fn workspace_next_number(&mut self, id: WorkspaceId) -> Result<i64> {
        self.counter_add(id, "task", 1).await
    }
}

impl Read {
    /// The workspace with this id.
    pub async fn workspace_fetch(&mut self, id: WorkspaceId) -> Result<Option<Workspace>> {
        self.by_id(id).await
    }

    /// The workspace with this slug.
    pub async fn workspace_by_slug(&mut self, slug: &str) -> Result<Option<Workspace>> {
        self.select_one("WHERE slug = $1", vec![text(slug)]).await
    }

    /// Every workspace, oldest first.
    pub async fn workspace_list(&mut self) -> Result<Vec<Workspace>> {
        self.select("ORDER BY created_at, id", Vec::new()).await
    }
}
