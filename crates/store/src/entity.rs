//! How an entity becomes a row and comes back: one column list per entity, used by every statement.
//!
//! [`entity!`] names the columns once; insert, update, fetch and select are made from them.

mod agent;
mod backlog;
mod claim;
mod list;
mod merge;
mod message;
mod question;
mod queue;
mod repository;
mod run;
mod session;
mod step;
mod task;
mod workspace;
mod worktree;

pub use backlog::BacklogFile;
pub use claim::{BacklogFilter, Claimable};
pub use queue::QueuedTask;
pub use run::RunCursor;
pub use task::{TaskCursor, TaskFilter};
pub use worktree::WorktreeFilter;

use crate::error::Error;
use crate::tx::{Read, Tx};
use crate::value::{Field, Row, Value};
use std::fmt::Write as _;
use taskyard_domain::{Error as Domain, Result};

/// An entity with its table.
pub(crate) trait Entity: Sized + Send + Sync {
    /// The table.
    const TABLE: &'static str;
    /// What it is called in errors.
    const WHAT: &'static str;
    /// The columns that are read and written; the first one is `id`.
    const COLUMNS: &'static [&'static str];
    /// Columns that are only written: what searches look at.
    const DERIVED: &'static [&'static str];
    /// The values of both, in order.
    fn values(&self) -> Result<Vec<Value>, Error>;
    /// The entity of a row whose columns start with [`Entity::COLUMNS`].
    fn read(row: &Row) -> Result<Self, Error>;
}

/// Declares an [`Entity`]: `field`, `field as json`, `field as json_opt`, `field = "column"`.
macro_rules! entity {
    ($type:ty, $table:literal, $what:literal, { $($field:ident $(= $column:literal)? $(as $codec:ident)?),* $(,)? }
     $(, derived { $($extra:literal => $make:expr),* })?) => {
        impl $crate::entity::Entity for $type {
            const TABLE: &'static str = $table;
            const WHAT: &'static str = $what;
            const COLUMNS: &'static [&'static str] = &[$($crate::entity::entity!(@column $field $($column)?)),*];
            const DERIVED: &'static [&'static str] = &[$($($extra),*)?];
            fn values(&self) -> Result<Vec<$crate::value::Value>, $crate::error::Error> {
                Ok(vec![
                    $($crate::entity::entity!(@value self.$field $(, $codec)?),)*
                    $($($crate::value::Field::value(&$make(self)),)*)?
                ])
            }
            fn read(row: &$crate::value::Row) -> Result<Self, $crate::error::Error> {
                let mut columns = 0..;
                let mut next = || columns.next().unwrap_or_default();
                Ok(Self { $($field: $crate::entity::entity!(@read row, next(), $what, stringify!($field) $(, $codec)?)),* })
            }
        }
    };
    (@column $field:ident) => { stringify!($field) };
    (@column $field:ident $column:literal) => { $column };
    (@value $value:expr) => { $crate::value::Field::value(&$value) };
    (@value $value:expr, json) => { $crate::value::json(&$value)? };
    (@value $value:expr, json_opt) => { $crate::value::json_opt(&$value)? };
    (@read $row:ident, $index:expr, $what:literal, $name:expr) => { $row.get($index, $what, $name)? };
    (@read $row:ident, $index:expr, $what:literal, $name:expr, json) => { $row.get_json($index, $what, $name)? };
    (@read $row:ident, $index:expr, $what:literal, $name:expr, json_opt) => { $row.get_json_opt($index, $what, $name)? };
}
pub(crate) use entity;

/// `SELECT` of all columns of `E`, qualified, up to and without `FROM`.
pub(crate) fn columns_of<E: Entity>() -> String {
    let mut sql = String::from("SELECT ");
    for (index, column) in E::COLUMNS.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(sql, "{comma}{}.{column}", E::TABLE);
    }
    sql
}

impl Read {
    /// The entities of `SELECT … FROM table <tail>`.
    pub(crate) async fn select<E: Entity>(&mut self, tail: &str, values: Vec<Value>) -> Result<Vec<E>> {
        let sql = format!("{} FROM {} {tail}", columns_of::<E>(), E::TABLE);
        let rows = self.conn.fetch(&sql, values).await?;
        rows.iter().map(|row| E::read(row).map_err(Domain::from)).collect()
    }

    /// The first of [`Read::select`].
    pub(crate) async fn select_one<E: Entity>(&mut self, tail: &str, values: Vec<Value>) -> Result<Option<E>> {
        Ok(self.select(tail, values).await?.into_iter().next())
    }

    /// The entity with this id.
    pub(crate) async fn by_id<E: Entity>(&mut self, id: impl Field) -> Result<Option<E>> {
        self.select_one("WHERE id = $1", vec![id.value()]).await
    }

    /// One number: the first column of the first row.
    pub(crate) async fn number(&mut self, sql: &str, values: Vec<Value>) -> Result<Option<i64>> {
        let rows = self.conn.fetch(sql, values).await?;
        match rows.first() {
            Some(row) => Ok(row.get::<Option<i64>>(0, "result", "number")?),
            None => Ok(None),
        }
    }

    /// The first column of every row.
    pub(crate) async fn column<T: Field>(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        let rows = self.conn.fetch(sql, values).await?;
        rows.iter().map(|row| row.get(0, "result", "value").map_err(Domain::from)).collect()
    }
}

impl Tx {
    /// Stores a new entity.
    pub(crate) async fn insert<E: Entity>(&mut self, entity: &E) -> Result<()> {
        let columns: Vec<&str> = E::COLUMNS.iter().chain(E::DERIVED).copied().collect();
        self.insert_rows(E::TABLE, &columns, vec![entity.values()?]).await
    }

    /// Stores rows in as few statements as is sensible: fixed batch sizes keep the prepared statements few.
    pub(crate) async fn insert_rows(&mut self, table: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Result<()> {
        let mut rest = rows.into_iter();
        while rest.len() > 0 {
            let size = [32, 8, 1].into_iter().find(|size| *size <= rest.len()).unwrap_or(1);
            let sql = insert_sql(table, columns, size);
            let values = rest.by_ref().take(size).flatten().collect();
            self.conn.exec(&sql, values).await?;
        }
        Ok(())
    }

    /// Writes the whole row of an entity.
    pub(crate) async fn update<E: Entity>(&mut self, entity: &E) -> Result<()> {
        let mut sql = format!("UPDATE {} SET ", E::TABLE);
        for (index, column) in E::COLUMNS.iter().chain(E::DERIVED).enumerate().skip(1) {
            let comma = if index == 1 { "" } else { ", " };
            let _ = write!(sql, "{comma}{column} = ${}", index + 1);
        }
        sql.push_str(" WHERE id = $1");
        let values = entity.values()?;
        let id = if let Some(Value::Text(Some(id))) = values.first() { id.clone() } else { String::new() };
        match self.conn.exec(&sql, values).await? {
            0 => Err(Domain::not_found(E::WHAT, id)),
            _ => Ok(()),
        }
    }

    /// Deletes by id.
    pub(crate) async fn delete<E: Entity>(&mut self, id: impl Field + std::fmt::Display) -> Result<()> {
        let sql = format!("DELETE FROM {} WHERE id = $1", E::TABLE);
        match self.conn.exec(&sql, vec![id.value()]).await? {
            0 => Err(Domain::not_found(E::WHAT, id)),
            _ => Ok(()),
        }
    }

    /// The entity with this id, its row locked until the end of the transaction.
    ///
    /// `NO KEY` lets other transactions insert rows that refer to it meanwhile. SQLite has one writer, and
    /// needs no row locks.
    pub(crate) async fn lock<E: Entity>(&mut self, id: impl Field) -> Result<Option<E>> {
        let tail = if self.conn.is_postgres() { "WHERE id = $1 FOR NO KEY UPDATE" } else { "WHERE id = $1" };
        self.select_one(tail, vec![id.value()]).await
    }
}

fn insert_sql(table: &str, columns: &[&str], rows: usize) -> String {
    let mut sql = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns.len() {
            let comma = if column == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}${}", row * columns.len() + column + 1);
        }
        sql.push(')');
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_run_through_all_rows() {
        assert_eq!(insert_sql("t", &["a", "b"], 2), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)");
    }
}
