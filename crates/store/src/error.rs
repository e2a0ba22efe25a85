//! What can go wrong in the store, and how it folds into the error that faces show.
//!
//! Only faults of Taskyard's own become `INTERNAL`: a lost race is `CONFLICT`, a row that something still
//! refers to is `FAILED_PRECONDITION`, a database that doesn't answer is `UNAVAILABLE`.

use crate::lock::Holder;
use std::path::PathBuf;
use taskyard_domain::{Class, Error as Domain};

/// What a database's driver says.
#[derive(Debug, thiserror::Error)]
pub enum Driver {
    /// SQLite's.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL's.
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refused or didn't answer.
    #[error("{doing}: {source}")]
    Database {
        /// What was being done, naming the file or server.
        doing: String,
        /// What the driver says.
        source: Driver,
    },
    /// A stored value can't be read back.
    #[error("column {column} of the stored {what} can't be read: {problem}")]
    Stored {
        /// The table.
        what: &'static str,
        /// The column.
        column: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// An earlier statement of the same transaction failed and the closure went on regardless.
    #[error("an earlier statement of this transaction failed ({first}); nothing of it was stored")]
    Broken {
        /// The first failure.
        first: String,
    },
    /// The store is closed.
    #[error("the database is closed: the server is stopping")]
    Closed,
    /// The database was written by a newer Taskyard.
    #[error(
        "{place} has schema version {found}, and this Taskyard knows versions up to {known}: start the newer Taskyard that wrote it, or restore an older backup"
    )]
    Newer {
        /// The file or server.
        place: String,
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// The file is a database, but not Taskyard's.
    #[error("{} is not a Taskyard database: it has tables, but no schema_version", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A migration failed; nothing changed.
    #[error("migrating {place} to schema version {version} ({name}) failed: {cause}. The database is as it was before{}", backup_note(backup.as_ref()))]
    Migration {
        /// The file or server.
        place: String,
        /// The version that couldn't be reached.
        version: i64,
        /// The migration's name.
        name: String,
        /// Why.
        cause: String,
        /// The copy made before, where there is one.
        backup: Option<PathBuf>,
    },
    /// A failed migration's database could not be put back; the backup holds the data.
    #[error("migrating {} failed ({cause}), and it could not be put back ({problem}); copy the backup {} over it by hand", path.display(), backup.display())]
    Restore {
        /// The database file.
        path: PathBuf,
        /// The copy made before.
        backup: PathBuf,
        /// Why the migration failed.
        cause: String,
        /// Why putting it back failed.
        problem: std::io::Error,
    },
    /// The backup before a migration could not be made; nothing was touched.
    #[error("the database {} has to be migrated, but its backup {} can't be written: {source}; nothing was changed", path.display(), backup.display())]
    Backup {
        /// The database file.
        path: PathBuf,
        /// The copy that was to be made.
        backup: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another program has the database open while it has to be migrated.
    #[error("the database {} has to be migrated, but another program is using it; close that program first", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The PostgreSQL URL asks for something this build or the rules don't allow.
    #[error("the database URL can't be used: {problem}")]
    Url {
        /// What is wrong and what would work.
        problem: String,
    },
    /// Somebody else holds the data folder.
    #[error("the data folder {} is in use by {}", dir.display(), holder_note(holder.as_ref()))]
    Locked {
        /// The data folder.
        dir: PathBuf,
        /// Who holds it, as far as its lock file says.
        holder: Option<Holder>,
    },
    /// A file of the data folder can't be used.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

fn backup_note(backup: Option<&PathBuf>) -> String {
    backup.map(|path| format!("; a backup is kept at {}", path.display())).unwrap_or_default()
}

fn holder_note(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { pid, url: Some(url), started_at }) => format!("the Taskyard at {url} (process {pid}, started {started_at})"),
        Some(Holder { pid, url: None, started_at }) => format!("another Taskyard (process {pid}, started {started_at})"),
        None => "another Taskyard process".into(),
    }
}

impl Error {
    pub(crate) fn database(doing: impl Into<String>, source: impl Into<Driver>) -> Self {
        Error::Database { doing: doing.into(), source: source.into() }
    }
}

impl From<Error> for Domain {
    fn from(error: Error) -> Domain {
        let text = error.to_string();
        match error {
            Error::Database { source, .. } => from_driver(&source, text),
            Error::Closed | Error::Locked { .. } => Domain::unavailable(text),
            Error::Url { .. } => Domain::invalid("database_url", text),
            Error::Newer { .. } | Error::Foreign { .. } | Error::InUse { .. } => Domain::precondition(text),
            Error::Stored { .. }
            | Error::Broken { .. }
            | Error::Migration { .. }
            | Error::Restore { .. }
            | Error::Backup { .. }
            | Error::File { .. } => Domain::internal(text),
        }
    }
}

fn from_driver(source: &Driver, text: String) -> Domain {
    match source {
        Driver::Sqlite(source) => from_sqlite(source, text),
        Driver::Postgres(source) => from_postgres(source, text),
    }
}

fn dangling() -> Domain {
    Domain::precondition(
        "something that it refers to doesn't exist in the workspace, or something else still refers to it; nothing was changed",
    )
}

fn from_sqlite(source: &rusqlite::Error, text: String) -> Domain {
    use rusqlite::ffi;
    let code = source.sqlite_error().map_or(ffi::SQLITE_ERROR, |error| error.extended_code);
    match (code, source) {
        (ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY, rusqlite::Error::SqliteFailure(_, message)) => {
            taken(message.as_deref().unwrap_or_default())
        }
        (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, _) => dangling(),
        _ => Domain::new(class_of_sqlite(code), text),
    }
}

fn from_postgres(source: &sqlx::Error, text: String) -> Domain {
    use sqlx::error::ErrorKind;
    match source {
        sqlx::Error::Database(refusal) => match refusal.kind() {
            ErrorKind::UniqueViolation => taken(refusal.constraint().unwrap_or(refusal.message())),
            ErrorKind::ForeignKeyViolation => dangling(),
            _ => Domain::new(class_of_state(refusal.code().as_deref().unwrap_or_default()), text),
        },
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Domain::unavailable(text),
        _ => Domain::internal(text),
    }
}

/// SQLite's result codes that aren't Taskyard's own fault; the lowest byte is what the others refine.
fn class_of_sqlite(code: i32) -> Class {
    use rusqlite::ffi;
    match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => Class::Unavailable,
        ffi::SQLITE_FULL => Class::ResourceExhausted,
        _ => Class::Internal,
    }
}

/// PostgreSQL's SQLSTATEs that aren't Taskyard's own fault.
fn class_of_state(state: &str) -> Class {
    if state.starts_with("53") {
        Class::ResourceExhausted
    } else if matches!(state, "40001" | "40P01" | "55P03") || state.starts_with("57P") || state.starts_with("08") {
        Class::Unavailable
    } else {
        Class::Internal
    }
}

/// The sentence for a broken uniqueness; `constraint` is PostgreSQL's name or SQLite's list of columns.
fn taken(constraint: &str) -> Domain {
    let known = [
        ("run_one_open", "run.task_id", "a run of this task is open already"),
        ("session_one_primary", "session.task_id", "the task has a primary session already"),
        ("workspace_slug", "workspace.slug", "a workspace with this slug exists already"),
        ("workspace_task_prefix", "workspace.task_prefix", "a workspace with this task prefix exists already"),
        ("repository_path", "repository.local_path", "this repository is in the workspace already"),
        ("task_slug", "task.slug", "an item of this kind with this slug exists already"),
        ("step_name", "step.name", "the workflow has a step of this name already"),
        ("agent_name", "agent.name", "an agent of this name exists already"),
        ("profile_name", "profile.name", "an agent profile of this name exists already"),
        (
            "idempotency_key",
            "idempotency.idem_key",
            "a call with the same idempotency key was made at the same moment; repeat it to get that call's result",
        ),
    ];
    known
        .iter()
        .find(|(name, columns, _)| constraint == *name || constraint.ends_with(columns))
        .map_or_else(|| Domain::conflict(format!("it exists already ({constraint})")), |(_, _, sentence)| Domain::conflict(*sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_classes() {
        for (code, class) in [(5, Class::Unavailable), (517, Class::Unavailable), (13, Class::ResourceExhausted), (1, Class::Internal)] {
            assert_eq!(class_of_sqlite(code), class, "{code}");
        }
        for (state, class) in [("40P01", Class::Unavailable), ("53100", Class::ResourceExhausted), ("42601", Class::Internal)] {
            assert_eq!(class_of_state(state), class, "{state}");
        }
    }

    #[test]
    fn both_spellings_of_a_constraint_give_one_sentence() {
        assert_eq!(taken("run_one_open"), taken("UNIQUE constraint failed: run.task_id"));
        assert_eq!(taken("agent_name"), taken("UNIQUE constraint failed: agent.workspace_id, agent.name"));
    }
}
