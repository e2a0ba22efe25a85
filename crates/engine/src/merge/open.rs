//! Conflicts left open: a private merge worktree in which a person resolves them, until the merge goes on or is given up.

use super::begin::{check_task, in_the_way};
use super::conflict::listed;
use super::target::Target;
use super::{Bench, Outcome, Place, again, unchanged};
use crate::{Caller, Engine, fold};
use serde_json::json;
use std::path::{Path, PathBuf};
use taskyard_domain::audit::Action;
use taskyard_domain::id::{TaskId, WorktreeId};
use taskyard_domain::merge::{Kind, MergeRecord, Snapshot, State, Strategy};
use taskyard_domain::{Class, Error, Result};
use taskyard_git::Error as Git;
use taskyard_git::open_merge::{Continued, OpenMerge, continue_merge, open_conflicted_merge};

/// An open merge that was given up.
#[derive(Debug)]
pub(crate) struct GivenUp {
    /// Whether there was one.
    pub was_open: bool,
    /// What a person had done in its folder.
    pub snapshot: Option<Snapshot>,
}

impl Engine {
    /// Opens the conflict of a prepared merge. Within the repository's turn.
    pub(super) async fn open_conflict(&self, caller: &Caller, bench: &Bench, record: MergeRecord) -> Result<Outcome> {
        match self.lay_open(bench, &record).await {
            Ok(open) => {
                let mut opened = record;
                opened.state = State::Open;
                opened.merge_worktree_path = Some(open.path.to_string_lossy().into_owned());
                let metadata = json!({ "task_id": opened.task_id, "target": opened.target, "path": opened.merge_worktree_path });
                let record = self.store_noted(caller, opened, Action::MergeOpened, metadata).await?;
                Ok(Outcome::Open { record: Box::new(record), files: names(&open) })
            }
            Err(error) => {
                self.give_up(caller, bench, &record, None).await?;
                Err(unchanged(error))
            }
        }
    }

    async fn lay_open(&self, bench: &Bench, record: &MergeRecord) -> Result<OpenMerge> {
        let merge = self.merge_of(bench, record).await?;
        let records = self.records_of(record.task_id).await?;
        let target = Target { branch: record.target.clone(), tip: merge.base.clone() };
        let earlier = again::earlier(bench, &records, record.worktree_id, &target, &merge.tip).await?;
        let path = bench.scratch.join(format!("open-{}", record.id));
        open_conflicted_merge(&bench.repo, &bench.scratch, &path, &record.target, &merge, earlier.as_ref()).await.map_err(fold::git)
    }

    /// The task's merge records, oldest first.
    pub(super) async fn records_of(&self, task: TaskId) -> Result<Vec<MergeRecord>> {
        self.store().read(move |read| Box::pin(async move { read.merge_list(task).await })).await
    }

    /// Goes on with the open merge of a worktree: it lands, or a rebase stops again. Goes on to its end even when the
    /// caller stops waiting.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without an open merge or while it isn't resolved; `CONFLICT` when the branch has moved, or the
    /// target has and disagrees with what was resolved. The merge stays open then.
    pub(crate) async fn continue_open(&self, caller: &Caller, worktree: WorktreeId) -> Result<Outcome> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.continue_now(&caller, worktree).await }).await
    }

    async fn continue_now(&self, caller: &Caller, worktree: WorktreeId) -> Result<Outcome> {
        let _asking = self.merges_asked().ask();
        let (bench, _turn) = self.turn_for(worktree).await?;
        if let Some(done) = self.settle_worktree(&bench, worktree).await?
            && done.record.kind == Kind::Merge
        {
            return Ok(Outcome::Landed(Box::new(done)));
        }
        let place = self.place_of(worktree).await?.ok_or_else(|| Error::not_found("worktree", worktree))?;
        let record = open_record(&place).cloned().ok_or_else(|| none_open(&place))?;
        self.check_continuable(&bench, &place, &record).await?;
        let author = self.author(&bench.repository, &bench.repo).await?;
        let path = PathBuf::from(record.merge_worktree_path.clone().unwrap_or_default());
        match continue_merge(&bench.repo, &bench.scratch, &path, &author).await {
            Ok(Continued::Stopped(open)) => Ok(Outcome::Open { record: Box::new(record), files: names(&open) }),
            Ok(Continued::Concluded(computed)) => {
                let mut ready = record;
                ready.state = State::Computed;
                // Where the target had moved, the result was made for where it is now.
                ready.target_before = computed.target_before.into();
                ready.merge_base = computed.merge_base.map(String::from);
                ready.target_after = Some(computed.commit.into());
                let metadata = json!({ "target": ready.target, "before": ready.target_before, "after": ready.target_after });
                let ready = self.store_noted(caller, ready, Action::MergeContinued, metadata).await?;
                self.land_resolved(caller, &bench, ready).await
            }
            Err(error) => Err(still_open(&record, error)),
        }
    }

    /// Lands what a person resolved. Where the target can't be moved, the merge stays open with their work.
    async fn land_resolved(&self, caller: &Caller, bench: &Bench, record: MergeRecord) -> Result<Outcome> {
        if let Err(error) = self.end_landed_on(bench, &record).await {
            self.reopen(caller, record).await?;
            return Err(error);
        }
        match self.land_step(bench, &record).await {
            Ok(_) => self.conclude_surely(caller, bench, &record).await.map(|done| Outcome::Landed(Box::new(done))),
            Err(error) => {
                if !self.has_moved(bench, &record).await? {
                    self.reopen(caller, record.clone()).await?;
                }
                Err(still_open(&record, error))
            }
        }
    }

    /// Puts a record back to open whose result couldn't land.
    pub(super) async fn reopen(&self, caller: &Caller, record: MergeRecord) -> Result<()> {
        let metadata = json!({ "target": record.target, "path": record.merge_worktree_path });
        let open = MergeRecord { state: State::Open, target_after: None, ..record };
        self.store_noted(caller, open, Action::MergeReopened, metadata).await.map(|_| ())
    }

    async fn check_continuable(&self, bench: &Bench, place: &Place, record: &MergeRecord) -> Result<()> {
        let task = place.task().clone();
        self.store().read(move |read| Box::pin(async move { check_task(read, &task).await })).await?;
        let tip = place.tip(bench).await?;
        if tip.as_str() == record.tip {
            return Ok(());
        }
        let branch = &place.worktree.branch;
        Err(Error::conflict(format!("{branch} has moved since the merge was opened: it would leave out what came after {}", record.tip))
            .with_details(json!({ "branch": branch, "expected": record.tip, "found": tip }))
            .with_hint("abort_merge, which keeps what was resolved in a snapshot, then merge again"))
    }

    /// Gives up the open merge of a worktree. What a person did in its folder is kept.
    pub(crate) async fn abort_open(&self, caller: &Caller, worktree: WorktreeId) -> Result<GivenUp> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.abort_now(&caller, worktree).await }).await
    }

    async fn abort_now(&self, caller: &Caller, worktree: WorktreeId) -> Result<GivenUp> {
        let (bench, _turn) = self.turn_for(worktree).await?;
        self.settle_worktree(&bench, worktree).await?;
        let place = self.place_of(worktree).await?.ok_or_else(|| Error::not_found("worktree", worktree))?;
        let Some(record) = open_record(&place) else { return Ok(GivenUp { was_open: false, snapshot: None }) };
        let snapshot = self.take_away(caller, &bench, record, false).await?;
        self.give_up(caller, &bench, record, snapshot.as_ref().map(|snapshot| snapshot.id)).await?;
        Ok(GivenUp { was_open: true, snapshot })
    }

    /// The bench for a worktree and its repository's turn.
    async fn turn_for(&self, worktree: WorktreeId) -> Result<(Bench, super::bench::Turn)> {
        let place = self.place_of(worktree).await?.ok_or_else(|| Error::not_found("worktree", worktree))?;
        let bench = self.bench(&place.repository).await?;
        let turn = bench.turn().await;
        Ok((bench, turn))
    }
}

/// Whether a record's private merge worktree is still there.
pub(super) fn has_tree(record: &MergeRecord) -> bool {
    record.merge_worktree_path.as_ref().is_some_and(|path| Path::new(path).is_dir())
}

fn open_record(place: &Place) -> Option<&MergeRecord> {
    place.records.iter().find(|r| r.worktree_id == place.worktree.id && r.state == State::Open)
}

fn none_open(place: &Place) -> Error {
    let busy = place.records.iter().find(|r| r.worktree_id == place.worktree.id && matches!(r.state, State::Prepared | State::Computed));
    busy.map_or_else(
        || {
            Error::precondition(format!("no merge of {} is open", place.task().short_id))
                .with_hint("merge_task(on_conflict: leave_open) opens one")
        },
        in_the_way,
    )
}

fn names(open: &OpenMerge) -> Vec<String> {
    open.files.iter().map(ToString::to_string).collect()
}

/// An error that leaves the merge open.
fn still_open(record: &MergeRecord, error: Git) -> Error {
    let path = &record.merge_worktree_path;
    let target = &record.target;
    match error {
        Git::Unresolved { ref path, ref files, ref reason } => {
            let details = json!({ "merge_worktree_path": path, "files": files, "reason": reason });
            fold::git(error).with_details(fold::few(details)).with_hint(
                "resolve them in that folder, `git add` them, then call continue_merge again; or abort_merge, which keeps what was done there in a snapshot",
            )
        }
        Git::Conflict { ours, theirs, files } => {
            let (take_in, goes_on) = match record.strategy {
                Strategy::Rebase => ("rebase", "`git rebase --continue`"),
                Strategy::Merge | Strategy::Squash => ("merge", "`git add`"),
            };
            let details =
                json!({ "merge_worktree_path": path, "files": files, "target": target, "target_commit": ours, "resolved_commit": theirs });
            let sentence =
                format!("{target} has moved to {}, and what it changed conflicts with the resolution in {}", ours.short(), listed(&files));
            Error::new(Class::Conflict, sentence).with_details(fold::few(details)).with_hint(format!(
                "the resolution is untouched: in that folder `git {take_in} {target}`, resolve, {goes_on}, then call continue_merge again"
            ))
        }
        Git::Moved { found: Some(_), .. } => {
            fold::git(error).with_hint("call continue_merge again: what was resolved is carried over to where the target is now")
        }
        Git::Moved { found: None, .. } => {
            fold::git(error).with_hint("bring the target branch back, or abort_merge, which keeps what was resolved in a snapshot")
        }
        other => fold::git(other),
    }
}
