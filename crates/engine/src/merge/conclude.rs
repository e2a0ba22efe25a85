//! The last step in the database: the target has moved, so record, worktree and task say so, in one transaction.

use super::Bench;
use super::begin::announce;
use super::bench::oid;
use crate::effect::Effect;
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::TaskId;
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_domain::task::{Context, Fact, Status, Task};
use taskyard_domain::worktree::{self, Worktree};
use taskyard_domain::{Class, Error, Result};
use taskyard_git::{Error as Git, refs};
use taskyard_store::{Tx, WorktreeFilter};

/// How many numbers are tried for the ref that keeps a tip.
const TRIES: usize = 1000;

/// A merge or revert that landed.
#[derive(Debug, Clone)]
pub(crate) struct Concluded {
    /// The record, landed.
    pub record: MergeRecord,
    /// The worktree, merged or kept.
    pub worktree: Worktree,
    /// The task.
    pub task: Task,
}

/// How often a landing is written down before its caller is told that it isn't yet.
const RECORD_TRIES: u32 = 20;
/// The pause between two tries, seconds.
const RECORD_PAUSE: f64 = 0.5;

/// What a caller is told whose merge has moved the target but isn't at its end: no refusal, for it happened.
pub(super) fn landed(record: &MergeRecord, error: &Error) -> Error {
    let what = format!("{} of {} has landed as {}", record.kind, record.target, record.target_after.as_deref().unwrap_or_default());
    Error::unavailable(format!("the {what}, but that can't be ended yet: {}", error.message))
        .with_details(json!({ "landed": true, "target": record.target, "commit": record.target_after, "cause": error }))
        .with_hint("don't repeat the call: it is ended as soon as that is possible; look again with get_task")
}

impl Engine {
    /// Step 5 for a caller who waits: a disk that is full for a moment doesn't make a failure of what has happened.
    pub(super) async fn conclude_surely(&self, caller: &Caller, bench: &Bench, record: &MergeRecord) -> Result<Concluded> {
        let mut tries = 1;
        loop {
            match self.conclude_step(caller, bench, record).await {
                Err(error) if can_get_better(&error) && tries < RECORD_TRIES && !self.shutdown().is_cancelled() => {
                    tracing::warn!(merge = %record.id, %error, "a merge that landed can't be recorded now; trying again");
                    tokio::time::sleep(self.patience(RECORD_PAUSE)).await;
                    tries += 1;
                }
                done => return done.map_err(|error| landed(record, &error)),
            }
        }
    }

    /// Step 5: keeps the tip, then concludes record, worktree and task. Again: changes nothing more.
    pub(super) async fn conclude_step(&self, caller: &Caller, bench: &Bench, record: &MergeRecord) -> Result<Concluded> {
        let kept = match record.kind {
            // What git couldn't do a moment after it has moved the target it can soon.
            Kind::Merge => Some(self.keep_tip(bench, record).await.map_err(|error| Error { class: Class::Unavailable, ..error })?),
            Kind::Revert => None,
        };
        let (caller, id, task_id) = (caller.clone(), record.id, record.task_id);
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let gone = || Error::not_found("task", task_id);
                    let task = tx.task_lock(task_id).await?.ok_or_else(gone)?;
                    let record = tx.merge_fetch(id).await?.ok_or_else(gone)?;
                    let worktree = tx.worktree_lock(record.worktree_id).await?.ok_or_else(gone)?;
                    if let Some(undone) = record.reverts {
                        // Locked before the younger one, as everywhere.
                        tx.merge_lock(undone).await?;
                    }
                    let record = tx.merge_lock(id).await?.ok_or_else(gone)?;
                    let mut done = Concluded { record, worktree, task };
                    if !matches!(done.record.state, State::Landed | State::Reverted) {
                        conclude(tx, &caller, &mut done, kept).await?;
                    }
                    Ok(done)
                })
            })
            .await
    }

    /// Keeps the merged tip at `refs/taskyard/tasks/<task>/<n>` and says where.
    async fn keep_tip(&self, bench: &Bench, record: &MergeRecord) -> Result<String> {
        let (task, tip) = (record.task_id, oid(&record.tip)?);
        let first = self.merges_so_far(task).await? + 1;
        for n in first..first + TRIES {
            let name = kept_ref(task, n);
            // Mostly it was made with the move of the target.
            if bench.repo.tip(&name).await.map_err(fold::git)?.as_ref() == Some(&tip) {
                return Ok(name);
            }
            match refs::keep_tip(&bench.repo, &name, &tip).await {
                Ok(()) => return Ok(name),
                // Of a merge that the database doesn't know: it stays as it is.
                Err(Git::Moved { .. }) => {}
                Err(error) => return Err(fold::git(error)),
            }
        }
        Err(Error::internal(format!("no free name below refs/taskyard/tasks/{task}")))
    }

    /// The ref that the next merge of `task` keeps its tip at, unless something has that name.
    pub(super) async fn first_kept_ref(&self, task: TaskId) -> Result<String> {
        Ok(kept_ref(task, self.merges_so_far(task).await? + 1))
    }

    async fn merges_so_far(&self, task: TaskId) -> Result<usize> {
        let records = self.store().read(move |read| Box::pin(async move { read.merge_list(task).await })).await?;
        let landed = |r: &&MergeRecord| r.kind == Kind::Merge && matches!(r.state, State::Landed | State::Reverted);
        Ok(records.iter().filter(landed).count())
    }
}

/// Whether trying again may help: what is wrong with the rows themselves stays wrong.
fn can_get_better(error: &Error) -> bool {
    matches!(error.class, Class::Unavailable | Class::ResourceExhausted | Class::Internal)
}

fn kept_ref(task: TaskId, n: usize) -> String {
    format!("refs/taskyard/tasks/{task}/{n}")
}

async fn conclude(tx: &mut Tx, caller: &Caller, done: &mut Concluded, kept: Option<String>) -> Result<()> {
    let now = tx.now();
    done.record.state = State::Landed;
    done.record.landed_at = Some(now);
    tx.merge_update(&done.record).await?;
    announce(tx, &done.record);
    done.worktree.updated_at = now;
    match done.record.kind {
        Kind::Merge => {
            done.worktree.state = worktree::State::Merged;
            done.worktree.tip = Some(done.record.tip.clone());
            done.worktree.kept_ref = kept;
        }
        Kind::Revert => {
            done.worktree.state = worktree::State::Kept;
            undo(tx, &done.record).await?;
        }
    }
    tx.worktree_update(&done.worktree).await?;
    let data = json!({ "worktree_id": done.worktree.id, "state": done.worktree.state, "branch": done.worktree.branch });
    tx.event(NewEvent::new(done.worktree.workspace_id, EventKind::WorktreeChanged).task(done.task.id).data(data));
    move_task(tx, done).await?;
    if done.record.is_approval {
        let metadata =
            json!({ "decision": "approve", "merge_id": done.record.id, "decided_by": done.record.actor, "status": done.task.status });
        change::audit(tx, caller, done.record.workspace_id, Action::TaskReviewed, About::Task(done.task.id), metadata).await?;
    }
    let action = if done.record.kind == Kind::Merge { Action::TaskMerged } else { Action::TaskMergeReverted };
    let metadata = json!({
        "merge_id": done.record.id, "target": done.record.target, "strategy": done.record.strategy, "before": done.record.target_before,
        "after": done.record.target_after, "tip": done.record.tip, "decided_by": done.record.actor, "is_approval": done.record.is_approval,
        "status": done.task.status, "worktree_id": done.worktree.id, "reverts": done.record.reverts,
    });
    change::audit(tx, caller, done.record.workspace_id, action, About::Task(done.task.id), metadata).await?;
    Effect::FinishMerge { merge_id: done.record.id }.push(tx).await
}

/// Marks the merge that a revert undid.
async fn undo(tx: &mut Tx, revert: &MergeRecord) -> Result<()> {
    let Some(id) = revert.reverts else { return Ok(()) };
    let Some(mut merged) = tx.merge_fetch(id).await? else { return Ok(()) };
    merged.state = State::Reverted;
    tx.merge_update(&merged).await?;
    announce(tx, &merged);
    Ok(())
}

/// The target has moved whatever became of the task meanwhile; its status follows where it still waits for that.
async fn move_task(tx: &mut Tx, done: &mut Concluded) -> Result<()> {
    let fact = match (done.record.kind, done.task.status) {
        (Kind::Merge, Status::WaitingForReview) if !has_other_work(tx, &done.worktree).await? => Fact::Approved,
        (Kind::Revert, Status::Done) => Fact::Reverted,
        _ => return Ok(()),
    };
    change::status(tx, &mut done.task, fact, Context::default()).await
}

/// Whether another worktree of the task waits for its merge.
async fn has_other_work(tx: &mut Tx, merged: &Worktree) -> Result<bool> {
    let all = tx.worktree_list(WorktreeFilter { task: Some(merged.task_id), ..WorktreeFilter::default() }).await?;
    Ok(all.iter().any(|w| w.id != merged.id && matches!(w.state, worktree::State::Active | worktree::State::Kept)))
}
