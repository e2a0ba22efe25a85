//! Repair: what a crash left is put right at start, and looked for again on a timer.
//!
//! No reconciler takes input; each compares the tables with the world and makes them agree. They are
//! the normal path for what a dead server left and safe to run at any time.

use crate::{Engine, fold};
use jiff::SignedDuration;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_domain::Result;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::run::{self, Run};
use taskyard_domain::worktree::{State, Worktree};
use taskyard_git::Repo;
use taskyard_git::worktree::Plan;
use taskyard_store::WorktreeFilter;

/// How often the timer looks, seconds.
const EVERY_S: f64 = 30.0;
/// How long a run may stay without a live session after it was opened.
const START_GRACE: SignedDuration = SignedDuration::from_secs(60);

impl Engine {
    /// The part of the node's name that survives a restart.
    fn node_family(&self) -> &str {
        self.node().split(':').next().unwrap_or_default()
    }

    /// At start: ends the runs of this node's earlier servers with their processes, then merges and worktrees.
    pub(crate) async fn reconcile_start(&self) -> Result<()> {
        self.reconcile_runs().await?;
        self.reconcile_merges().await?;
        self.reconcile_worktrees().await
    }

    /// Every now and then until shutdown.
    pub(crate) async fn run_reconcilers(self) {
        loop {
            tokio::select! {
                () = self.shutdown().cancelled() => return,
                () = tokio::time::sleep(self.patience(EVERY_S).max(Duration::from_millis(200))) => {}
            }
            if let Err(error) = self.reconcile_runs().await {
                tracing::error!(%error, "open runs can't be checked");
            }
        }
    }

    /// Open managed runs of this node without a live session are dead: their processes are ended, then they.
    async fn reconcile_runs(&self) -> Result<()> {
        let open = self.store().read(|read| Box::pin(async move { read.run_open_all().await })).await?;
        for run in open.into_iter().filter(|run| run.kind == run::Kind::Managed) {
            if self.is_orphan(&run) {
                tracing::warn!(run = %run.id, "a run is open without a live session; ending it");
                self.end_dead_run(run.id).await?;
            }
        }
        Ok(())
    }

    fn is_orphan(&self, run: &Run) -> bool {
        let node = run.node.as_deref().unwrap_or_default();
        let of_this_node = node.split(':').next().unwrap_or_default() == self.node_family();
        // A run of this very server that was just opened has its start in the outbox; give it that.
        let starting = node == self.node() && self.now().duration_since(run.started_at) < START_GRACE;
        of_this_node && !starting && !self.sessions().is_live(run.id)
    }

    /// Worktrees whose making was cut short and that no open run is making: taken away again.
    async fn reconcile_worktrees(&self) -> Result<()> {
        let halves = self
            .store()
            .read(|read| {
                Box::pin(async move {
                    let mut halves = Vec::new();
                    for worktree in read.worktree_list(WorktreeFilter { state: Some(State::Active), ..WorktreeFilter::default() }).await? {
                        if !worktree.is_ready && read.run_open_for_task(worktree.task_id).await?.is_none() {
                            let repository = read.repository_fetch(worktree.repository_id).await?;
                            halves.push((worktree, repository.and_then(|r| r.local_path)));
                        }
                    }
                    Ok(halves)
                })
            })
            .await?;
        for (worktree, path) in halves {
            if let Err(error) = self.discard_half_made(worktree, path).await {
                tracing::warn!(%error, "a half-made worktree couldn't be taken away; the next start tries again");
            }
        }
        Ok(())
    }

    async fn discard_half_made(&self, mut worktree: Worktree, path: Option<String>) -> Result<()> {
        if let Some(path) = path {
            let project = Repo::open(self.git(), Path::new(&path)).await.map_err(fold::git)?;
            let plan = Plan { path: PathBuf::from(&worktree.path), branch: worktree.branch.clone() };
            taskyard_git::worktree::discard_half_made(&project, &plan).await.map_err(fold::git)?;
        }
        worktree.state = State::Discarded;
        worktree.has_folder = false;
        worktree.updated_at = self.now();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.worktree_update(&worktree).await?;
                    let data = json!({ "worktree_id": worktree.id, "state": worktree.state });
                    tx.event(NewEvent::new(worktree.workspace_id, Kind::WorktreeChanged).task(worktree.task_id).data(data));
                    Ok(())
                })
            })
            .await
    }
}
