//! D10: a database that this binary can't use is refused in a sentence, and stays as it is.

use crate::support::{Server, Told, Yard};
use serde_json::json;
use sqlx::{Connection, SqliteConnection};

async fn run_sql(server: &Server, statement: &'static str) {
    let url = format!("sqlite://{}", server.data().join("taskyard.db").display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query(statement).execute(&mut conn).await.unwrap();
    // Nothing is left in the write-ahead log, so that the file is the whole truth.
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Starts the server, which has to end by itself without having touched the database.
async fn refused(server: &Server) -> Told {
    let database = server.data().join("taskyard.db");
    let before = std::fs::read(&database).unwrap();
    let told = server.cli(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert!(told.code > 0, "{told:?}");
    assert!(std::fs::read(&database).unwrap() == before, "the database was changed: {told:?}");
    assert!(!server.data().join("server.json").exists());
    told
}

#[tokio::test]
async fn a_newer_database_is_refused_and_stays_usable_for_the_newer_binary() {
    let mut yard = Yard::new().await;
    let task = yard.task("Keep me", json!([])).await;
    yard.server.stop().await;
    run_sql(&yard.server, "INSERT INTO schema_version (version, name, applied_at) VALUES (999, 'later', 0)").await;
    let told = refused(&yard.server).await;
    assert!(told.err.contains("schema version 999") && told.err.contains("newer Taskyard"), "{told:?}");
    assert_eq!(told.code, 7, "a precondition isn't met: {told:?}");
    run_sql(&yard.server, "DELETE FROM schema_version WHERE version = 999").await;
    yard.server.launch().await;
    assert_eq!(yard.get(&task).await["title"], "Keep me");
}

#[tokio::test]
async fn a_migration_that_fails_says_so_and_changes_nothing() {
    let mut yard = Yard::new().await;
    let task = yard.task("Keep me", json!([])).await;
    yard.server.stop().await;
    // Forgotten what was applied: the first migration meets its own tables.
    run_sql(&yard.server, "UPDATE schema_version SET version = version - 100").await;
    let told = refused(&yard.server).await;
    assert!(told.err.contains("taskyard.db") && told.err.contains("already exists"), "{told:?}");
    run_sql(&yard.server, "UPDATE schema_version SET version = version + 100").await;
    yard.server.launch().await;
    assert_eq!(yard.get(&task).await["title"], "Keep me");
}
