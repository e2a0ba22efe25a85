//! SQLite: how its connections are set, and how a file is migrated without ever being at risk.
//!
//! Before an existing file is migrated it is copied, byte for byte; if the migration fails, the copy is put
//! back. The caller holds the data folder's lock all the while.

use crate::conn::begin;
use crate::error::Error;
use crate::migrate::{Dialect, Migration, VERSION_FETCH, VERSION_INSERT, VERSION_TABLE, pending};
use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for a lock that somebody outside (a backup tool) holds.
const BUSY: Duration = Duration::from_secs(5);
/// Readers at once; more wait.
const READERS: u32 = 4;
/// Prepared statements kept per connection.
const STATEMENTS: usize = 512;

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).statement_cache_capacity(STATEMENTS)
}

fn doing(what: &str, path: &Path) -> String {
    format!("{what} the database {}", path.display())
}

/// The one connection that writes.
pub(crate) async fn open_writer(path: &Path) -> Result<SqliteConnection, Error> {
    let options = options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("journal_size_limit", "67108864");
    options.connect().await.map_err(|e| Error::database(doing("opening", path), e))
}

/// The connections that read.
pub(crate) struct Readers {
    pool: SqlitePool,
}

/// Opens the readers; the writer has been opened before.
pub(crate) async fn open_readers(path: &Path) -> Result<Readers, Error> {
    let pool = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(Duration::from_secs(30))
        .idle_timeout(None)
        .max_lifetime(None)
        // A file doesn't hang up.
        .test_before_acquire(false)
        .connect_with(options(path).pragma("query_only", "1"))
        .await
        .map_err(|e| Error::database(doing("opening", path), e))?;
    Ok(Readers { pool })
}

impl Readers {
    /// A snapshot.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Sqlite>, Error> {
        begin(&self.pool, "BEGIN DEFERRED").await
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Brings the file at `path` to the newest version, making it where it is missing.
pub(crate) async fn migrate(path: &Path, backup_dir: &Path, migrations: &[Migration], now: Timestamp) -> Result<(), Error> {
    let exists = path.metadata().is_ok_and(|data| data.len() > 0);
    if !exists {
        create(path)?;
    }
    let mut conn = connect_bare(path).await?;
    let found = version(&mut conn, path).await;
    let steps = found.and_then(|found| pending(&path.display().to_string(), found, migrations).map(|steps| (found, steps)));
    let (found, steps) = match steps {
        Ok((found, steps)) if !steps.is_empty() => (found, steps),
        other => {
            let closed = conn.close().await.map_err(|e| Error::database(doing("closing", path), e));
            return other.map(|_| ()).and(closed);
        }
    };
    let backup =
        if found > 0 { Some(back_up(conn, path, backup_dir, found, now).await?) } else { close(conn, path).await.map(|()| None)? };
    let mut conn = connect_bare(path).await?;
    let applied = apply(&mut conn, path, &steps, backup.as_ref(), now).await;
    match (applied, backup) {
        (Ok(()), backup) => {
            if let Some(backup) = backup {
                tracing::info!(database = %path.display(), backup = %backup.display(), from = found, "the database was migrated; its backup is kept");
            }
            close(conn, path).await
        }
        (Err(error), backup) => {
            let _ = conn.close().await;
            if let Some(backup) = backup {
                restore(path, &backup).map_err(|problem| Error::Restore {
                    path: path.into(),
                    backup,
                    cause: error.to_string(),
                    problem,
                })?;
            }
            Err(error)
        }
    }
}

/// Makes an empty file that only its owner can read: agents' environments are stored in it.
fn create(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { doing: "making the database", path: path.into(), source };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ()).map_err(failed)
}

/// A connection that changes no settings of the file; foreign keys are checked once, at the end.
async fn connect_bare(path: &Path) -> Result<SqliteConnection, Error> {
    options(path).foreign_keys(false).connect().await.map_err(|e| Error::database(doing("opening", path), e))
}

async fn close(conn: SqliteConnection, path: &Path) -> Result<(), Error> {
    conn.close().await.map_err(|e| Error::database(doing("closing", path), e))
}

async fn number(conn: &mut SqliteConnection, path: &Path, sql: &'static str) -> Result<i64, Error> {
    let row = sqlx::query(sql).fetch_one(conn).await;
    row.and_then(|row| row.try_get_unchecked(0)).map_err(|e| Error::database(doing("reading", path), e))
}

async fn version(conn: &mut SqliteConnection, path: &Path) -> Result<i64, Error> {
    if number(conn, path, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_version'").await? > 0 {
        return number(conn, path, VERSION_FETCH).await;
    }
    match number(conn, path, "SELECT COUNT(*) FROM sqlite_master").await? {
        0 => Ok(0),
        _ => Err(Error::Foreign { path: path.into() }),
    }
}

/// Moves what is in the write-ahead log into the file, closes it and copies it.
async fn back_up(mut conn: SqliteConnection, path: &Path, dir: &Path, found: i64, now: Timestamp) -> Result<PathBuf, Error> {
    let busy = number(&mut conn, path, "PRAGMA wal_checkpoint(TRUNCATE)").await?;
    close(conn, path).await?;
    if busy != 0 {
        return Err(Error::InUse { path: path.into() });
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stamp = now.strftime("%Y%m%dT%H%M%SZ");
    let backup = (1..)
        .map(|n: u32| dir.join(if n == 1 { format!("{stem}-v{found}-{stamp}.db") } else { format!("{stem}-v{found}-{stamp}-{n}.db") }))
        .find(|candidate| !candidate.exists())
        .unwrap_or_else(|| dir.join(format!("{stem}-v{found}.db")));
    let copied = std::fs::create_dir_all(dir).and_then(|()| copy(path, &backup));
    copied.map_err(|source| Error::Backup { path: path.into(), backup: backup.clone(), source })?;
    Ok(backup)
}

/// Copies so that the target is either whole and on the disk, or as it was.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    std::fs::copy(from, &part)?;
    File::open(&part)?.sync_all()?;
    std::fs::rename(&part, to)?;
    match to.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Puts the backup back, unless the file is still what it was.
fn restore(path: &Path, backup: &Path) -> io::Result<()> {
    for tail in ["-wal", "-shm", "-journal"] {
        let mut side = path.as_os_str().to_owned();
        side.push(tail);
        match std::fs::remove_file(PathBuf::from(side)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    copy(backup, path)
}

/// Applies every step in one transaction.
async fn apply(
    conn: &mut SqliteConnection,
    path: &Path,
    steps: &[&Migration],
    backup: Option<&PathBuf>,
    now: Timestamp,
) -> Result<(), Error> {
    let failed = |step: &Migration, cause: String| Error::Migration {
        place: path.display().to_string(),
        version: step.version,
        name: step.name.into(),
        cause,
        backup: backup.cloned(),
    };
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.map_err(|e| Error::database(doing("migrating", path), e))?;
    for step in steps {
        let done = async {
            sqlx::raw_sql(VERSION_TABLE).execute(&mut *tx).await?;
            sqlx::raw_sql(AssertSqlSafe(step.text(Dialect::Sqlite))).execute(&mut *tx).await?;
            let insert = sqlx::query(VERSION_INSERT).bind(step.version).bind(step.name).bind(now.as_microsecond());
            insert.execute(&mut *tx).await?;
            sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut *tx).await
        };
        let dangling = done.await.map_err(|e| failed(step, e.to_string()))?;
        if !dangling.is_empty() {
            return Err(failed(step, format!("{} rows would refer to rows that don't exist", dangling.len())));
        }
    }
    let last = steps.last().copied();
    tx.commit().await.map_err(|e| match last {
        Some(step) => failed(step, e.to_string()),
        None => Error::database(doing("migrating", path), e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pragma(conn: &mut SqliteConnection, name: &str) -> String {
        let row = sqlx::query(AssertSqlSafe(format!("PRAGMA {name}"))).fetch_one(conn).await.unwrap();
        row.try_get_unchecked::<String, _>(0).unwrap()
    }

    #[tokio::test]
    async fn connections_are_set_as_promised() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        create(&path).unwrap();
        let mut writer = open_writer(&path).await.unwrap();
        for (name, value) in [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1"), ("busy_timeout", "5000")] {
            assert_eq!(pragma(&mut writer, name).await, value, "{name}");
        }
        let readers = open_readers(&path).await.unwrap();
        let mut reader = readers.begin().await.unwrap();
        for (name, value) in [("journal_mode", "wal"), ("query_only", "1"), ("busy_timeout", "5000")] {
            assert_eq!(pragma(&mut reader, name).await, value, "{name}");
        }
        assert!(sqlx::query("CREATE TABLE t (x)").execute(&mut *reader).await.is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/x.db");
        create(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
