//! What the store's tests share: a fixed clock and ids, a fresh store on either database, and entities.

#![allow(dead_code)] // Each test binary uses its own part.

pub mod make;

use jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use taskyard_domain::{Clock, Ids};
use taskyard_store::{Database, Options, Store};
use taskyard_testkit::postgres::TestDatabase;
use uuid::Uuid;

/// A clock that starts at a fixed time and goes on a millisecond whenever it is asked.
pub struct Ticks(AtomicI64);

impl Ticks {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        let micros = self.0.fetch_add(1000, Ordering::SeqCst);
        // Odd nanoseconds, as a real clock has them: the store has to cut them.
        Timestamp::from_nanosecond(i128::from(micros) * 1000 + 789).unwrap()
    }
}

/// Ids in rising order, the same in every run.
pub struct Counted(AtomicU64);

impl Ids for Counted {
    fn next(&self) -> Uuid {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        let mut random = [0; 10];
        random[2..].copy_from_slice(&n.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(1_767_225_600_000 + n, &random).into_uuid()
    }
}

#[derive(Clone)]
pub struct Sources {
    pub clock: Arc<Ticks>,
    pub ids: Arc<Counted>,
}

impl Sources {
    pub fn new() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { clock: Arc::new(Ticks(AtomicI64::new(start.as_microsecond()))), ids: Arc::new(Counted(AtomicU64::new(1))) }
    }

    pub fn options(&self, database: Database, dir: &Path) -> Options {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let ids: Arc<dyn Ids> = self.ids.clone();
        Options { database, backup_dir: dir.join("backups"), clock, ids, audited: false }
    }
}

/// A fresh store that one test owns.
pub struct Harness {
    pub store: Store,
    pub sources: Sources,
    pub database: Database,
    pub dir: tempfile::TempDir,
    postgres: Option<TestDatabase>,
}

impl Harness {
    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::Sqlite { path: dir.path().join("taskyard.db") };
        Self::on(database, dir, None).await
    }

    /// Nothing where there is no PostgreSQL; that was said on standard error.
    pub async fn postgres() -> Option<Self> {
        let made = TestDatabase::make().await.unwrap()?;
        let database = Database::Postgres { url: made.url.clone() };
        Some(Self::on(database, tempfile::tempdir().unwrap(), Some(made)).await)
    }

    async fn on(database: Database, dir: tempfile::TempDir, postgres: Option<TestDatabase>) -> Self {
        let sources = Sources::new();
        let store = Store::open(sources.options(database.clone(), dir.path())).await.unwrap();
        Self { store, sources, database, dir, postgres }
    }

    /// Another store on the same database, as another node has it.
    pub async fn open_again(&self) -> Store {
        Store::open(self.sources.options(self.database.clone(), self.dir.path())).await.unwrap()
    }

    pub fn is_postgres(&self) -> bool {
        self.postgres.is_some()
    }

    pub async fn finish(self) {
        self.store.close().await;
        if let Some(postgres) = self.postgres {
            postgres.remove().await.unwrap();
        }
    }
}

/// Fails instead of hanging. Only for waits that are over at once when the code is right.
pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it should have happened long ago")
}

/// A write whose closure is an async block: `write!(store, tx => { … })`.
#[macro_export]
macro_rules! write_tx {
    ($store:expr, |$tx:ident| $body:expr) => {
        $store.write(move |$tx| Box::pin(async move { $body })).await
    };
}

/// A read likewise.
#[macro_export]
macro_rules! read_tx {
    ($store:expr, |$read:ident| $body:expr) => {
        $store.read(move |$read| Box::pin(async move { $body })).await
    };
}
