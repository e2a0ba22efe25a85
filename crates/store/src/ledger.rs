//! What a transaction changed and what it put on record: a change without an audit entry is a bug, and refused.
//!
//! Owns the list of tables whose changes need an entry. Looks in builds with debug assertions only, where every test
//! runs through it; a release stores what it was asked to store. What the database changes by itself (rows that go with
//! others) isn't seen.

use crate::value::Value;
use std::collections::BTreeSet;
use taskyard_domain::{Error, Result};

/// Tables that users see changes of. The others are logs, queues of work, or caches.
const AUDITED: [&str; 13] = [
    "agent",
    "attachment",
    "backlog_file",
    "document",
    "list",
    "message",
    "plan_document",
    "profile",
    "repository",
    "session",
    "settings",
    "step",
    "workspace",
];
/// Tables whose rows, by the id they begin with, need an entry that names that one.
const NAMED: [&str; 5] = ["merge_record", "question", "run", "snapshot", "worktree"];
/// Tables whose rows begin with the id of a task that an entry must be about.
const OF_TASKS: [&str; 2] = ["task", "task_blocker"];

/// What one transaction did.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tables: BTreeSet<String>,
    rows: BTreeSet<(String, String)>,
    tasks: BTreeSet<String>,
    /// What the entries say, each as one text.
    entries: Vec<String>,
    bookkeeping: bool,
    everything: bool,
}

impl Ledger {
    /// Takes a statement in.
    pub(crate) fn note(&mut self, sql: &str, values: &[Value]) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut words = sql.split_ascii_whitespace();
        let table = match (words.next(), words.next()) {
            (Some("INSERT"), Some("INTO")) | (Some("DELETE"), Some("FROM")) => words.next(),
            (Some("UPDATE"), table) => table,
            _ => None,
        };
        let id = || values.first().and_then(text).cloned().unwrap_or_default();
        match table {
            Some("audit") => self.entries.push(values.iter().filter_map(text).cloned().collect::<Vec<_>>().join("\n")),
            Some(table) if OF_TASKS.contains(&table) => {
                self.tasks.insert(id());
            }
            Some(table) if NAMED.contains(&table) => {
                self.rows.insert((table.to_owned(), id()));
            }
            Some(table) if AUDITED.contains(&table) => {
                self.tables.insert(table.to_owned());
            }
            _ => {}
        }
    }

    /// What changes is how a run or merge gets on, which isn't anybody's doing.
    pub(crate) fn allow_bookkeeping(&mut self) {
        self.bookkeeping = true;
    }

    /// What changes is nobody's business.
    pub(crate) fn allow_everything(&mut self) {
        self.everything = true;
    }

    /// Whether everything that changed is on record.
    ///
    /// # Errors
    /// `INTERNAL`, naming what isn't.
    pub(crate) fn check(&self) -> Result<()> {
        if self.everything {
            return Ok(());
        }
        let is_named = |id: &str| self.entries.iter().any(|entry| entry.contains(id));
        if let Some(task) = self.tasks.iter().find(|task| !is_named(task)) {
            return Err(Error::internal(format!("the task {task} was changed without an audit entry about it")));
        }
        if self.bookkeeping {
            return Ok(());
        }
        if let Some((table, id)) = self.rows.iter().find(|(_, id)| !is_named(id)) {
            return Err(Error::internal(format!("the {table} {id} was changed without an audit entry that names it")));
        }
        if self.tables.is_empty() || !self.entries.is_empty() {
            return Ok(());
        }
        let tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        Err(Error::internal(format!("changed without an audit entry: {}", tables.join(", "))))
    }
}

fn text(value: &Value) -> Option<&String> {
    match value {
        Value::Text(text) => text.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::text as value;

    #[test]
    fn what_changes_needs_an_entry() {
        let mut ledger = Ledger::default();
        ledger.note("SELECT 1 FROM run", &[]);
        ledger.note("INSERT INTO event (workspace_id) VALUES ($1)", &[value("w")]);
        assert!(ledger.check().is_ok(), "a log isn't");
        ledger.note("UPDATE list SET name = $2 WHERE id = $1", &[value("l")]);
        assert!(ledger.check().unwrap_err().message.contains("list"));
        ledger.note("INSERT INTO audit (workspace_id, target_id) VALUES ($1, $2)", &[value("w"), value("x")]);
        assert!(ledger.check().is_ok());
        ledger.note("UPDATE run SET state = $2 WHERE id = $1", &[value("r1")]);
        assert!(ledger.check().unwrap_err().message.contains("run r1"), "an entry about something else isn't enough");
        ledger.note("INSERT INTO audit (workspace_id, metadata) VALUES ($1, $2)", &[value("w"), value("{\"run_id\":\"r1\"}")]);
        assert!(ledger.check().is_ok());
    }

    #[test]
    fn a_task_is_never_bookkeeping() {
        let mut ledger = Ledger::default();
        ledger.note("UPDATE run SET slot = $2 WHERE id = $1", &[value("r1")]);
        ledger.allow_bookkeeping();
        assert!(ledger.check().is_ok());
        ledger.note("UPDATE task SET title = $2 WHERE id = $1", &[value("t1")]);
        assert!(ledger.check().unwrap_err().message.contains("the task t1"));
        ledger.note("INSERT INTO audit (workspace_id, target_id) VALUES ($1, $2)", &[value("w"), value("t1")]);
        assert!(ledger.check().is_ok());
    }
}
