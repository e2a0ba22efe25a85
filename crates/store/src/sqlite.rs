//! SQLite: how its connections are set, and how a file is migrated without ever being at risk.
//!
//! Before an existing file is migrated it is copied, byte for byte; if the migration fails, the copy is put
//! back. The caller holds the data folder's lock all the while. Nothing here is asynchronous: it waits for the disk
//! where it is called.

mod readers;
mod statement;

pub(crate) use readers::{Readers, open_readers};
pub(crate) use statement::{rows, run};

use crate::error::Error;
use crate::migrate::{Dialect, Migration, VERSION_FETCH, VERSION_INSERT, VERSION_TABLE, pending};
use crate::value::Field as _;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for a lock that somebody outside (a backup tool) holds.
const BUSY: Duration = Duration::from_secs(5);
/// Pages that the writing connection keeps, KiB: new rows go into indexes whose pages it has just had.
const WRITER_CACHE: i64 = 16_384;
/// Prepared statements kept per connection.
const STATEMENTS: usize = 512;

fn doing(what: &str, path: &Path) -> String {
    format!("{what} the database {}", path.display())
}

/// Opens the file, which is there, and lets `set` say how the connection is to be.
fn connect(path: &Path, set: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<Connection, Error> {
    // A connection is used by one thread at a time, so that SQLite needs no locks of its own.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|conn| {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        set(&conn)?;
        Ok(conn)
    });
    opened.map_err(|e| Error::database(doing("opening", path), e))
}

/// The one connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    connect(path, |conn| {
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        // What a savepoint needs to be rolled back is kept in memory, not in a temporary file.
        conn.pragma_update(None, "temp_store", "memory")?;
        conn.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        conn.pragma_update(None, "journal_size_limit", 67_108_864)
    })
}

/// A connection that reads.
fn open_reader(path: &Path) -> Result<Connection, Error> {
    connect(path, |conn| conn.pragma_update(None, "query_only", true))
}

/// Brings the file at `path` to the newest version, making it where it is missing.
pub(crate) fn migrate(path: &Path, backup_dir: &Path, migrations: &[Migration], now: Timestamp) -> Result<(), Error> {
    let exists = path.metadata().is_ok_and(|data| data.len() > 0);
    if !exists {
        create(path)?;
    }
    let conn = connect_bare(path)?;
    let found = version(&conn, path);
    let steps = found.and_then(|found| pending(&path.display().to_string(), found, migrations).map(|steps| (found, steps)));
    let (found, steps) = match steps {
        Ok((found, steps)) if !steps.is_empty() => (found, steps),
        other => {
            let closed = close(conn, path);
            return other.map(|_| ()).and(closed);
        }
    };
    let backup = if found > 0 { Some(back_up(conn, path, backup_dir, found, now)?) } else { close(conn, path).map(|()| None)? };
    let mut conn = connect_bare(path)?;
    let applied = apply(&mut conn, path, &steps, backup.as_ref(), now);
    match (applied, backup) {
        (Ok(()), backup) => {
            if let Some(backup) = backup {
                tracing::info!(database = %path.display(), backup = %backup.display(), from = found, "the database was migrated; its backup is kept");
            }
            close(conn, path)
        }
        (Err(error), backup) => {
            let _ = conn.close();
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
fn connect_bare(path: &Path) -> Result<Connection, Error> {
    connect(path, |conn| conn.pragma_update(None, "foreign_keys", false))
}

fn close(conn: Connection, path: &Path) -> Result<(), Error> {
    conn.close().map_err(|(_, e)| Error::database(doing("closing", path), e))
}

fn number(conn: &Connection, path: &Path, sql: &str) -> Result<i64, Error> {
    conn.query_row(sql, [], |row| row.get(0)).map_err(|e| Error::database(doing("reading", path), e))
}

fn version(conn: &Connection, path: &Path) -> Result<i64, Error> {
    if number(conn, path, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_version'")? > 0 {
        return number(conn, path, VERSION_FETCH);
    }
    match number(conn, path, "SELECT COUNT(*) FROM sqlite_master")? {
        0 => Ok(0),
        _ => Err(Error::Foreign { path: path.into() }),
    }
}

/// Moves what is in the write-ahead log into the file, closes it and copies it.
fn back_up(conn: Connection, path: &Path, dir: &Path, found: i64, now: Timestamp) -> Result<PathBuf, Error> {
    let busy = number(&conn, path, "PRAGMA wal_checkpoint(TRUNCATE)")?;
    close(conn, path)?;
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
fn apply(conn: &mut Connection, path: &Path, steps: &[&Migration], backup: Option<&PathBuf>, now: Timestamp) -> Result<(), Error> {
    let failed = |step: &Migration, cause: String| Error::Migration {
        place: path.display().to_string(),
        version: step.version,
        name: step.name.into(),
        cause,
        backup: backup.cloned(),
    };
    let begun = conn.transaction_with_behavior(TransactionBehavior::Immediate);
    let tx = begun.map_err(|e| Error::database(doing("migrating", path), e))?;
    for step in steps {
        let done = || {
            tx.execute_batch(VERSION_TABLE)?;
            tx.execute_batch(&step.text(Dialect::Sqlite))?;
            run(&tx, VERSION_INSERT, &[step.version.value(), step.name.to_owned().value(), now.value()])?;
            rows(&tx, "PRAGMA foreign_key_check", &[])
        };
        let dangling = done().map_err(|e| failed(step, e.to_string()))?;
        if !dangling.is_empty() {
            return Err(failed(step, format!("{} rows would refer to rows that don't exist", dangling.len())));
        }
    }
    let last = steps.last().copied();
    tx.commit().map_err(|e| match last {
        Some(step) => failed(step, e.to_string()),
        None => Error::database(doing("migrating", path), e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pragma(conn: &Connection, name: &str) -> String {
        conn.query_row(&format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn connections_are_set_as_promised() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        create(&path).unwrap();
        let writer = open_writer(&path).unwrap();
        for (name, value) in [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1")] {
            assert_eq!(pragma(&writer, name), value, "{name}");
        }
        let reader = open_reader(&path).unwrap();
        for (name, value) in [("journal_mode", "wal"), ("query_only", "1")] {
            assert_eq!(pragma(&reader, name), value, "{name}");
        }
        for conn in [&writer, &reader] {
            let busy: i64 = conn.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
            assert_eq!(busy, 5000);
        }
        assert!(reader.execute_batch("CREATE TABLE t (x)").is_err());
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
