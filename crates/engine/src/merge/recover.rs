//! What a crash left of merges and reverts is finished or given up, from the records and the repository alone.

use super::open::has_tree;
use super::{Bench, Concluded};
use crate::{Caller, Engine, fold};
use std::path::PathBuf;
use taskyard_domain::Result;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::{MergeRecord, State};
use taskyard_domain::repository::Repository;
use taskyard_git::record;

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

    /// Settles what is unfinished of a worktree's merges, within the repository's turn. Returns what landed. What of the
    /// repository's other merges has moved a target and isn't at its end is ended first: were something built on it, no
    /// tree that hasn't followed yet would ever be looked at again.
    ///
    /// # Errors
    /// When a tree that shows the moved target can't follow now, or git or the store fail; the record stays.
    pub(super) async fn settle_worktree(&self, bench: &Bench, worktree: WorktreeId) -> Result<Option<Concluded>> {
        let records = self.store().read(|read| Box::pin(async move { read.merge_unfinished().await })).await?;
        for other in records.iter().filter(|r| r.worktree_id != worktree && r.state == State::Computed) {
            let id = other.worktree_id;
            let of = self.store().read(move |read| Box::pin(async move { read.worktree_fetch(id).await })).await?;
            if of.is_some_and(|of| of.repository_id == bench.repository.id) && self.has_moved(bench, other).await? {
                self.settle(bench, other.clone()).await?;
            }
        }
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
            State::Computed if has_tree(&record) => self.reopen(record).await.map(|()| None),
            State::Prepared | State::Computed | State::Open => {
                self.give_up(bench, &record).await?;
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
