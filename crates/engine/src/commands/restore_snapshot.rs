//! `restore_snapshot`: brings what was put aside back, in a folder and on a branch of its own.

use crate::{Caller, Engine, change, fold};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::SnapshotId;
use taskyard_domain::merge::Snapshot;
use taskyard_domain::repository::Repository;
use taskyard_domain::{Error, Result};
use taskyard_git::snapshot;
use taskyard_git::worktree::{Ready, Wanted, plan};

/// Which snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RestoreSnapshot {
    /// From `list_snapshots`.
    pub snapshot_id: String,
}

/// Where it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RestoreSnapshotOutput {
    /// Always true.
    pub restored: bool,
    /// UUID.
    pub snapshot_id: String,
    /// The new folder, with the files and the index as they were.
    pub path: String,
    /// The new branch, at the commit the work was based on.
    pub branch: String,
    /// That commit.
    pub commit: String,
    /// The task it was taken of, while that exists.
    pub task_id: Option<String>,
}

impl Engine {
    /// Restores a snapshot into a new worktree. The snapshot stays, and can be restored again.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown snapshot; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn restore_snapshot(&self, caller: &Caller, input: RestoreSnapshot) -> Result<RestoreSnapshotOutput> {
        caller.require_person("restore snapshots")?;
        let (snapshot, repository) = self.find_snapshot(caller, &input.snapshot_id).await?;
        let bench = self.bench(&repository).await?;
        let name = snapshot.ref_name.rsplit('/').next().unwrap_or_default().to_owned();
        let root = self.paths().data().join("restored").join(repository.id.to_string());
        let short: String = snapshot.commit.chars().take(10).collect();
        let wanted = Wanted { root: &root, prefix: &repository.branch_prefix, name: &format!("restored-{short}") };
        let plan = plan(&bench.repo, &wanted).await.map_err(fold::git)?;
        let ready = snapshot::restore(&bench.repo, &name, &plan).await.map_err(fold::git)?;
        self.note_restored(caller, &snapshot, &ready).await?;
        Ok(RestoreSnapshotOutput {
            restored: true,
            snapshot_id: snapshot.id.to_string(),
            path: ready.path.to_string_lossy().into_owned(),
            branch: ready.branch,
            commit: ready.head.into(),
            task_id: snapshot.task_id.map(|id| id.to_string()),
        })
    }

    async fn find_snapshot(&self, caller: &Caller, text: &str) -> Result<(Snapshot, Repository)> {
        let id: SnapshotId = crate::handle::id("snapshot_id", text)?;
        let (caller, text) = (caller.clone(), text.to_owned());
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let none = || Error::not_found("snapshot", &text).with_field("snapshot_id");
                    let snapshot = read.snapshot_fetch(id).await?.ok_or_else(none)?;
                    caller.require_workspace(snapshot.workspace_id, "snapshot", &text)?;
                    let repository = read.repository_fetch(snapshot.repository_id).await?.ok_or_else(none)?;
                    Ok((snapshot, repository))
                })
            })
            .await
    }

    async fn note_restored(&self, caller: &Caller, snapshot: &Snapshot, ready: &Ready) -> Result<()> {
        let (caller, id, path) = (caller.clone(), snapshot.id, ready.path.to_string_lossy().into_owned());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut row = tx.snapshot_fetch(id).await?.ok_or_else(|| Error::not_found("snapshot", id))?;
                    row.restored_to = Some(path.clone());
                    tx.snapshot_update(&row).await?;
                    let data = json!({ "snapshot_id": id, "restored_to": path });
                    let event = NewEvent::new(row.workspace_id, Kind::SnapshotTaken).data(data.clone());
                    tx.event(match row.task_id {
                        Some(task) => event.task(task),
                        None => event,
                    });
                    change::audit(tx, &caller, row.workspace_id, Action::SnapshotRestored, About::Snapshot(id, row.task_id), data).await
                })
            })
            .await
    }
}
