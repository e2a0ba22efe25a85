//! Lists.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{ListId, WorkspaceId};
use taskyard_domain::list::List;

entity!(List, "list", "list", { id, workspace_id, name, description, prompt, sort_order, config as json, created_at });

impl Tx {
    /// Stores a new list.
    pub async fn list_insert(&mut self, list: &List) -> Result<()> {
        self.insert(list).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn list_update(&mut self, list: &List) -> Result<()> {
        self.update(list).await
    }

    /// Deletes a list.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `FAILED_PRECONDITION` when it has tasks.
    pub async fn list_delete(&mut self, id: ListId) -> Result<()> {
        self.delete::<List>(id).await
    }
}

impl Read {
    /// The list with this id.
    pub async fn list_fetch(&mut self, id: ListId) -> Result<Option<List>> {
        self.by_id(id).await
    }

    /// The workspace's lists in their order.
    pub async fn list_list(&mut self, workspace: WorkspaceId) -> Result<Vec<List>> {
        self.select("WHERE workspace_id = $1 ORDER BY sort_order, created_at, id", values![workspace]).await
    }
}
