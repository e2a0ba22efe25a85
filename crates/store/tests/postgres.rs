//! What is promised of a PostgreSQL database beyond the conformance suite: migrations under a lock and in one
//! transaction, and a listener that gets over a broken connection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod support;

use futures::future::join_all;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use std::str::FromStr as _;
use support::make::World;
use support::{Harness, Sources, soon};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_store::{Database, Error, Migration, SCHEMA_VERSION, Store};
use taskyard_testkit::postgres::TestDatabase;

/// The version after this program's.
const NEXT: i64 = SCHEMA_VERSION + 1;
const GOOD: Migration =
    Migration { version: NEXT, name: "more", sql: "CREATE TABLE more (id TEXT); ALTER TABLE task ADD COLUMN extra TEXT;" };
const BAD: Migration =
    Migration { version: NEXT + 1, name: "broken", sql: "DELETE FROM event; DROP TABLE outbox; CREATE TABLE task (id TEXT);" };

async fn sql(database: &Database, text: &'static str) -> i64 {
    let Database::Postgres { url } = database else { panic!("not a server") };
    let mut conn = sqlx::postgres::PgConnectOptions::from_str(url).unwrap().connect().await.unwrap();
    let count = sqlx::query(text).fetch_one(&mut conn).await.unwrap().get(0);
    conn.close().await.unwrap();
    count
}

/// Nodes that start at the same time on an empty database migrate it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_migrate_once() {
    let Some(made) = TestDatabase::make().await.unwrap() else { return };
    let (dir, sources) = (tempfile::tempdir().unwrap(), Sources::new());
    let database = Database::Postgres { url: made.url.clone() };
    let opened = join_all((0..4).map(|_| Store::open(sources.options(database.clone(), dir.path())))).await;
    for store in opened {
        store.unwrap().close().await;
    }
    assert_eq!(sql(&database, "SELECT COUNT(*) FROM schema_version").await, SCHEMA_VERSION);
    made.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_migration_changes_nothing_and_a_newer_database_is_refused() {
    let Some(harness) = Harness::postgres().await else { return };
    let world = World::stored(&harness, "home", "TY").await;
    let id = world.workspace.id;
    write_tx!(harness.store, |tx| {
        tx.event(NewEvent::new(id, Kind::TaskCreated));
        Ok(())
    })
    .unwrap();
    let options = || harness.sources.options(harness.database.clone(), harness.dir.path());
    let error = Store::open_with(options(), &[GOOD, BAD]).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Migration { version, backup: None, .. } if version == NEXT + 1), "{text}");
    assert!(text.contains("already exists") && text.contains("as it was before"), "{text}");
    assert_eq!(sql(&harness.database, "SELECT MAX(version) FROM schema_version").await, SCHEMA_VERSION);
    let again = harness.open_again().await;
    assert_eq!(read_tx!(again, |read| read.event_head(id).await).unwrap(), 1);
    again.close().await;
    Store::open_with(options(), &[GOOD]).await.unwrap().close().await;
    let error = Store::open(options()).await.unwrap_err();
    assert!(matches!(error, Error::Newer { found: NEXT, known: SCHEMA_VERSION, .. }), "{error}");
    harness.finish().await;
}

/// When the connection that listens breaks, it is made again, and nothing committed meanwhile is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_listener_misses_nothing() {
    let Some(harness) = Harness::postgres().await else { return };
    let id = World::stored(&harness, "home", "TY").await.workspace.id;
    let other = harness.open_again().await;
    let mut subscription = harness.store.subscribe(id, 0);
    for n in 1..=3 {
        let ended = sql(
            &harness.database,
            "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        )
        .await;
        assert!(ended >= 1, "no listener was there to be ended");
        let appended = write_tx!(other, |tx| {
            tx.event(NewEvent::new(id, Kind::TaskUpdated));
            Ok(())
        });
        appended.unwrap();
        assert_eq!(soon(subscription.next()).await.unwrap().seq, n);
        // Both nodes listen again before the next round.
        soon(async {
            while sql(
                &harness.database,
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'",
            )
            .await
                < 2
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    other.close().await;
    harness.finish().await;
}
