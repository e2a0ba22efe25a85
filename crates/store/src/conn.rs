//! One connection inside one transaction, of either database. The only place that hands SQL to the driver.
//!
//! A failed statement breaks the whole transaction on both databases (PostgreSQL does that by itself, SQLite
//! would go on), so that code which works on one works on the other.

use crate::error::{Driver, Error};
use crate::ledger::Ledger;
use crate::sqlite;
use crate::value::{Row, Value};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

pub(crate) enum Link {
    /// A connection that writes or reads; its transactions and savepoints are its holder's business. Statements run
    /// where they are awaited, on a thread that may wait for the disk.
    Sqlite(rusqlite::Connection),
    /// A transaction on PostgreSQL, for reading or writing.
    Postgres(Transaction<'static, Postgres>),
}

pub(crate) struct Conn {
    pub(crate) link: Link,
    /// The first failure of the transaction.
    broken: Option<String>,
    /// What the transaction changed.
    pub(crate) ledger: Ledger,
}

impl Conn {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, broken: None, ledger: Ledger::default() }
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

    /// Starts counting failures and changes anew: the next transaction on the same connection.
    pub(crate) fn mend(&mut self) {
        self.broken = None;
        self.ledger = Ledger::default();
    }

    /// Runs a statement; the number of rows it touched.
    pub(crate) async fn exec(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, Error> {
        self.sound()?;
        self.ledger.note(sql, &values);
        let done = match &mut self.link {
            Link::Sqlite(conn) => sqlite::run(conn, sql, &values).map_err(Driver::from),
            Link::Postgres(tx) => {
                let done = postgres(sqlx::query(AssertSqlSafe(sql)), values).execute(&mut **tx).await;
                done.map(|done| done.rows_affected()).map_err(Driver::from)
            }
        };
        done.map_err(|source| self.fail(sql, source))
    }

    /// Runs a query; all its rows.
    pub(crate) async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.sound()?;
        let rows = match &mut self.link {
            Link::Sqlite(conn) => {
                sqlite::rows(conn, sql, &values).map(|rows| rows.into_iter().map(Row::Sqlite).collect()).map_err(Driver::from)
            }
            Link::Postgres(tx) => {
                let rows = postgres(sqlx::query(AssertSqlSafe(sql)), values).fetch_all(&mut **tx).await;
                rows.map(|rows| rows.into_iter().map(Row::Postgres).collect()).map_err(Driver::from)
            }
        };
        rows.map_err(|source| self.fail(sql, source))
    }

    fn fail(&mut self, sql: &str, source: Driver) -> Error {
        let words: Vec<&str> = sql.split_whitespace().take(3).collect();
        let error = Error::database(format!("the database refused {:?}", words.join(" ")), source);
        self.broken = Some(error.to_string());
        error
    }
}

fn postgres(query: Query<'_, Postgres, PgArguments>, values: Vec<Value>) -> Query<'_, Postgres, PgArguments> {
    values.into_iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Real(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
    })
}
