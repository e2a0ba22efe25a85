//! What a person did in the folder of an open merge is kept as a snapshot before that folder goes, whatever takes it away.
//!
//! Owns the removal of such folders once their merge is recorded. Never takes a folder whose work couldn't be kept.

use super::Bench;
use super::put_away::keep_row;
use crate::{Caller, Engine, fold};
use std::path::Path;
use taskyard_domain::id::SnapshotId;
use taskyard_domain::merge::{MergeRecord, Snapshot};
use taskyard_domain::{Error, Result};
use taskyard_git::unsaved::Known;
use taskyard_git::{Error as Git, Repo, open_merge, snapshot};

impl Engine {
    /// Takes away the folder of the merge `record`; gives the snapshot of what was in it beyond what git had put there, or
    /// of a merge that `has_landed` beyond what landed. Again: changes nothing more.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when there are files that can't be kept, because the folder is no worktree any more; git's.
    /// The folder is as it was then.
    pub(super) async fn take_away(
        &self,
        caller: &Caller,
        bench: &Bench,
        record: &MergeRecord,
        has_landed: bool,
    ) -> Result<Option<Snapshot>> {
        let Some(path) = record.merge_worktree_path.as_deref().map(Path::new) else { return Ok(None) };
        let kept = if open_merge::holds_work(&bench.repo, path, has_landed).await.map_err(unknown)? {
            self.keep_work(caller, bench, record, path).await?
        } else {
            None
        };
        open_merge::abort_merge(&bench.repo, path).await.map_err(fold::git)?;
        Ok(kept)
    }

    async fn keep_work(&self, caller: &Caller, bench: &Bench, record: &MergeRecord, path: &Path) -> Result<Option<Snapshot>> {
        let (name, author) = (record.id.to_string(), self.author(&bench.repository, &bench.repo).await?);
        let tree = Repo::open(self.git(), path).await.map_err(fold::git)?;
        let taken = snapshot::take(&tree, &name, &author.who, Known::default()).await.map_err(fold::git)?;
        let row = Snapshot {
            id: SnapshotId::new(self.ids()),
            workspace_id: record.workspace_id,
            repository_id: bench.repository.id,
            task_id: Some(record.task_id),
            worktree_id: Some(record.worktree_id),
            ref_name: snapshot::snapshot_ref(&name).map_err(fold::git)?,
            commit: taken.oid.to_string(),
            reason: format!("the open merge into {} ended", record.target),
            created_at: self.now(),
            restored_to: None,
        };
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { keep_row(tx, &caller, Some(row)).await })).await
    }
}

fn unknown(error: Git) -> Error {
    let hint = match &error {
        Git::Unsaved { path, .. } => Some(format!("move {} away, then repeat the call", path.display())),
        _ => None,
    };
    let folded = fold::git(error);
    match hint {
        Some(hint) => folded.with_hint(hint),
        None => folded,
    }
}
