//! The database as it is, read beside the server or after it: never written.

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use std::path::Path;
use std::time::Duration;

/// A reader of a round's database.
pub struct Base(SqliteConnection);

impl Base {
    /// Opens the database in the data folder.
    ///
    /// # Errors
    /// The database's.
    pub async fn open(data: &Path) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::new().filename(data.join("taskyard.db")).read_only(true).busy_timeout(Duration::from_secs(10));
        SqliteConnection::connect_with(&options).await.map(Self)
    }

    async fn rows(&mut self, sql: &str) -> Vec<SqliteRow> {
        sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.0).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The rows of a query, every column as text; NULL is empty.
    pub async fn texts(&mut self, sql: &str) -> Vec<Vec<String>> {
        let text = |row: &SqliteRow| (0..row.len()).map(|n| row.try_get::<Option<String>, _>(n).unwrap().unwrap_or_default()).collect();
        self.rows(sql).await.iter().map(text).collect()
    }

    /// The first column of a query, as text.
    pub async fn column(&mut self, sql: &str) -> Vec<String> {
        self.texts(sql).await.into_iter().map(|mut row| row.swap_remove(0)).collect()
    }

    /// One number.
    pub async fn number(&mut self, sql: &str) -> i64 {
        self.rows(sql).await[0].try_get(0).unwrap()
    }
}
