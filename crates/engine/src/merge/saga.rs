//! A merge or revert from its intent to its end: compute, land, conclude. Each step starts from the record alone.

use super::begin::{Begun, announce};
use super::bench::oid;
use super::conclude::landed;
use super::conflict::told;
use super::target::Target;
use super::{Bench, Concluded, OnConflict, Wish, again, unchanged};
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use std::future::Future;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::id::{SnapshotId, WorktreeId};
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_domain::{Error, Result};
use taskyard_git::history::{Changed, Fork};
use taskyard_git::land::{Landed, Landing, land};
use taskyard_git::merge::{Merge, compute_unkept};
use taskyard_git::revert::{self, Revert, compute_again_unkept};
use taskyard_git::{Error as Git, Oid, history};
use taskyard_store::Tx;

/// What a merge came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The target has moved and everything is recorded.
    Landed(Box<Concluded>),
    /// A conflict is open in a private merge worktree.
    Open {
        /// The record.
        record: Box<MergeRecord>,
        /// The files in conflict.
        files: Vec<String>,
    },
    /// The target had all of it already; nothing was done.
    Nothing {
        /// The branch's commit.
        tip: String,
    },
}

/// A record whose result is computed, and what it changes in the target.
type Computed = (MergeRecord, Option<Vec<Changed>>);

/// Why a step stopped.
pub(super) enum Stop {
    Git(Git),
    Other(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Git(error) => fold::git(error),
            Stop::Other(error) => error,
        }
    }
}

impl Engine {
    /// Merges the work of a worktree as `wish` says. Goes on to its end even when the caller stops waiting.
    pub(crate) async fn merge_worktree(&self, caller: &Caller, worktree: WorktreeId, wish: Wish) -> Result<Outcome> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.merge_now(&caller, worktree, &wish).await }).await
    }

    async fn merge_now(&self, caller: &Caller, worktree: WorktreeId, wish: &Wish) -> Result<Outcome> {
        let _asking = self.merges_asked().ask();
        let gone = || Error::not_found("worktree", worktree);
        let before = self.place_of(worktree).await?.ok_or_else(gone)?;
        let bench = self.bench(&before.repository).await?;
        let _turn = bench.turn().await;
        if let Some(done) = self.settle_worktree(&bench, worktree).await?
            && done.record.kind == Kind::Merge
        {
            return Ok(Outcome::Landed(Box::new(done)));
        }
        // Read again: a merge that had its turn before us may have changed everything.
        let place = self.place_of(worktree).await?.ok_or_else(gone)?;
        let (record, fork) = match self.begin_merge(caller, &bench, &place, wish).await.map_err(unchanged)? {
            Begun::Nothing(tip) => return Ok(Outcome::Nothing { tip }),
            Begun::Record(record, fork) => (*record, fork),
        };
        match self.compute_listing(&bench, &record, Some(&fork)).await {
            Ok(computed) => self.finish_computed(caller, &bench, computed).await.map(|done| Outcome::Landed(Box::new(done))),
            Err(Stop::Git(Git::Conflict { .. })) if wish.on_conflict == OnConflict::LeaveOpen => {
                self.open_conflict(caller, &bench, record).await
            }
            Err(Stop::Git(Git::NothingToMerge { .. })) => {
                self.give_up(caller, &bench, &record, None).await?;
                Ok(Outcome::Nothing { tip: record.tip })
            }
            Err(stop) => {
                self.give_up(caller, &bench, &record, None).await?;
                Err(told(&record, &place.worktree.branch, stop))
            }
        }
    }

    /// Computes a merge or revert whose intent is written; gives it up when that fails.
    pub(super) async fn finish_prepared(&self, caller: &Caller, bench: &Bench, record: MergeRecord, branch: &str) -> Result<Concluded> {
        match self.compute_listing(bench, &record, None).await {
            Ok(computed) => self.finish_computed(caller, bench, computed).await,
            Err(stop) => {
                self.give_up(caller, bench, &record, None).await?;
                Err(told(&record, branch, stop))
            }
        }
    }

    /// Lands and concludes what is computed. When the target can't be moved, nothing has changed.
    async fn finish_computed(&self, caller: &Caller, bench: &Bench, (record, changed): Computed) -> Result<Concluded> {
        if let Err(error) = self.end_landed_on(bench, &record).await {
            self.give_up(caller, bench, &record, None).await?;
            return Err(unchanged(error));
        }
        match self.land_changing(bench, &record, changed).await {
            Ok(_) => self.conclude_surely(caller, bench, &record).await,
            Err(error) if self.has_moved(bench, &record).await? => Err(landed(&record, &fold::git(error))),
            Err(error) => {
                self.give_up(caller, bench, &record, None).await?;
                Err(unchanged(fold::git(error)))
            }
        }
    }

    /// Step 3: the result, computed in scratch space and written to the record. No ref needs to keep it: it lands in a
    /// moment, and a merge that a crash keeps from landing is given up. Meanwhile is listed what it changes; where
    /// that fails the next step asks again.
    async fn compute_listing(&self, bench: &Bench, record: &MergeRecord, fork: Option<&Fork>) -> Result<Computed, Stop> {
        taskyard_git::scratch::make(&bench.scratch).map_err(Stop::Git)?;
        let commit = match record.kind {
            Kind::Merge => self.compute_merge(bench, record, fork).await?,
            Kind::Revert => self.compute_revert(bench, record).await?,
        };
        let mut computed = record.clone();
        computed.state = State::Computed;
        computed.target_after = Some(commit.to_string());
        let before = oid(&record.target_before)?;
        let (stored, changed) = tokio::join!(self.store_computed(computed), history::changes(&bench.repo, &before, &commit));
        Ok((stored?, changed.ok()))
    }

    /// The same for who does the steps one by one.
    #[cfg(test)]
    pub(super) async fn compute_step(&self, bench: &Bench, record: &MergeRecord, fork: Option<&Fork>) -> Result<MergeRecord, Stop> {
        self.compute_listing(bench, record, fork).await.map(|(record, _)| record)
    }

    async fn compute_merge(&self, bench: &Bench, record: &MergeRecord, fork: Option<&Fork>) -> Result<Oid, Stop> {
        let merge = self.merge_of(bench, record).await?;
        let records = self.records_of(record.task_id).await?;
        let target = Target { branch: record.target.clone(), tip: merge.base.clone() };
        let computed = match again::earlier(bench, &records, record.worktree_id, &target, &merge.tip).await? {
            Some(earlier) => compute_again_unkept(&bench.repo, &bench.scratch, &merge, &earlier).await,
            None => {
                let fork = match fork {
                    Some(fork) => fork.clone(),
                    None => Fork::of(&bench.repo, &merge.base, &merge.tip).await.map_err(Stop::Git)?,
                };
                compute_unkept(&bench.repo, &bench.scratch, &merge, &fork).await
            }
        };
        computed.map(|computed| computed.commit).map_err(Stop::Git)
    }

    /// The merge that a record is about, as git wants it.
    pub(super) async fn merge_of(&self, bench: &Bench, record: &MergeRecord) -> Result<Merge> {
        Ok(Merge {
            id: record.id.to_string(),
            base: oid(&record.target_before)?,
            tip: oid(&record.tip)?,
            strategy: record.strategy,
            message: record.message.clone().unwrap_or_default(),
            author: self.author(&bench.repository, &bench.repo).await?,
        })
    }

    async fn compute_revert(&self, bench: &Bench, record: &MergeRecord) -> Result<Oid, Stop> {
        let lost = || Error::internal(format!("the revert {} names no merge that landed", record.id));
        let id = record.reverts.ok_or_else(lost)?;
        let merged = self.store().read(move |read| Box::pin(async move { read.merge_fetch(id).await })).await?.ok_or_else(lost)?;
        let revert = Revert {
            id: record.id.to_string(),
            onto: oid(&record.target_before)?,
            before: oid(&merged.target_before)?,
            after: oid(merged.target_after.as_deref().ok_or_else(lost)?)?,
            message: record.message.clone().unwrap_or_default(),
            author: self.author(&bench.repository, &bench.repo).await?,
        };
        let reverted = revert::compute_unkept(&bench.repo, &bench.scratch, &revert).await;
        reverted.map(|reverted| reverted.commit).map_err(Stop::Git)
    }

    /// Step 4: the target moves, and the trees that show it follow. Again: completes what is missing.
    pub(super) async fn land_step(&self, bench: &Bench, record: &MergeRecord) -> taskyard_git::Result<Landed> {
        self.land_changing(bench, record, None).await
    }

    async fn land_changing(&self, bench: &Bench, record: &MergeRecord, changed: Option<Vec<Changed>>) -> taskyard_git::Result<Landed> {
        let unreadable = || Git::Unreadable { stage: "land", what: format!("the merge record {} names no commits", record.id) };
        let after = record.target_after.as_deref().and_then(Oid::parse).ok_or_else(unreadable)?;
        let tip = Oid::parse(&record.tip).filter(|_| record.kind == Kind::Merge);
        let keep = match (tip, self.first_kept_ref(record.task_id).await) {
            (Some(tip), Ok(name)) => Some((name, tip)),
            _ => None,
        };
        let landing = Landing {
            branch: record.target.clone(),
            expected: Oid::parse(&record.target_before).ok_or_else(unreadable)?,
            commit: after,
            reason: format!("taskyard: {} {}", record.kind, record.id),
            policy: taskyard_git::Policy { hooks: bench.repository.hook_policy, sign: bench.repository.sign_policy },
            keep,
            changed,
        };
        land(&bench.repo, &bench.scratch, &landing).await
    }

    /// Whether the target contains the result of `record`.
    pub(super) async fn has_moved(&self, bench: &Bench, record: &MergeRecord) -> Result<bool> {
        let Some(after) = record.target_after.as_deref() else { return Ok(false) };
        history::contains(&bench.repo, &record.target, &oid(after)?).await.map_err(fold::git)
    }

    /// The end of a merge that changed nothing: its private space is given back and the record says so. `kept` is what a
    /// person had done in it.
    pub(super) async fn give_up(&self, caller: &Caller, bench: &Bench, record: &MergeRecord, kept: Option<SnapshotId>) -> Result<()> {
        self.take_away(caller, bench, record, false).await?;
        taskyard_git::record::release(&bench.repo, &record.id.to_string()).await.map_err(fold::git)?;
        let mut aborted = record.clone();
        aborted.state = State::Aborted;
        aborted.target_after = None;
        let metadata = json!({ "task_id": record.task_id, "kind": record.kind, "target": record.target, "snapshot_id": kept });
        self.store_noted(caller, aborted, Action::MergeAborted, metadata).await?;
        Ok(())
    }

    /// Writes that a record's result is computed, with its event: a step between the entries of its begin and its end.
    async fn store_computed(&self, record: MergeRecord) -> Result<MergeRecord> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.bookkeeping();
                    stored(tx, record).await
                })
            })
            .await
    }

    /// Writes a record's new state with its event and audit entry.
    pub(super) async fn store_noted(
        &self,
        caller: &Caller,
        record: MergeRecord,
        action: Action,
        metadata: serde_json::Value,
    ) -> Result<MergeRecord> {
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let record = stored(tx, record).await?;
                    change::audit(tx, &caller, record.workspace_id, action, About::Merge(record.id, record.task_id), metadata).await?;
                    Ok(record)
                })
            })
            .await
    }

    /// Runs `work` to its end even when whoever waits for it goes away: half a saga is only for crashes.
    pub(super) async fn unbroken<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, wait) = tokio::sync::oneshot::channel();
        self.spawn(async move {
            let _ = done.send(work.await);
        });
        wait.await.map_err(|_| Error::internal("the merge was lost; the next start of the server settles it"))?
    }
}

async fn stored(tx: &mut Tx, record: MergeRecord) -> Result<MergeRecord> {
    tx.merge_update(&record).await?;
    announce(tx, &record);
    Ok(record)
}
