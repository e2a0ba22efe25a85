//! What a crash left of merges and reverts is finished or given up, from the records and the repository alone.

use super::open::has_tree;
use super::{Bench, Concluded, Place};
use crate::{Caller, Engine, fold};
use std::path::PathBuf;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::{MergeRecord, State};
use taskyard_domain::repository::Repository;
use taskyard_domain::{Error, Result};
use taskyard_git::record;

/// Why nothing lands on a target: an earlier merge has moved it, and a tree that shows it can't follow.
fn unended(other: &MergeRecord, place: &Place, error: taskyard_git::Error) -> Error {
    let mut error = fold::git(error);
    let (what, short, target) = (other.kind, &place.task().short_id, &other.target);
    error.message = format!("an earlier {what} of {short} has moved {target}, and its end comes first: {}", error.message);
    error
}

impl Engine {
    /// Settles every merge and revert that isn't ended. Safe and cheap to run at any time: what goes on right now has
    /// its repository's turn and is passed by, and a repository that can't be opened is left for the next time.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(crate) async fn reconcile_merges(&self) -> Result<()> {
        let records = self.store().read(|read| Box::pin(async move { read.merge_unfinished().await })).await?;
        // An open conflict waits for a person.
        for record in records.into_iter().filter(|r| r.state != State::Open || !has_tree(r)) {
            if let Err(error) = self.settle_alone(&record).await {
                tracing::info!(merge = %record.id, %error, "a merge that was cut off can't be settled now");
            }
        }
        Ok(())
    }

    /// Clears private trees and refs of merges that nobody needs any more, and ends removals that were cut off. For the start alone: what is being looked
    /// at or merged uses the same space.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(crate) async fn sweep_merges(&self) -> Result<()> {
        if let Err(error) = taskyard_git::scratch::clear_temporary(&self.paths().scratch()) {
            tracing::warn!(%error, "what calls of git had left can't be cleared now");
        }
        for repository in self.all_repositories().await? {
            if let Err(error) = self.sweep_scratch(&repository).await {
                tracing::warn!(repository = %repository.name, %error, "the scratch space of merges can't be cleared now");
            }
        }
        self.finish_removals().await
    }

    async fn settle_alone(&self, record: &MergeRecord) -> Result<()> {
        let Some(place) = self.place_of(record.worktree_id).await? else { return Ok(()) };
        let bench = self.bench(&place.repository).await?;
        let Some(_turn) = bench.try_turn() else { return Ok(()) };
        self.settle_worktree(&bench, record.worktree_id).await.map(|_| ())
    }

    /// Ends what of other merges has moved the target of `record` and isn't at its end, before something is built on it:
    /// no tree that hasn't followed yet would be looked at again then.
    ///
    /// # Errors
    /// When a tree that shows the moved target can't follow now.
    pub(super) async fn end_landed_on(&self, bench: &Bench, record: &MergeRecord) -> Result<()> {
        let records = self.store().read(|read| Box::pin(async move { read.merge_unfinished().await })).await?;
        let others = records.into_iter().filter(|r| r.id != record.id && r.state == State::Computed && r.target == record.target);
        for other in others {
            let Some(place) = self.place_of(other.worktree_id).await? else { continue };
            // Another workspace may know the same repository.
            if place.repository.local_path != bench.repository.local_path || !self.has_moved(bench, &other).await? {
                continue;
            }
            self.land_step(bench, &other).await.map_err(|error| unended(&other, &place, error))?;
            if let Err(error) = self.conclude_step(&Caller::system(), bench, &other).await {
                tracing::warn!(merge = %other.id, %error, "a merge that landed can't be recorded now");
            }
        }
        Ok(())
    }

    /// Settles what is unfinished of a worktree's merges, within the repository's turn. Returns what landed.
    ///
    /// # Errors
    /// When a tree that shows the moved target can't follow now, or git or the store fail; the record stays.
    pub(super) async fn settle_worktree(&self, bench: &Bench, worktree: WorktreeId) -> Result<Option<Concluded>> {
        let records = self.store().read(|read| Box::pin(async move { read.merge_unfinished().await })).await?;
        let mut landed = None;
        for record in records.into_iter().filter(|r| r.worktree_id == worktree) {
            landed = self.settle(bench, record).await?.or(landed);
        }
        Ok(landed)
    }

    async fn settle(&self, bench: &Bench, record: MergeRecord) -> Result<Option<Concluded>> {
        let moved = self.has_moved(bench, &record).await?;
        match record.state {
            State::Computed if moved => {
                self.land_step(bench, &record).await.map_err(fold::git)?;
                self.conclude_step(&Caller::system(), bench, &record).await.map(Some)
            }
            State::Open if has_tree(&record) => Ok(None),
            // A person's resolution that couldn't land yet is kept for them.
            State::Computed if has_tree(&record) => self.reopen(&Caller::system(), record).await.map(|()| None),
            State::Prepared | State::Computed | State::Open => {
                self.give_up(&Caller::system(), bench, &record, None).await?;
                Ok(None)
            }
            State::Landed | State::Reverted | State::Aborted => Ok(None),
        }
    }

    async fn all_repositories(&self) -> Result<Vec<Repository>> {
        self.store()
            .read(|read| {
                Box::pin(async move {
                    let mut all = Vec::new();
                    for workspace in read.workspace_list().await? {
                        all.extend(read.repository_list(workspace.id).await?);
                    }
                    Ok(all)
                })
            })
            .await
    }

    /// Removes private trees and refs of merges that have ended; those of open conflicts stay.
    async fn sweep_scratch(&self, repository: &Repository) -> Result<()> {
        if !self.scratch(repository.id).exists() {
            return Ok(());
        }
        let bench = self.bench(repository).await?;
        let _turn = bench.turn().await;
        let records = self.store().read(|read| Box::pin(async move { read.merge_unfinished().await })).await?;
        let keep: Vec<PathBuf> = records.iter().filter_map(|r| r.merge_worktree_path.as_ref()).map(PathBuf::from).collect();
        taskyard_git::scratch::sweep(&bench.repo, &bench.scratch, &keep).await.map_err(fold::git)?;
        taskyard_git::scratch::clear_temporary(&bench.scratch).map_err(fold::git)?;
        for id in record::kept(&bench.repo).await.map_err(fold::git)? {
            if !records.iter().any(|r| r.id.to_string() == id) {
                record::release(&bench.repo, &id).await.map_err(fold::git)?;
            }
        }
        Ok(())
    }
}
