//! `list_snapshots`: the private refs that keep what was unsaved when a worktree was put away.

use super::paging;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::id::RepositoryId;
use taskyard_domain::merge::Snapshot;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::Read;

/// Which snapshots.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListSnapshots {
    /// Only those of this task.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Only those in this repository.
    #[serde(default)]
    pub repository_id: Option<String>,
}

/// A snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SnapshotRow {
    /// The id that `restore_snapshot` takes.
    pub snapshot_id: String,
    /// The task it was taken of; null once that is deleted.
    pub task_id: Option<String>,
    /// The repository that holds it.
    pub repository_id: String,
    /// The private ref.
    #[serde(rename = "ref")]
    pub ref_name: String,
    /// Its commit.
    pub commit: String,
    /// Why it was taken.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
    /// Where it was last restored to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_to: Option<String>,
}

impl From<&Snapshot> for SnapshotRow {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            snapshot_id: snapshot.id.to_string(),
            task_id: snapshot.task_id.map(|id| id.to_string()),
            repository_id: snapshot.repository_id.to_string(),
            ref_name: snapshot.ref_name.clone(),
            commit: snapshot.commit.clone(),
            reason: snapshot.reason.clone(),
            created_at: snapshot.created_at,
            restored_to: snapshot.restored_to.clone(),
        }
    }
}

/// The snapshots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListSnapshotsOutput {
    /// Newest first.
    pub snapshots: Vec<SnapshotRow>,
    /// How many there are.
    pub total: usize,
    /// Whether older ones didn't fit; narrow by task or repository.
    pub has_more: bool,
}

impl Engine {
    /// The snapshots, newest first, as many as fit into 10 KB.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown task or repository.
    pub async fn list_snapshots(&self, caller: &Caller, input: ListSnapshots) -> Result<ListSnapshotsOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { list(read, &caller, input).await })).await
    }
}

async fn list(read: &mut Read, caller: &Caller, input: ListSnapshots) -> Result<ListSnapshotsOutput> {
    let task = match &input.task_id {
        Some(handle) => Some(handle::task(read, caller, "task_id", handle).await?.id),
        None => None,
    };
    let repository = match &input.repository_id {
        Some(text) => Some(known_repository(read, caller, text).await?),
        None => None,
    };
    let own = caller.workspace_id();
    let mut found = read.snapshot_list(task, repository).await?;
    found.retain(|snapshot| own.is_none_or(|own| own == snapshot.workspace_id));
    found.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(b.id.cmp(&a.id)));
    let total = found.len();
    let mut snapshots: Vec<SnapshotRow> = found.iter().take(200).map(SnapshotRow::from).collect();
    let fit = paging::fitting(&snapshots, paging::ROWS);
    snapshots.truncate(fit);
    Ok(ListSnapshotsOutput { has_more: snapshots.len() < total, snapshots, total })
}

async fn known_repository(read: &mut Read, caller: &Caller, text: &str) -> Result<RepositoryId> {
    let id: RepositoryId = handle::id("repository_id", text)?;
    let none = || Error::not_found("repository", text).with_field("repository_id");
    let repository = read.repository_fetch(id).await?.ok_or_else(none)?;
    caller.require_workspace(repository.workspace_id, "repository", text)?;
    Ok(id)
}
