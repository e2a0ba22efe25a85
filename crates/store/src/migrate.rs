//! The migrations: numbered SQL texts, one for both databases, applied once each and in order.
//!
//! What is released is never edited; a change of the schema is a new file. How a database is kept safe while
//! it is migrated is the backends' business.

use crate::error::Error;

/// A step of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Its number: 1, 2, 3 …
    pub version: i64,
    /// What it is about, in a word.
    pub name: &'static str,
    /// Its statements. `{{AUTO_ID}}` stands for a column type that numbers rows and never re-uses a number.
    pub sql: &'static str,
}

/// Every migration, oldest first.
pub(crate) const ALL: &[Migration] = &[
    Migration { version: 1, name: "first", sql: include_str!("../migrations/0001_first.sql") },
    Migration { version: 2, name: "backlog", sql: include_str!("../migrations/0002_backlog.sql") },
    Migration { version: 3, name: "backlog folders", sql: include_str!("../migrations/0003_backlog_folders.sql") },
    Migration { version: 4, name: "audit of tasks", sql: include_str!("../migrations/0004_audit_of_tasks.sql") },
];

/// The version that this program's databases have.
pub const SCHEMA_VERSION: i64 = 4;

/// The table that records what was applied.
pub(crate) const VERSION_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)";
/// The version of a database that has the table.
pub(crate) const VERSION_FETCH: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_version";
/// Records a migration.
pub(crate) const VERSION_INSERT: &str = "INSERT INTO schema_version (version, name, applied_at) VALUES ($1, $2, $3)";

/// Where the two databases' texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Migration {
    /// The statements for one database.
    pub(crate) fn text(&self, dialect: Dialect) -> String {
        let auto_id = match dialect {
            Dialect::Sqlite => "INTEGER PRIMARY KEY AUTOINCREMENT",
            Dialect::Postgres => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        };
        self.sql.replace("{{AUTO_ID}}", auto_id)
    }
}

/// What has to be applied to the database at `place` that has version `found`.
///
/// # Errors
/// [`Error::Newer`] when the database is ahead of `migrations`.
pub(crate) fn pending<'a>(place: &str, found: i64, migrations: &'a [Migration]) -> Result<Vec<&'a Migration>, Error> {
    let known = migrations.iter().map(|migration| migration.version).max().unwrap_or(0);
    if found > known {
        return Err(Error::Newer { place: place.into(), found, known });
    }
    Ok(migrations.iter().filter(|migration| migration.version > found).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_run_from_one_without_gaps() {
        let versions: Vec<i64> = ALL.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=SCHEMA_VERSION).collect::<Vec<i64>>());
    }

    #[test]
    fn a_newer_database_is_refused_in_a_sentence() {
        let text = pending("data.db", 99, ALL).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("data.db has schema version 99") && text.contains("newer Taskyard"), "{text}");
    }
}
