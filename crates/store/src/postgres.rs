//! PostgreSQL: the pool, transactions, migrations under an advisory lock, and the listener that turns other
//! nodes' commits into wake-ups here.

use crate::conn::{Conn, Link};
use crate::error::Error;
use crate::migrate::{Dialect, Migration, VERSION_FETCH, VERSION_INSERT, VERSION_TABLE, pending};
use crate::tx::{CHANNEL, Env, News, Read, Tx, Woken};
use crate::wake::Wakes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, Row as _, Transaction};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use taskyard_domain::{Error as Domain, Result as DomainResult};
use tokio::task::JoinHandle;

/// Connections at most, the listener's among them.
const CONNECTIONS: u32 = 17;
/// Prepared statements kept per connection.
const STATEMENTS: usize = 512;
/// The advisory lock that nodes migrate under: "taskyard" in ASCII.
const MIGRATION_LOCK: i64 = 0x7461_736b_7961_7264;
/// Longest pause between attempts to listen again.
const RELISTEN: Duration = Duration::from_secs(5);

/// The connections to a server.
pub(crate) struct Server {
    pool: PgPool,
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// Connects, migrates and starts to listen.
pub(crate) async fn open(url: &str, migrations: &[Migration], now: Timestamp, wakes: Arc<Wakes>) -> Result<Server, Error> {
    let options = options(url)?;
    let place = place(&options);
    migrate(&options, &place, migrations, now).await?;
    let failed = |e| Error::database(format!("connecting to the database {place}"), e);
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(30))
        .connect_with(options)
        .await
        .map_err(failed)?;
    let listener = listen(&pool).await.map_err(failed)?;
    let task = tokio::spawn(pass_on(listener, pool.clone(), wakes));
    Ok(Server { pool, listener: Mutex::new(Some(task)) })
}

/// Reads the URL.
fn options(url: &str) -> Result<PgConnectOptions, Error> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|e| Error::Url { problem: format!("{e}; it looks like postgres://user:password@host:5432/database") })?;
    let host = options.get_host();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let here = options.get_socket().is_some() || host.starts_with('/') || host == "localhost" || address.is_ok_and(|a| a.is_loopback());
    let Some(mode) = encryption(options.get_ssl_mode(), here, cfg!(feature = "tls")) else {
        let problem = format!(
            "this Taskyard was built without TLS, so the connection to {host} would not be encrypted; add sslmode=disable to \
             accept that, or use a build with TLS"
        );
        return Err(Error::Url { problem });
    };
    Ok(options.ssl_mode(mode).application_name("taskyard").statement_cache_capacity(STATEMENTS))
}

/// How the connection is encrypted, `here` being this machine; `None` where that can't be had. Nothing but the
/// word `disable` sends a password to another machine in the clear.
fn encryption(asked: PgSslMode, here: bool, built_in: bool) -> Option<PgSslMode> {
    match (asked, built_in) {
        (PgSslMode::Disable, _) => Some(PgSslMode::Disable),
        (PgSslMode::Allow | PgSslMode::Prefer, true) if !here => Some(PgSslMode::Require),
        (PgSslMode::Allow | PgSslMode::Prefer, false) if here => Some(PgSslMode::Disable),
        (asked, true) => Some(asked),
        (_, false) => None,
    }
}

/// The server and database in words, without the password.
fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{database} at {}", socket.display()),
        None => format!("{database} at {}:{}", options.get_host(), options.get_port()),
    }
}

impl Server {
    /// Runs `f` in a transaction, in a task of its own: it is finished even when the caller stops waiting.
    pub(crate) async fn write<T, F>(&self, env: Env, wakes: Arc<Wakes>, f: F) -> DomainResult<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, DomainResult<T>> + Send + 'static,
    {
        let pool = self.pool.clone();
        let task = tokio::spawn(async move {
            let link = begin(&pool, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            let mut tx = Tx::new(Read::new(Conn::new(Link::Postgres(link)), env));
            let done = match f(&mut tx).await {
                Ok(value) => tx.finish().await.map(|woken| (value, woken)),
                Err(error) => Err(error),
            };
            match done {
                Ok((value, woken)) => {
                    commit(tx).await?;
                    wakes.wake(&woken);
                    Ok(value)
                }
                Err(error) => {
                    tx.read.end().await;
                    Err(error)
                }
            }
        });
        task.await.unwrap_or_else(|_| Err(Domain::internal("a command panicked in the middle of its transaction")))
    }

    /// Runs `f` on one consistent snapshot.
    pub(crate) async fn read<T, F>(&self, env: Env, f: F) -> DomainResult<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Read) -> BoxFuture<'a, DomainResult<T>> + Send + 'static,
    {
        let link = begin(&self.pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let mut read = Read::new(Conn::new(Link::Postgres(link)), env);
        let answer = f(&mut read).await;
        // Nobody has to wait for the snapshot to be given back.
        tokio::spawn(read.end());
        answer
    }

    pub(crate) async fn close(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = listener {
            task.abort();
            let _ = task.await;
        }
        self.pool.close().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Begins a transaction in a task of its own: a caller that goes away in the middle of `BEGIN` would otherwise
/// leave a connection in the pool that is inside a transaction nobody knows of (sqlx counts it only afterwards).
/// Here an unwanted transaction is finished like any other that is dropped.
async fn begin(pool: &PgPool, sql: &'static str) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(sql).await }).await;
    match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
        Err(sqlx::Error::PoolClosed) => Err(Error::Closed),
        other => other.map_err(|e| Error::database("beginning a transaction", e)),
    }
}

async fn commit(tx: Tx) -> Result<(), Error> {
    match tx.read.conn.link {
        Link::Postgres(tx) => tx.commit().await.map_err(|e| Error::database("committing a transaction", e)),
        Link::Sqlite(_) => Ok(()),
    }
}

async fn listen(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Passes notifications on. Whenever some may have been missed, everybody is woken and reads the tables.
async fn pass_on(mut listener: PgListener, pool: PgPool, wakes: Arc<Wakes>) {
    let mut pause = Duration::from_millis(50);
    loop {
        match listener.try_recv().await {
            Ok(Some(news)) => {
                pause = Duration::from_millis(50);
                let news = News::from_payload(news.payload());
                let outbox = news.as_ref().is_none_or(News::is_loud);
                wakes.wake(&Woken { workspaces: news.into_iter().collect(), outbox });
            }
            // The connection broke and was made again.
            Ok(None) => wakes.wake_everybody(),
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => {
                tracing::warn!(%error, "the connection that listens for other nodes' commits broke; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RELISTEN);
                match listen(&pool).await {
                    Ok(again) => {
                        listener = again;
                        wakes.wake_everybody();
                    }
                    Err(sqlx::Error::PoolClosed) => return,
                    Err(error) => tracing::debug!(%error, "listening again failed"),
                }
            }
        }
    }
}

/// Applies what is missing in one transaction; other nodes that start meanwhile wait for it.
async fn migrate(options: &PgConnectOptions, place: &str, migrations: &[Migration], now: Timestamp) -> Result<(), Error> {
    let failed = |e| Error::database(format!("connecting to the database {place}"), e);
    let mut conn: PgConnection = options.connect().await.map_err(failed)?;
    let mut tx = conn.begin().await.map_err(failed)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *tx).await.map_err(failed)?;
    let exists = sqlx::query("SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('schema_version')").fetch_one(&mut *tx).await;
    let exists: i64 = exists.and_then(|row| row.try_get(0)).map_err(failed)?;
    let found: i64 = if exists == 0 {
        0
    } else {
        sqlx::query(VERSION_FETCH).fetch_one(&mut *tx).await.and_then(|row| row.try_get(0)).map_err(failed)?
    };
    for step in pending(place, found, migrations)? {
        let done = async {
            sqlx::raw_sql(VERSION_TABLE).execute(&mut *tx).await?;
            sqlx::raw_sql(AssertSqlSafe(step.text(Dialect::Postgres))).execute(&mut *tx).await?;
            let insert = sqlx::query(VERSION_INSERT).bind(step.version).bind(step.name).bind(now.as_microsecond());
            insert.execute(&mut *tx).await
        };
        done.await.map_err(|e| Error::Migration {
            place: place.into(),
            version: step.version,
            name: step.name.into(),
            cause: e.to_string(),
            backup: None,
        })?;
    }
    tx.commit().await.map_err(failed)?;
    conn.close().await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_sends_to_another_machine_in_the_clear() {
        use PgSslMode::{Allow, Disable, Prefer, Require, VerifyFull};
        for asked in [Allow, Prefer] {
            assert!(matches!(encryption(asked, false, true), Some(Require)), "{asked:?}");
            assert!(encryption(asked, false, false).is_none(), "{asked:?}");
            assert!(matches!(encryption(asked, true, false), Some(Disable)), "{asked:?}");
        }
        assert!(matches!(encryption(Prefer, true, true), Some(Prefer)));
        for (here, built_in) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(matches!(encryption(Disable, here, built_in), Some(Disable)));
            assert_eq!(encryption(VerifyFull, here, built_in).is_some(), built_in);
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let here = ["postgres://me@localhost/x", "postgres://me@127.0.0.1:5433/x", "postgres://me@[::1]/x", "postgres:///x?host=/var/run"];
        for url in here {
            assert!(options(url).is_ok(), "{url}");
        }
        assert!(options("postgres://me@db.example/x?sslmode=disable").is_ok());
        let there = options("postgres://me@db.example/x");
        if cfg!(feature = "tls") {
            assert!(matches!(there.unwrap().get_ssl_mode(), PgSslMode::Require));
        } else {
            let text = there.map(|_| ()).unwrap_err().to_string();
            assert!(text.contains("db.example") && text.contains("sslmode=disable"), "{text}");
        }
    }

    #[test]
    fn the_place_has_no_password() {
        let options = options("postgres://me:secret@localhost:5433/yard").unwrap();
        assert_eq!(place(&options), "yard at localhost:5433");
    }
}
