//! `taskyard serve`: lock, database, engine, listener, until told to stop.

use crate::args::{Global, Serve};

use crate::config::Config;
use crate::discover::ServerFile;
use crate::fail::{Result, machine};
use crate::{listener, logging};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use taskyard_domain::{Clock, Error, Ids};
use taskyard_engine::{Engine, Options, Paths, SystemClock, SystemIds};
use taskyard_mcp::transport::Timing;
use taskyard_mcp::{CallLog, Dispatcher, EngineBackend, EngineSessions};
use taskyard_process::Environment;
use taskyard_store::{Database, DirLock, Error as StoreError, Holder, Store, lock_data_dir};
use taskyard_web::guard::Guard;
use taskyard_web::{App, Readiness};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long open requests may take to finish when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long the lock of a holder that is gone is waited for: a child that it was just starting when it was killed
/// keeps what it had open until it has become another program.
const LOCK_LINGERS: Duration = Duration::from_secs(10);

/// Runs the server until SIGINT or SIGTERM.
pub async fn run(global: &Global, flags: &Serve) -> Result<()> {
    let config = Config::load(global, flags)?;
    logging::init(&config.log)?;
    taskyard_web::check_bind(config.listen)?;
    let mut signals = Signals::listen()?;
    let mut lock = take_folder(&config.data_dir).await?;
    let listener = listener::bind(config.listen).await?;
    let address = listener.local_addr().map_err(|e| machine("reading the listener's address", e))?;
    let url = format!("http://{address}");
    let (engine, store) = open(&config).await?;
    let shutdown = CancellationToken::new();
    let readiness = Readiness::default();
    let app = app(&config, &engine, readiness.clone(), &shutdown)?;
    let mut server = tokio::spawn(taskyard_web::serve(listener, taskyard_web::router(app), shutdown.clone(), STOP_PATIENCE));
    engine.start(&url).await?;
    readiness.set();
    announce(&config, &mut lock, &url)?;
    tracing::info!(url, data = %config.data_dir.display(), "ready");
    let stopped = tokio::select! {
        () = signals.stop(|| engine.repair_now()) => Ok(()),
        ended = &mut server => Err(match ended {
            Ok(Err(error)) => machine("serving", error),
            Ok(Ok(())) => Error::internal("the listener ended by itself"),
            Err(error) => Error::internal(format!("the listener broke off: {error}")),
        }),
    };
    tracing::info!("stopping");
    ServerFile::remove(&config.data_dir);
    shutdown.cancel();
    engine.stop().await;
    if !server.is_finished() {
        // What was done on the way out is still answered; the listener's own patience bounds this.
        let _ = server.await;
    }
    store.close().await;
    drop(lock);
    stopped
}

async fn take_folder(folder: &Path) -> Result<DirLock> {
    std::fs::create_dir_all(folder).map_err(|e| machine(&format!("making {}", folder.display()), e))?;
    let own = Holder { pid: std::process::id(), url: None, started_at: SystemClock.now() };
    let is_gone = |holder: &Holder| i32::try_from(holder.pid).is_ok_and(|pid| taskyard_process::tree::start_time(pid).is_none());
    let give_up = tokio::time::Instant::now() + LOCK_LINGERS;
    loop {
        match lock_data_dir(folder, &own) {
            Err(StoreError::Locked { holder: Some(holder), .. }) if is_gone(&holder) && tokio::time::Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return Ok(other?),
        }
    }
}

fn announce(config: &Config, lock: &mut DirLock, url: &str) -> Result<()> {
    let started_at = SystemClock.now();
    let pid = std::process::id();
    lock.describe(&Holder { pid, url: Some(url.into()), started_at })?;
    ServerFile { url: url.into(), pid, started_at, version: env!("CARGO_PKG_VERSION").into() }.write(&config.data_dir)
}

async fn open(config: &Config) -> Result<(Engine, Store)> {
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let database = match &config.database_url {
        Some(url) => postgres(url)?,
        None => Database::Sqlite { path: config.data_dir.join("taskyard.db") },
    };
    let options = taskyard_store::Options {
        database,
        backup_dir: config.data_dir.join("backups"),
        clock: clock.clone(),
        ids: ids.clone(),
        audited: true,
    };
    let store = Store::open(options).await?;
    let environment = Environment::from_vars(std::env::vars_os());
    let engine = Engine::new(Options {
        store: store.clone(),
        git: taskyard_git::Git::new(environment.without_agents()),
        environment,
        paths: Paths::new(&config.data_dir),
        clock,
        node: node(&config.data_dir, &*ids)?,
        ids,
        patience: 1.0,
    });
    Ok((engine, store))
}

/// Only `postgres://` URLs, and over a network only with TLS or with its absence written out.
fn postgres(url: &str) -> Result<Database> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err(Error::invalid("database_url", "database_url: only postgres:// URLs; SQLite needs none"));
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let local = host.is_empty() || ["localhost", "127.0.0.1", "[::1]"].iter().any(|l| host == *l || host.starts_with(&format!("{l}:")));
    if !local && !cfg!(feature = "tls") && !url.contains("sslmode=disable") {
        let message = "database_url: this build has no TLS, so a database on another machine needs sslmode=disable written out";
        return Err(Error::invalid("database_url", message).with_hint("`make release` builds with TLS"));
    }
    Ok(Database::Postgres { url: url.into() })
}

/// This server process's name: the data folder's own id, which survives restarts, and one of this start.
fn node(data_dir: &std::path::Path, ids: &dyn Ids) -> Result<String> {
    let path = data_dir.join("node-id");
    let failed = |error| machine(&format!("reading {}", path.display()), error);
    let family = match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) => new_family(&path, ids).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => new_family(&path, ids).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    Ok(format!("{family}:{}", ids.next()))
}

fn new_family(path: &std::path::Path, ids: &dyn Ids) -> std::io::Result<String> {
    let family = ids.next().to_string();
    std::fs::write(path, &family)?;
    Ok(family)
}

fn app(config: &Config, engine: &Engine, readiness: Readiness, shutdown: &CancellationToken) -> Result<App> {
    let mut dispatcher = Dispatcher::new(Arc::new(EngineBackend::new(engine.clone())));
    if let Some(path) = &config.mcp_log {
        let log = CallLog::open(path, Arc::new(SystemClock)).map_err(|e| machine(&format!("opening {}", path.display()), e))?;
        dispatcher = dispatcher.with_log(log);
    }
    let guard = Guard::new(&config.allowed_hosts, &config.allowed_origins)?;
    Ok(App {
        dispatcher,
        sessions: Arc::new(EngineSessions::new(engine.clone())),
        readiness,
        guard,
        timing: Timing::default(),
        shutdown: shutdown.clone(),
    })
}

/// The signals that the server heeds. One that comes before anybody waits is kept.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    /// From here on none of them ends the process by itself.
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| machine("listening for signals", error));
        Ok(Self { term: listen(SignalKind::terminate())?, int: listen(SignalKind::interrupt())?, hup: listen(SignalKind::hangup())? })
    }

    /// Waits for SIGTERM or SIGINT; SIGHUP has the reconcilers look now.
    async fn stop(&mut self, repair: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                _ = self.hup.recv() => repair(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(folder: &Path, pid: u32) -> DirLock {
        lock_data_dir(folder, &Holder { pid, url: None, started_at: SystemClock.now() }).unwrap()
    }

    #[tokio::test]
    async fn a_stop_that_comes_before_anybody_waits_for_it_counts() {
        let mut signals = Signals::listen().unwrap();
        let env = Environment::from_vars(std::env::vars_os());
        let kill = taskyard_process::Command::new("kill", "/", env).args(["-TERM".to_owned(), std::process::id().to_string()]);
        assert!(taskyard_process::run(kill).await.unwrap().ok());
        signals.stop(|| panic!("nobody asked for a repair")).await;
    }

    #[tokio::test]
    async fn a_lock_that_outlives_its_holder_is_waited_for_and_a_living_holder_is_not() {
        let (other, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _living = held_by(other.path(), std::process::id());
        assert!(take_folder(other.path()).await.is_err());
        // No process can have this id.
        let lingering = held_by(folder.path(), 0x7fff_ffff);
        let mut taking = std::pin::pin!(take_folder(folder.path()));
        assert!(futures::poll!(&mut taking).is_pending());
        drop(lingering);
        taking.await.unwrap();
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_remote_database_without_tls_must_be_asked_for() {
        assert!(postgres("postgres://u@localhost:5432/x").is_ok());
        assert!(postgres("postgres:///x?host=/tmp").is_ok());
        assert!(postgres("postgres://u:p@db.example/x").is_err());
        assert!(postgres("postgres://u:p@db.example/x?sslmode=disable").is_ok());
        assert!(postgres("mysql://x").is_err());
    }
}
