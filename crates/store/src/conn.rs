//! One connection inside one transaction, of either database. The only place that hands SQL to the driver.
//!
//! A failed statement breaks the whole transaction on both databases (PostgreSQL does that by itself, SQLite
//! would go on), so that code which works on one works on the other.

use crate::error::Error;
use crate::value::{Row, Value};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Database, Pool, Postgres, Sqlite, SqliteConnection, Transaction};

pub(crate) enum Link {
    /// The one writer's connection; its savepoints are the writer's business.
    Writer(Box<SqliteConnection>),
    /// A reader's snapshot.
    Reader(Transaction<'static, Sqlite>),
    /// A transaction on PostgreSQL, for reading or writing.
    Postgres(Transaction<'static, Postgres>),
}

pub(crate) struct Conn {
    pub(crate) link: Link,
    /// The first failure of the transaction.
    broken: Option<String>,
}

impl Conn {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, broken: None }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.link, Link::Postgres(_))
    }

    /// The first failed statement, as an error that keeps the transaction from being committed.
    pub(crate) fn sound(&self) -> Result<(), Error> {
        match &self.broken {
            Some(first) => Err(Error::Broken { first: first.clone() }),
            None => Ok(()),
        }
    }

    /// Starts counting failures anew: the next transaction on the same connection.
    pub(crate) fn mend(&mut self) {
        self.broken = None;
    }

    /// Runs a statement; the number of rows it touched.
    pub(crate) async fn exec(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, Error> {
        self.sound()?;
        let text = AssertSqlSafe(sql);
        let done = match &mut self.link {
            Link::Writer(conn) => sqlite(sqlx::query(text), values).execute(&mut **conn).await.map(|done| done.rows_affected()),
            Link::Reader(tx) => sqlite(sqlx::query(text), values).execute(&mut **tx).await.map(|done| done.rows_affected()),
            Link::Postgres(tx) => postgres(sqlx::query(text), values).execute(&mut **tx).await.map(|done| done.rows_affected()),
        };
        done.map_err(|source| self.fail(sql, source))
    }

    /// Runs a query; all its rows.
    pub(crate) async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.sound()?;
        let text = AssertSqlSafe(sql);
        let rows = match &mut self.link {
            Link::Writer(conn) => sqlite(sqlx::query(text), values).fetch_all(&mut **conn).await.map(sqlite_rows),
            Link::Reader(tx) => sqlite(sqlx::query(text), values).fetch_all(&mut **tx).await.map(sqlite_rows),
            Link::Postgres(tx) => {
                postgres(sqlx::query(text), values).fetch_all(&mut **tx).await.map(|rows| rows.into_iter().map(Row::Postgres).collect())
            }
        };
        rows.map_err(|source| self.fail(sql, source))
    }

    fn fail(&mut self, sql: &str, source: sqlx::Error) -> Error {
        let words: Vec<&str> = sql.split_whitespace().take(3).collect();
        let error = Error::database(format!("the database refused {:?}", words.join(" ")), source);
        self.broken = Some(error.to_string());
        error
    }
}

/// Begins a transaction in a task of its own: a caller that goes away in the middle of `BEGIN` would otherwise
/// leave a connection in the pool that is inside a transaction nobody knows of (sqlx counts it only afterwards).
/// Here an unwanted transaction is finished like any other that is dropped.
pub(crate) async fn begin<D>(pool: &Pool<D>, sql: &'static str) -> Result<Transaction<'static, D>, Error>
where
    D: Database,
{
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(sql).await }).await;
    match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
        Err(sqlx::Error::PoolClosed) => Err(Error::Closed),
        other => other.map_err(|e| Error::database("beginning a transaction", e)),
    }
}

fn sqlite_rows(rows: Vec<sqlx::sqlite::SqliteRow>) -> Vec<Row> {
    rows.into_iter().map(Row::Sqlite).collect()
}

fn sqlite(query: Query<'_, Sqlite, SqliteArguments>, values: Vec<Value>) -> Query<'_, Sqlite, SqliteArguments> {
    values.into_iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Real(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
    })
}

fn postgres(query: Query<'_, Postgres, PgArguments>, values: Vec<Value>) -> Query<'_, Postgres, PgArguments> {
    values.into_iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Real(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
    })
}
