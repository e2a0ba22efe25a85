//! Repair: what a crash left is put right at start, and looked for again on a timer.
//!
//! No reconciler takes input; each compares the tables with the world and makes them agree. They are
//! the normal path for what a dead server left and safe to run at any time.

use crate::effect::Effect;
use crate::session::note;
use crate::{Engine, fold};
use jiff::SignedDuration;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_domain::audit::Action;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::run::{self, Run};
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Result, Timestamp};
use taskyard_git::worktree::{self, Plan, PutBack};
use taskyard_git::{Error as Git, Repo};
use taskyard_store::{IDEMPOTENCY_HOURS, WorktreeFilter};

/// How often the timer looks, seconds.
const EVERY_S: f64 = 30.0;
/// Every how many looks old keys and protocol sessions are forgotten.
const PRUNE_EVERY: u64 = 120;
/// How long an MCP client may stay away and still be known.
const MCP_SESSION_LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// More effects than can wait at once.
const ALL_EFFECTS: i64 = 100_000;

impl Engine {
    /// The part of the node's name that survives a restart.
    fn node_family(&self) -> &str {
        self.node().split(':').next().unwrap_or_default()
    }

    /// Ends the runs of this node that nobody runs any more with their processes, then settles merges and worktrees.
    pub(crate) async fn reconcile_start(&self) -> Result<()> {
        self.reconcile_runs().await?;
        self.reconcile_merges().await?;
        self.reconcile_worktrees().await
    }

    /// Every now and then, and when asked for, until shutdown.
    pub(crate) async fn run_reconcilers(self) {
        for look in 1u64.. {
            tokio::select! {
                () = self.shutdown().cancelled() => return,
                () = tokio::time::sleep(self.patience(EVERY_S).max(Duration::from_millis(200))) => {}
                () = self.repair_wanted().notified() => tracing::info!("looking for what is to be repaired"),
            }
            if let Err(error) = self.reconcile_start().await {
                tracing::error!(%error, "what a crash may have left can't be checked");
            }
            if look % PRUNE_EVERY == 0
                && let Err(error) = self.prune().await
            {
                tracing::error!(%error, "old keys can't be forgotten");
            }
        }
    }

    /// Has the reconcilers look now (SIGHUP).
    pub fn repair_now(&self) {
        self.repair_wanted().notify_one();
    }

    async fn prune(&self) -> Result<()> {
        let now = self.now();
        let (keys, sessions) = (now - SignedDuration::from_hours(IDEMPOTENCY_HOURS), now - MCP_SESSION_LIFE);
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.idempotency_prune(keys).await?;
                    tx.mcp_session_prune(sessions).await.map(|_| ())
                })
            })
            .await
    }

    /// Open managed runs of this node that neither live nor are about to be started are dead: their processes are
    /// ended, then they.
    async fn reconcile_runs(&self) -> Result<()> {
        let (open, effects) = self
            .store()
            .read(|read| Box::pin(async move { Ok((read.run_open_all().await?, read.outbox_due(Timestamp::MAX, ALL_EFFECTS).await?)) }))
            .await?;
        let starting: Vec<Effect> = effects.into_iter().filter_map(|row| serde_json::from_value(row.payload).ok()).collect();
        for run in open.into_iter().filter(|run| run.kind == run::Kind::Managed) {
            let is_starting = starting.contains(&Effect::StartRun { run_id: run.id }) && run.node.as_deref() == Some(self.node());
            if self.is_of_this_node(&run) && !is_starting && !self.sessions().is_live(run.id) {
                tracing::warn!(run = %run.id, "a run is open without a live session; ending it");
                self.end_dead_run(run.id).await?;
            }
        }
        Ok(())
    }

    fn is_of_this_node(&self, run: &Run) -> bool {
        let node = run.node.as_deref().unwrap_or_default();
        node.split(':').next().unwrap_or_default() == self.node_family()
    }

    /// Worktrees whose making was cut short, or whose folder was being put back, and that no open run is making: taken away
    /// again, or taken over where git had finished them.
    async fn reconcile_worktrees(&self) -> Result<()> {
        let unsettled = self
            .store()
            .read(|read| {
                Box::pin(async move {
                    let mut unsettled = Vec::new();
                    for worktree in read.worktree_list(WorktreeFilter::default()).await?.into_iter().filter(is_unsettled) {
                        if read.run_open_for_task(worktree.task_id).await?.is_none() {
                            let repository = read.repository_fetch(worktree.repository_id).await?;
                            unsettled.push((worktree, repository.and_then(|r| r.local_path)));
                        }
                    }
                    Ok(unsettled)
                })
            })
            .await?;
        let unsettled: Vec<_> =
            unsettled.into_iter().filter(|(worktree, _)| !worktree.is_ready || Path::new(&worktree.path).exists()).collect();
        for (worktree, path) in unsettled {
            if let Err(error) = self.settle_worktree_row(worktree, path).await {
                tracing::warn!(%error, "a worktree whose making was cut off can't be settled now");
            }
        }
        Ok(())
    }

    /// The worktree as it is now, if it is still unsettled and nobody's.
    async fn still_unsettled(&self, id: WorktreeId) -> Result<Option<Worktree>> {
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let Some(worktree) = read.worktree_fetch(id).await?.filter(is_unsettled) else { return Ok(None) };
                    let is_free = read.run_open_for_task(worktree.task_id).await?.is_none();
                    Ok(is_free.then_some(worktree))
                })
            })
            .await
    }

    async fn settle_worktree_row(&self, worktree: Worktree, path: Option<String>) -> Result<()> {
        let _turn = self.ground_turn(worktree.task_id).await;
        // A run that was opened meanwhile stands on it, or is about to.
        let Some(mut worktree) = self.still_unsettled(worktree.id).await? else { return Ok(()) };
        let was_ready = worktree.is_ready;
        if let Some(path) = path {
            let project = Repo::open(self.git(), Path::new(&path)).await.map_err(fold::git)?;
            let plan = Plan { path: PathBuf::from(&worktree.path), branch: worktree.branch.clone() };
            worktree.has_folder = if was_ready {
                worktree::settle_put_back(&project, &plan).await.map_err(fold::git)? == PutBack::Stands
            } else {
                match worktree::discard_half_made(&project, &plan).await {
                    // Git had finished it, so it may hold something: it stands from now on, and the next run furnishes it.
                    Err(Git::Unsaved { .. }) => true,
                    other => other.map(|()| false).map_err(fold::git)?,
                }
            };
        }
        worktree.is_ready = was_ready || worktree.has_folder;
        if !worktree.is_ready {
            worktree.state = State::Discarded;
        } else if !worktree.has_folder {
            // Its folder is as gone as the record says.
            return Ok(());
        }
        worktree.updated_at = self.now();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.worktree_update(&worktree).await?;
                    let action = if worktree.has_folder { Action::WorktreeAdopted } else { Action::WorktreeDiscarded };
                    let metadata = json!({ "path": worktree.path, "branch": worktree.branch, "reason": "its making was cut off" });
                    note(tx, &worktree, None, action, metadata).await
                })
            })
            .await
    }
}

/// Whether git may have made something of the worktree that isn't recorded: it isn't ready yet, or has no folder by the
/// record.
fn is_unsettled(worktree: &Worktree) -> bool {
    match worktree.state {
        State::Active if !worktree.is_ready => true,
        State::Active | State::Kept => !worktree.has_folder,
        State::Merged | State::Discarded => false,
    }
}
