//! The store: opening, closing, and the two ways in, [`Store::write`] and [`Store::read`].

use crate::error::Error;
use crate::migrate::{self, Migration};
use crate::postgres::{self, Server};
use crate::sqlite::{self, Readers};
use crate::tx::{Env, Read, Tx};
use crate::wake::{Subscription, Wake, Wakes};
use crate::writer::Writer;
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use taskyard_domain::event::Kind;
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::{Clock, Ids, Result, Timestamp};

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file, made where it is missing. The caller holds the data folder's lock.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// A server, shared by several nodes.
    Postgres {
        /// `postgres://user@host/database`; without TLS a host that isn't this machine needs `sslmode=disable`.
        url: String,
    },
}

/// How to open a store.
pub struct Options {
    /// Which database.
    pub database: Database,
    /// Where an SQLite database is copied to before it is migrated.
    pub backup_dir: PathBuf,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// Whether a transaction that changes what users see without an audit entry is refused with `INTERNAL`: a bug of the
    /// program, looked for in builds with debug assertions. Tests of the store alone do without entries.
    pub audited: bool,
}

enum Backend {
    Sqlite { writer: Writer, readers: Readers },
    Postgres(Server),
}

struct Inner {
    backend: Backend,
    env: Env,
    wakes: Arc<Wakes>,
    reads: AtomicU64,
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl Store {
    /// Opens the database, making or migrating it as needed.
    ///
    /// # Errors
    /// [`Error::Newer`] for a database of a newer Taskyard, [`Error::Migration`] when a migration fails (the
    /// database is as before, and the error names the backup), [`Error::Database`] when it can't be reached.
    pub async fn open(options: Options) -> Result<Store, Error> {
        Self::open_with(options, &[]).await
    }

    /// [`Store::open`] with further migrations after the embedded ones, so that tests can play a newer Taskyard
    /// and one whose migration fails.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[doc(hidden)]
    pub async fn open_with(options: Options, further: &[Migration]) -> Result<Store, Error> {
        let migrations = [migrate::ALL, further].concat();
        let env = Env { clock: options.clock, ids: options.ids, audited: options.audited };
        let wakes = Arc::new(Wakes::default());
        let backend = match options.database {
            Database::Sqlite { path } => {
                sqlite::migrate(&path, &options.backup_dir, &migrations, env.now())?;
                let conn = sqlite::open_writer(&path)?;
                let readers = sqlite::open_readers(path.clone())?;
                Backend::Sqlite { writer: Writer::start(conn, path, env.clone(), Arc::clone(&wakes))?, readers }
            }
            Database::Postgres { url } => Backend::Postgres(postgres::open(&url, &migrations, env.now(), Arc::clone(&wakes)).await?),
        };
        Ok(Self { inner: Arc::new(Inner { backend, env, wakes, reads: AtomicU64::new(0) }) })
    }

    /// Runs `f` in one transaction: all of it is stored, or nothing. Answers after the commit.
    ///
    /// Once begun it is finished even when the caller stops waiting. On SQLite transactions run one after
    /// another, and those that wait are committed together.
    ///
    /// # Errors
    /// What `f` returns; `CONFLICT` and `FAILED_PRECONDITION` for broken uniqueness and references;
    /// `UNAVAILABLE` when the database doesn't answer or the store is closed.
    pub async fn write<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<T>> + Send + 'static,
    {
        match &self.inner.backend {
            Backend::Sqlite { writer, .. } => writer.write(f).await,
            Backend::Postgres(server) => server.write(self.inner.env.clone(), Arc::clone(&self.inner.wakes), f).await,
        }
    }

    /// Runs `f` on one consistent snapshot.
    ///
    /// # Errors
    /// What `f` returns; `UNAVAILABLE` when the database doesn't answer or the store is closed.
    pub async fn read<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Read) -> BoxFuture<'a, Result<T>> + Send + 'static,
    {
        self.inner.reads.fetch_add(1, Ordering::Relaxed);
        match &self.inner.backend {
            Backend::Sqlite { readers, .. } => readers.read(self.inner.env.clone(), f).await,
            Backend::Postgres(server) => server.read(self.inner.env.clone(), f).await,
        }
    }

    /// The events of `workspace` after number `after`, for ever; see [`Subscription`].
    pub fn subscribe(&self, workspace: WorkspaceId, after: i64) -> Subscription {
        Subscription::new(self.clone(), self.inner.wakes.watch(workspace, None), workspace, None, after)
    }

    /// The same of these kinds only: commits that wrote none of them neither wake it nor cost it a read.
    pub fn subscribe_kinds(&self, workspace: WorkspaceId, kinds: &'static [Kind], after: i64) -> Subscription {
        Subscription::new(self.clone(), self.inner.wakes.watch(workspace, Some(kinds)), workspace, Some(kinds), after)
    }

    /// How many snapshots were read since the store was opened.
    pub fn read_count(&self) -> u64 {
        self.inner.reads.load(Ordering::Relaxed)
    }

    /// A signal that is raised by every commit that wrote outbox rows, or events other than
    /// [quiet](taskyard_domain::event::Kind::is_quiet) ones.
    pub fn subscribe_all(&self) -> Wake {
        self.inner.wakes.watch_all()
    }

    /// A signal that is raised by every commit that wrote outbox rows. On PostgreSQL, where other nodes' commits tell
    /// less, also by others.
    pub fn subscribe_outbox(&self) -> Wake {
        self.inner.wakes.watch_outbox()
    }

    /// Now, by the injected clock, in the precision that the database keeps.
    pub fn now(&self) -> Timestamp {
        self.inner.env.now()
    }

    /// The injected source of ids.
    pub fn ids(&self) -> &dyn Ids {
        &*self.inner.env.ids
    }

    /// Waits for what is being written, then closes every connection. Calls after that are `UNAVAILABLE`, and
    /// so are waiting subscriptions.
    pub async fn close(&self) {
        match &self.inner.backend {
            Backend::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Backend::Postgres(server) => server.close().await,
        }
        self.inner.wakes.wake_everybody();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}
