//! What a transaction changed and what it put on record: a change without an audit entry is a bug, and refused.
//!
//! Owns the list of tables whose changes need an entry. Looks in builds with debug assertions only, where every test
//! runs through it; a release stores what it was asked to store.

use crate::value::Value;
use std::collections::BTreeSet;
use taskyard_domain::{Error, Result};

/// Tables that users see changes of. The others are logs, queues of work, or caches.
const AUDITED: [&str; 17] = [
    "agent",
    "attachment",
    "backlog_file",
    "document",
    "list",
    "merge_record",
    "plan_document",
    "profile",
    "question",
    "repository",
    "run",
    "session",
    "settings",
    "snapshot",
    "step",
    "workspace",
    "worktree",
];
/// Tables whose rows begin with the id of a task that an entry must be about.
const OF_TASKS: [&str; 2] = ["task", "task_blocker"];

/// What one transaction did.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tables: BTreeSet<String>,
    tasks: BTreeSet<String>,
    entries: usize,
    entries_about: BTreeSet<String>,
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
        match table {
            Some("audit") => {
                self.entries += 1;
                self.entries_about.extend(values.iter().filter_map(text).cloned());
            }
            Some(table) if OF_TASKS.contains(&table) => self.tasks.extend(values.first().and_then(text).cloned()),
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
        if let Some(task) = self.tasks.iter().find(|task| !self.entries_about.contains(*task)) {
            return Err(Error::internal(format!("the task {task} was changed without an audit entry about it")));
        }
        if self.tables.is_empty() || self.entries > 0 || self.bookkeeping {
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
        ledger.note("UPDATE run SET state = $2 WHERE id = $1", &[value("r")]);
        assert!(ledger.check().unwrap_err().message.contains("run"));
        ledger.allow_bookkeeping();
        assert!(ledger.check().is_ok());
        ledger.note("UPDATE task SET title = $2 WHERE id = $1", &[value("t")]);
        assert!(ledger.check().unwrap_err().message.contains("the task t"), "a task is never bookkeeping");
        ledger.note("INSERT INTO audit (workspace_id, target_id) VALUES ($1, $2)", &[value("w"), value("u")]);
        assert!(ledger.check().is_err(), "an entry about another one isn't enough");
        ledger.note("INSERT INTO audit (workspace_id, target_id) VALUES ($1, $2)", &[value("w"), value("t")]);
        assert!(ledger.check().is_ok());
    }
}
