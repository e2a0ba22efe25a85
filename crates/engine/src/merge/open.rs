//! Conflicts left open: a private merge worktree in which a person resolves them, until the merge goes on or is given up.

use super::begin::{check_task, in_the_way};
use super::target::Target;
use super::{Bench, Outcome, Place, again, unchanged};
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use std::path::{Path, PathBuf};
use taskyard_domain::id::{TaskId, WorktreeId};
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_domain::{Error, Result};
use taskyard_git::Error as Git;
use taskyard_git::open_merge::{Continued, OpenMerge, continue_merge, open_conflicted_merge};

impl Engine {
    /// Opens the conflict of a prepared merge. Within the repository's turn.
    pub(super) async fn open_conflict(&self, caller: &Caller, bench: &Bench, record: MergeRecord) -> Result<Outcome> {
        match self.lay_open(bench, &record).await {
            Ok(open) => {
                let mut opened = record;
                opened.state = State::Open;
                opened.merge_worktree_path = Some(open.path.to_string_lossy().into_owned());
                let record = self.store_record(opened).await?;
                self.note_open(caller, &record).await?;
                Ok(Outcome::Open { record: Box::new(record), files: names(&open) })
            }
            Err(error) => {
                self.give_up(bench, &record).await?;
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

    async fn note_open(&self, caller: &Caller, record: &MergeRecord) -> Result<()> {
        let (caller, record) = (caller.clone(), record.clone());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let metadata = json!({ "task_id": record.task_id, "target": record.target, "path": record.merge_worktree_path });
                    change::audit(tx, &caller, record.workspace_id, "merge.opened", ("merge", record.id), metadata).await
                })
            })
            .await
    }

    /// The task's merge records, oldest first.
    pub(super) async fn records_of(&self, task: TaskId) -> Result<Vec<MergeRecord>> {
        self.store().read(move |read| Box::pin(async move { read.merge_list(task).await })).await
    }

    /// Goes on with the open merge of a worktree: it lands, or a rebase stops again. Goes on to its end even when the
    /// caller stops waiting.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without an open merge or while it isn't resolved; `CONFLICT` when target or branch have
    /// moved. The merge stays open then.
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
                ready.target_after = Some(computed.commit.into());
                let ready = self.store_record(ready).await?;
                self.land_resolved(caller, &bench, ready).await
            }
            Err(error) => Err(still_open(error)),
        }
    }

    /// Lands what a person resolved. Where the target can't be moved, the merge stays open with their work.
    async fn land_resolved(&self, caller: &Caller, bench: &Bench, record: MergeRecord) -> Result<Outcome> {
        match self.land_step(bench, &record).await {
            Ok(_) => self.conclude_step(caller, bench, &record).await.map(|done| Outcome::Landed(Box::new(done))),
            Err(error) => {
                if !self.has_moved(bench, &record).await? {
                    self.reopen(record).await?;
                }
                Err(still_open(error))
            }
        }
    }

    /// Puts a record back to open whose result couldn't land.
    pub(super) async fn reopen(&self, record: MergeRecord) -> Result<()> {
        self.store_record(MergeRecord { state: State::Open, target_after: None, ..record }).await.map(|_| ())
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
            .with_hint("abort_merge, then merge again"))
    }

    /// Gives up the open merge of a worktree; says whether there was one.
    pub(crate) async fn abort_open(&self, caller: &Caller, worktree: WorktreeId) -> Result<bool> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.abort_now(&caller, worktree).await }).await
    }

    async fn abort_now(&self, caller: &Caller, worktree: WorktreeId) -> Result<bool> {
        let (bench, _turn) = self.turn_for(worktree).await?;
        self.settle_worktree(&bench, worktree).await?;
        let place = self.place_of(worktree).await?.ok_or_else(|| Error::not_found("worktree", worktree))?;
        let Some(record) = open_record(&place) else { return Ok(false) };
        self.give_up(&bench, record).await?;
        let (caller, record) = (caller.clone(), record.clone());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let metadata = json!({ "task_id": record.task_id, "target": record.target });
                    change::audit(tx, &caller, record.workspace_id, "merge.aborted", ("merge", record.id), metadata).await
                })
            })
            .await?;
        Ok(true)
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
fn still_open(error: Git) -> Error {
    let details = match &error {
        Git::Unresolved { path, files, reason } => Some(json!({ "merge_worktree_path": path, "files": files, "reason": reason })),
        _ => None,
    };
    let moved = matches!(error, Git::Moved { .. });
    let mut folded = fold::git(error);
    if details.is_some() {
        folded.details = details.map(fold::few);
        folded.hint = Some("resolve them in that folder, `git add` them, then call continue_merge again; or abort_merge".into());
    }
    if moved {
        folded.hint = Some("abort_merge, then merge again onto where the target is now".into());
    }
    folded
}
