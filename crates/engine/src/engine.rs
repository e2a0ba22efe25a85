//! The engine's shared state and its life: opening, background loops, shutting down.

use crate::commands::list_agents::Detected;
use crate::effect::Lane;
use crate::listings::Listings;
use crate::merge::Asked;
use crate::session::Sessions;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use taskyard_domain::id::{RunId, SessionId, WorktreeId};
use taskyard_domain::{Clock, Ids, Result};
use taskyard_git::Git;
use taskyard_process::Environment;
use taskyard_store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where the engine keeps files. Everything lies below the data folder unless a setting moves worktrees.
#[derive(Debug, Clone)]
pub struct Paths {
    data: PathBuf,
}

impl Paths {
    /// Paths below `data`, which must exist.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into() }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where worktrees are made by default.
    pub fn worktrees(&self) -> PathBuf {
        self.data.join("worktrees")
    }

    /// Private space for merges in progress.
    pub fn scratch(&self) -> PathBuf {
        self.data.join("scratch")
    }

    /// The folder of one session's private files (agent configuration with tokens).
    pub fn session(&self, session: SessionId) -> PathBuf {
        self.data.join("sessions").join(session.to_string())
    }

    /// The folder of one run's logs.
    pub fn run(&self, run: RunId) -> PathBuf {
        self.data.join("logs").join(run.to_string())
    }

    /// A run's log for people: setup output, prompts, what the agent said and did.
    pub fn run_log(&self, run: RunId) -> PathBuf {
        self.run(run).join("log.txt")
    }

    /// What the repository's cleanup script printed when a worktree was taken away.
    pub fn cleanup_log(&self, worktree: WorktreeId) -> PathBuf {
        self.data.join("logs").join("cleanup").join(format!("{worktree}.txt"))
    }

    /// Every byte the run's agent wrote to standard output.
    pub fn raw_log(&self, run: RunId) -> PathBuf {
        self.run(run).join("agent.raw")
    }

    /// What the run's agent wrote to standard error.
    pub fn stderr_log(&self, run: RunId) -> PathBuf {
        self.run(run).join("agent.stderr")
    }
}

/// What an engine is made of.
pub struct Options {
    /// The open store.
    pub store: Store,
    /// The git helper.
    pub git: Git,
    /// What agents and scripts inherit.
    pub environment: Environment,
    /// Where files are kept.
    pub paths: Paths,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids.
    pub ids: Arc<dyn Ids>,
    /// This server process's name in `runs.node`: new with every start.
    pub node: String,
    /// Scales the engine's own waits (grace periods, batching); 1.0 in production.
    pub patience: f64,
}

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: Options,
    url: OnceLock<String>,
    sessions: Sessions,
    detected: Detected,
    repair_wanted: Notify,
    merges_asked: Asked,
    listings: Listings,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Engine {
    /// An engine at rest; [`Engine::start`] sets it going.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Inner {
            options,
            url: OnceLock::new(),
            sessions: Sessions::default(),
            detected: Detected::default(),
            repair_wanted: Notify::new(),
            merges_asked: Asked::default(),
            listings: Listings::default(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Makes what a first start needs, repairs what the last one left, then starts the queue, the
    /// effects and the timers. `url` is where agents reach this server.
    ///
    /// # Errors
    /// When the store can't be read or the repair can't be written.
    pub async fn start(&self, url: &str) -> Result<()> {
        let _ = self.0.url.set(url.to_owned());
        self.ensure_first_workspace().await?;
        self.reconcile_start().await?;
        self.sweep_merges().await?;
        for lane in Lane::ALL {
            self.spawn(self.clone().run_effects(lane));
        }
        self.spawn(self.clone().run_queue());
        self.spawn(self.clone().run_reconcilers());
        Ok(())
    }

    /// Ends live sessions as interrupted (they resume at the next start), then stops the loops.
    pub async fn stop(&self) {
        self.0.shutdown.cancel();
        self.stop_sessions().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.options.store
    }

    /// The git helper.
    pub fn git(&self) -> &Git {
        &self.0.options.git
    }

    /// Where files are kept.
    pub fn paths(&self) -> &Paths {
        &self.0.options.paths
    }

    /// Where agents reach this server, such as `http://127.0.0.1:4517`.
    pub fn url(&self) -> &str {
        self.0.url.get().map_or("", String::as_str)
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.0.options.environment
    }

    pub(crate) fn ids(&self) -> &dyn Ids {
        &*self.0.options.ids
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.options.clock.now()
    }

    pub(crate) fn node(&self) -> &str {
        &self.0.options.node
    }

    pub(crate) fn merges_asked(&self) -> &Asked {
        &self.0.merges_asked
    }

    pub(crate) fn listings(&self) -> &Listings {
        &self.0.listings
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    pub(crate) fn detected(&self) -> &Detected {
        &self.0.detected
    }

    pub(crate) fn repair_wanted(&self) -> &Notify {
        &self.0.repair_wanted
    }

    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// `seconds` scaled by the engine's patience.
    pub(crate) fn patience(&self, seconds: f64) -> std::time::Duration {
        std::time::Duration::from_secs_f64((seconds * self.0.options.patience).max(0.001))
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(work);
    }
}
