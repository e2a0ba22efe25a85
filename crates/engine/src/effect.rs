//! Effects: what must happen outside the database after a commit, from the durable outbox.
//!
//! Each effect is idempotent and removed from the outbox once done; one that fails is tried again with
//! back-off. Effects report back as commands.

use crate::merge::Release;
use crate::{Caller, Engine};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use taskyard_domain::id::{MergeId, RunId, TaskId};
use taskyard_domain::task::Task;
use taskyard_domain::{Actor, Error, Face, Result};
use taskyard_store::{OutboxRow, Tx};

/// Most effects read at once; enough that one lane's can't hide the other's.
const DUE_AT_ONCE: i64 = 1000;

/// Something to do after the commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Effect {
    /// Prepare the worktree and start the agent of a run that was opened.
    StartRun {
        /// The run.
        run_id: RunId,
    },
    /// End a run that a person called off.
    StopRun {
        /// The run.
        run_id: RunId,
    },
    /// Tidy up after a landed merge: worktree folder, branch, private refs.
    FinishMerge {
        /// The record.
        merge_id: MergeId,
    },
    /// Put away the worktree of a task that was approved with nothing to merge.
    ReleaseWorktree(Release),
    /// Finish the deletion of a task, where the call that began it was cut off.
    DeleteTask(Deletion),
}

/// A deletion that is under way. It is an effect from the moment in which the task is set aside, so that one that is
/// cut off comes to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    /// The task.
    pub task_id: TaskId,
    /// While the task is archived since then, this deletion is under way.
    pub aside_at: Timestamp,
    /// What it was archived since before.
    pub archived_before: Option<Timestamp>,
    /// Who deletes.
    pub actor: Actor,
    /// Through which face.
    pub face: Face,
}

impl Deletion {
    /// Who deletes.
    pub(crate) fn caller(&self) -> Caller {
        Caller { actor: self.actor.clone(), face: self.face, within: None }
    }

    /// Whether `task` is set aside for this deletion.
    pub(crate) fn holds(&self, task: &Task) -> bool {
        task.archived_at == Some(self.aside_at)
    }
}

/// Effects run one after another in two lanes, so that a cleanup script that takes its time delays no start and no stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Starting and stopping runs: moments.
    Sessions,
    /// Tidying up, which may run a user's script.
    Tidying,
}

impl Lane {
    /// Both.
    pub(crate) const ALL: [Lane; 2] = [Lane::Sessions, Lane::Tidying];

    fn holds(self, row: &OutboxRow) -> bool {
        let tidies = matches!(row.kind.as_str(), "finish_merge" | "release_worktree" | "delete_task");
        tidies == (self == Lane::Tidying)
    }
}

impl Effect {
    fn name(&self) -> &'static str {
        match self {
            Effect::StartRun { .. } => "start_run",
            Effect::StopRun { .. } => "stop_run",
            Effect::FinishMerge { .. } => "finish_merge",
            Effect::ReleaseWorktree(_) => "release_worktree",
            Effect::DeleteTask(_) => "delete_task",
        }
    }

    /// Writes the effect to the outbox in the transaction of its cause.
    pub(crate) async fn push(&self, tx: &mut Tx) -> Result<()> {
        let payload = serde_json::to_value(self).map_err(|e| Error::internal(format!("effect {}: {e}", self.name())))?;
        tx.outbox_push(self.name(), payload).await
    }
}

impl Engine {
    /// Runs due effects of one lane until shutdown, woken by commits and by the next retry's time.
    pub(crate) async fn run_effects(self, lane: Lane) {
        let mut wake = self.store().subscribe_outbox();
        while !self.shutdown().is_cancelled() {
            let next = match self.run_due_effects(lane).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "the outbox can't be read");
                    Some(self.now() + SignedDuration::from_secs(1))
                }
            };
            let pause = next.map(|at| std::time::Duration::try_from(at.duration_since(self.now())).unwrap_or_default());
            let timer = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.shutdown().cancelled() => break,
                () = wake.changed() => {}
                () = timer => {}
            }
        }
    }

    /// Runs what is due in a lane; returns when to look again.
    pub(crate) async fn run_due_effects(&self, lane: Lane) -> Result<Option<Timestamp>> {
        loop {
            let now = self.now();
            let look = self
                .store()
                .read(move |tx| Box::pin(async move { Ok((tx.outbox_due(now, DUE_AT_ONCE).await?, tx.outbox_next_at().await?)) }));
            let (due, next) = look.await?;
            let due: Vec<OutboxRow> = due.into_iter().filter(|row| lane.holds(row)).collect();
            if due.is_empty() {
                // What is due already is the other lane's.
                return Ok(next.map(|at| at.max(now + SignedDuration::from_secs(1))));
            }
            for row in due {
                if self.shutdown().is_cancelled() {
                    return Ok(None);
                }
                if lane == Lane::Tidying {
                    self.merges_quiet().await;
                }
                self.run_effect(row).await?;
            }
        }
    }

    async fn run_effect(&self, row: OutboxRow) -> Result<()> {
        let id = row.id;
        let done = match serde_json::from_value::<Effect>(row.payload.clone()) {
            Ok(effect) => self.perform(&effect).await,
            Err(error) => Err(Error::internal(format!("unreadable effect {}: {error}", row.kind))),
        };
        match done {
            Ok(()) => self.store().write(move |tx| Box::pin(async move { tx.outbox_done(id).await })).await,
            Err(error) => {
                tracing::warn!(effect = %row.kind, attempts = row.attempts, %error, "an effect failed and will be tried again");
                let pause = SignedDuration::from_secs(1 << row.attempts.clamp(0, 8));
                let (at, text) = (self.now() + pause, error.to_string());
                self.store().write(move |tx| Box::pin(async move { tx.outbox_retry(id, at, &text).await })).await
            }
        }
    }

    async fn perform(&self, effect: &Effect) -> Result<()> {
        match effect {
            Effect::StartRun { run_id } => self.start_run(*run_id).await,
            Effect::StopRun { run_id } => self.stop_run(*run_id).await,
            Effect::FinishMerge { merge_id } => self.finish_merge(*merge_id).await,
            Effect::ReleaseWorktree(release) => self.release_worktree(release).await,
            Effect::DeleteTask(deletion) => self.finish_deletion(deletion).await,
        }
    }
}
