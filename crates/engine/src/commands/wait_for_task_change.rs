//! `wait_for_task_change`: returns when a task leaves the queue or its run, woken by the event.
//!
//! Owns nothing but the waiting: what counts as a change is in [`super::wait`]. It never polls, and a caller that
//! stops waiting loses nothing, because the next call goes on from the cursor.

use super::wait::{Look, Watch};
use crate::{Caller, Engine};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use taskyard_domain::event::{Event, Kind};
use taskyard_domain::id::RunId;
use taskyard_domain::{Error, Result};
use taskyard_store::Subscription;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Most tasks in one call.
const MOST: usize = 100;

/// Which tasks, and how long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitForTaskChange {
    /// The tasks.
    pub task_ids: Vec<String>,
    /// Longest wait; the setting `wait_limit` caps it.
    #[serde(default = "fifty")]
    pub timeout_seconds: i64,
    /// Where the last wait ended: only what changed since counts.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn fifty() -> i64 {
    50
}

/// A task whose status changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTask {
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its status now.
    pub status: String,
    /// Its status before, where the call saw the change; null for one that had left before the call.
    pub previous_status: Option<String>,
}

/// A queued task that will not start by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckTask {
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// What it waits for and who has to decide.
    pub reason: String,
}

/// What changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitForTaskChangeOutput {
    /// Tasks that left `queued` and `in_progress`, with their latest status.
    pub changed: Vec<ChangedTask>,
    /// Handles that name no task.
    pub not_found: Vec<String>,
    /// Queued tasks whose blocker won't finish by itself.
    pub stuck: Vec<StuckTask>,
    /// Whether none of the tasks is `queued` or `in_progress` any more.
    pub settled: bool,
    /// Whether the time was up first.
    pub timed_out: bool,
    /// Whether the cursor was too old to say what changed since; `changed` then has all that have left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resync: bool,
    /// Whether there is more to tell than this has room for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Where the next wait goes on.
    pub cursor: String,
    /// How to go on, unless everything is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Engine {
    /// Waits until a listed task leaves `queued` and `in_progress`, at most `timeout_seconds`. A run that waits
    /// gives its slot back meanwhile.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for no or too many tasks, a bad timeout or a foreign cursor; `UNAVAILABLE` once `cancel`
    /// is raised.
    pub async fn wait_for_task_change(
        &self,
        caller: &Caller,
        input: WaitForTaskChange,
        cancel: CancellationToken,
    ) -> Result<WaitForTaskChangeOutput> {
        if input.task_ids.is_empty() || input.task_ids.len() > MOST {
            let count = input.task_ids.len();
            return Err(Error::invalid("task_ids", format!("task_ids names {count} tasks; it can name 1 to {MOST}")));
        }
        let Ok(seconds) = u64::try_from(input.timeout_seconds) else {
            return Err(Error::invalid("timeout_seconds", "timeout_seconds can't be negative"));
        };
        let settings = self.store().read(|read| Box::pin(async move { read.settings_fetch().await })).await?;
        let seconds = seconds.min(u64::try_from(settings.wait_limit).unwrap_or_default());
        let until = Instant::now() + Duration::from_secs(seconds);
        let watch = Watch::new(caller.clone(), input.task_ids, input.cursor.as_deref())?;
        let (watch, look) = self.look_at_tasks(watch).await?;
        if look.ends || seconds == 0 {
            let timed_out = !look.ends;
            return look.answer(timed_out);
        }
        let slot = Yielded::of(self, caller.run_id()).await?;
        let answer = self.wait_for_tasks(watch, look, until, cancel).await;
        slot.take_back().await?;
        answer
    }

    async fn look_at_tasks(&self, mut watch: Watch) -> Result<(Watch, Look)> {
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let look = watch.look(read).await?;
                    Ok((watch, look))
                })
            })
            .await
    }

    async fn wait_for_tasks(
        &self,
        mut watch: Watch,
        mut look: Look,
        until: Instant,
        cancel: CancellationToken,
    ) -> Result<WaitForTaskChangeOutput> {
        let mut subscriptions: Vec<Subscription> =
            watch.positions().map(|(workspace, after)| self.store().subscribe_kinds(workspace, ABOUT_TASKS, after)).collect();
        loop {
            tokio::select! {
                event = next(&mut subscriptions) => {
                    if !watch.concerns(&event?) {
                        continue;
                    }
                    (watch, look) = self.look_at_tasks(watch).await?;
                    if look.ends {
                        return look.answer(false);
                    }
                }
                () = tokio::time::sleep_until(until) => return look.answer(true),
                () = self.shutdown().cancelled() => return look.answer(true),
                () = cancel.cancelled() => return Err(Error::unavailable("the wait was called off")),
            }
        }
    }
}

/// The next event of any of them. Cancel-safe, as each subscription is.
async fn next(subscriptions: &mut [Subscription]) -> Result<Event> {
    if subscriptions.is_empty() {
        return std::future::pending().await;
    }
    let (event, _, _) = futures::future::select_all(subscriptions.iter_mut().map(|subscription| subscription.next().boxed())).await;
    event
}

/// The events that can change what a wait sees; nothing else wakes one.
pub(crate) const ABOUT_TASKS: &[Kind] = &[Kind::TaskStatusChanged, Kind::TaskUpdated, Kind::TaskDeleted];

/// A slot that was given back and is taken again, even when the caller goes away.
struct Yielded {
    engine: Engine,
    run: Option<RunId>,
}

impl Yielded {
    async fn of(engine: &Engine, run: Option<RunId>) -> Result<Self> {
        if let Some(run) = run {
            engine.yield_slot(run).await?;
        }
        Ok(Self { engine: engine.clone(), run })
    }

    async fn take_back(mut self) -> Result<()> {
        match self.run {
            Some(run) => {
                let taken = self.engine.regain_slot(run).await;
                self.run = None;
                taken
            }
            None => Ok(()),
        }
    }
}

impl Drop for Yielded {
    fn drop(&mut self) {
        if let Some(run) = self.run {
            let engine = self.engine.clone();
            self.engine.spawn(async move {
                if let Err(error) = engine.regain_slot(run).await {
                    tracing::warn!(%run, %error, "a run that stopped waiting got no slot back");
                }
            });
        }
    }
}
