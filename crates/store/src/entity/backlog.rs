//! Backlog items by slug, and what was last agreed on with their files.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{text, values};
use taskyard_domain::backlog::Agreed;
use taskyard_domain::id::{TaskId, WorkspaceId};
use taskyard_domain::task::{Kind, Task};
use taskyard_domain::{Result, Timestamp};
use uuid::Uuid;

/// The Markdown file of an item, as it was when both sides last agreed.
#[derive(Debug, Clone, PartialEq)]
pub struct BacklogFile {
    /// Its UUID.
    pub id: Uuid,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// Its item; `None` once that is deleted.
    pub task_id: Option<TaskId>,
    /// Which folder of files it lies in; empty for one that was seen before folders were told apart.
    pub folder: String,
    /// The item's kind.
    pub kind: Kind,
    /// The item's slug.
    pub slug: String,
    /// Where it lies in the folder, parts joined by `/`.
    pub path: String,
    /// Its whole text when it was last seen.
    pub text: String,
    /// What both sides agreed on last, field by field.
    pub agreed: Agreed,
    /// When that was.
    pub updated_at: Timestamp,
}

entity!(BacklogFile, "backlog_file", "backlog file", {
    id, workspace_id, task_id, folder, kind, slug, path, text, agreed as json, updated_at,
});

impl Tx {
    /// Stores what is known of a file now; the row of the same id is replaced. Of more than `folders` that know the item
    /// those are forgotten in which it changed longest ago.
    pub async fn backlog_file_save(&mut self, file: &BacklogFile, folders: i64) -> Result<()> {
        if self.by_id::<BacklogFile>(file.id).await?.is_some() {
            return self.update(file).await;
        }
        self.insert(file).await?;
        let mut all = values![file.workspace_id, file.kind];
        all.push(text(&file.slug));
        let others = "WHERE workspace_id = $1 AND kind = $2 AND slug = $3 ORDER BY updated_at DESC, id DESC";
        let known: Vec<BacklogFile> = self.read.select(others, all).await?;
        let keep = usize::try_from(folders).unwrap_or_default().max(1);
        for old in known.into_iter().skip(keep).filter(|old| old.id != file.id) {
            self.delete::<BacklogFile>(old.id).await?;
        }
        Ok(())
    }
}

impl Read {
    /// The item with this slug among its kind.
    pub async fn task_by_slug(&mut self, workspace: WorkspaceId, kind: Kind, slug: &str) -> Result<Option<Task>> {
        self.select_one("WHERE workspace_id = $1 AND kind = $2 AND slug = $3", {
            let mut all = values![workspace, kind];
            all.push(text(slug));
            all
        })
        .await
    }

    /// What is known of the file of an item in `folder`.
    pub async fn backlog_file(&mut self, workspace: WorkspaceId, folder: &str, kind: Kind, slug: &str) -> Result<Option<BacklogFile>> {
        let mut all = values![workspace, kind];
        all.extend([text(slug), text(folder)]);
        let own_first = "WHERE workspace_id = $1 AND kind = $2 AND slug = $3 AND folder IN ($4, '') ORDER BY folder DESC LIMIT 1";
        self.select_one(own_first, all).await
    }

    /// What is known of the file of an item in whatever folder it was seen last.
    pub async fn backlog_file_anywhere(&mut self, workspace: WorkspaceId, kind: Kind, slug: &str) -> Result<Option<BacklogFile>> {
        let mut all = values![workspace, kind];
        all.push(text(slug));
        let newest = "WHERE workspace_id = $1 AND kind = $2 AND slug = $3 ORDER BY updated_at DESC, id DESC LIMIT 1";
        self.select_one(newest, all).await
    }

    /// The workspace's items that have a slug, archived ones left out: plans, epics, tasks, each by slug.
    pub async fn task_with_slug(&mut self, workspace: WorkspaceId) -> Result<Vec<Task>> {
        let order = "CASE kind WHEN 'plan' THEN 0 WHEN 'epic' THEN 1 ELSE 2 END, slug";
        self.select(&format!("WHERE workspace_id = $1 AND slug IS NOT NULL AND archived_at IS NULL ORDER BY {order}"), values![workspace])
            .await
    }
}
