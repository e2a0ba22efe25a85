//! What is promised of an SQLite file: migrations that never put it at risk, files that aren't ours left
//! alone, and commits in groups.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use support::make::World;
use support::{Harness, soon};
use taskyard_domain::Class;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_store::{Database, Error, Migration, SCHEMA_VERSION, Store};

/// The version after this program's.
const NEXT: i64 = SCHEMA_VERSION + 1;
/// A next version whose migration works.
const GOOD: Migration =
    Migration { version: NEXT, name: "more", sql: "CREATE TABLE more (id TEXT); ALTER TABLE task ADD COLUMN extra TEXT;" };
/// A version after that whose migration fails after it has changed things.
const BAD: Migration = Migration {
    version: NEXT + 1,
    name: "broken",
    sql: "DELETE FROM event; UPDATE task SET title = 'gone'; DROP TABLE outbox; CREATE TABLE task (id TEXT);",
};

fn path_of(harness: &Harness) -> PathBuf {
    match &harness.database {
        Database::Sqlite { path } => path.clone(),
        Database::Postgres { .. } => panic!("not a file"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A closed database with a world and an event in it.
async fn filled() -> (Harness, World) {
    let harness = Harness::sqlite().await;
    let world = World::stored(&harness, "home", "TY").await;
    let id = world.workspace.id;
    let stored = write_tx!(harness.store, |tx| {
        tx.event(NewEvent::new(id, Kind::TaskCreated));
        Ok(())
    });
    stored.unwrap();
    harness.store.close().await;
    (harness, world)
}

async fn open_with(harness: &Harness, further: &[Migration]) -> Result<Store, Error> {
    Store::open_with(harness.sources.options(harness.database.clone(), harness.dir.path()), further).await
}

/// Everything is still there.
async fn is_whole(store: &Store, world: &World) {
    let (task, run, id) = (world.task.id, world.run.id, world.workspace.id);
    let found = read_tx!(store, |read| Ok((read.task_fetch(task).await?, read.run_fetch(run).await?, read.event_head(id).await?)));
    assert_eq!(found.unwrap(), (Some(world.task.clone()), Some(world.run.clone()), 1));
}

#[tokio::test]
async fn a_failing_migration_leaves_the_file_as_it_was() {
    let (harness, world) = filled().await;
    let path = path_of(&harness);
    let before = fs::read(&path).unwrap();
    let error = open_with(&harness, &[GOOD, BAD]).await.unwrap_err();
    let text = error.to_string();
    let Error::Migration { version, backup: Some(backup), .. } = error else { panic!("{text}") };
    assert_eq!(version, NEXT + 1);
    assert!(text.contains("broken") && text.contains("task already exists"), "{text}");
    assert!(text.contains(&*path.to_string_lossy()) && text.contains(&*backup.to_string_lossy()), "{text}");
    assert!(fs::read(&path).unwrap() == before, "the database isn't what it was");
    assert!(fs::read(&backup).unwrap() == before, "the backup isn't what the database was");
    assert_eq!(names(harness.dir.path()), ["backups", "taskyard.db"]);
    // The older binary opens it, and everything is there.
    let store = harness.open_again().await;
    is_whole(&store, &world).await;
    store.close().await;
}

/// Even what a migration committed by itself before it failed is undone: the copy is put back.
#[tokio::test]
async fn a_migration_that_broke_out_of_its_transaction_is_undone() {
    let (harness, world) = filled().await;
    let path = path_of(&harness);
    let before = fs::read(&path).unwrap();
    let sql = "DELETE FROM event; DROP TABLE outbox; COMMIT; CREATE TABLE task (id TEXT);";
    let error = open_with(&harness, &[Migration { version: NEXT, name: "escaped", sql }]).await.unwrap_err();
    assert!(matches!(error, Error::Migration { version: NEXT, .. }), "{error}");
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(names(harness.dir.path()), ["backups", "taskyard.db"]);
    let store = harness.open_again().await;
    is_whole(&store, &world).await;
    store.close().await;
}

/// The database was changed by hand, so that the migration's column is there already.
#[tokio::test]
async fn an_extra_column_makes_the_migration_fail_and_nothing_else() {
    let (harness, world) = filled().await;
    let path = path_of(&harness);
    change(&path, "ALTER TABLE task ADD COLUMN extra TEXT").await;
    let before = fs::read(&path).unwrap();
    let text = open_with(&harness, &[GOOD]).await.unwrap_err().to_string();
    assert!(text.contains("duplicate column name: extra") && text.contains("backups"), "{text}");
    assert!(fs::read(&path).unwrap() == before);
    let store = harness.open_again().await;
    is_whole(&store, &world).await;
    store.close().await;
}

#[tokio::test]
async fn a_migration_that_works_keeps_data_and_backup_and_shuts_older_binaries_out() {
    let (harness, world) = filled().await;
    let path = path_of(&harness);
    let before = fs::read(&path).unwrap();
    let store = open_with(&harness, &[GOOD]).await.unwrap();
    is_whole(&store, &world).await;
    store.close().await;
    let backups = harness.dir.path().join("backups");
    assert_eq!(names(&backups).len(), 1);
    assert!(fs::read(backups.join(&names(&backups)[0])).unwrap() == before);
    // Opening again migrates nothing and copies nothing.
    open_with(&harness, &[GOOD]).await.unwrap().close().await;
    assert_eq!(names(&backups).len(), 1);
    // The older binary says so and changes nothing.
    let migrated = fs::read(&path).unwrap();
    let error = Store::open(harness.sources.options(harness.database.clone(), harness.dir.path())).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Newer { found: NEXT, known: SCHEMA_VERSION, .. }), "{text}");
    assert!(text.contains(&*path.to_string_lossy()) && text.contains("start the newer Taskyard"), "{text}");
    assert_eq!(taskyard_domain::Error::from(error).class, Class::FailedPrecondition);
    assert!(fs::read(&path).unwrap() == migrated);
}

/// After a crash part of the data is in the write-ahead log only; the backup has it too.
#[tokio::test]
async fn what_is_in_the_log_after_a_crash_is_backed_up_too() {
    let harness = Harness::sqlite().await;
    let world = World::stored(&harness, "home", "TY").await;
    let id = world.workspace.id;
    write_tx!(harness.store, |tx| {
        tx.event(NewEvent::new(id, Kind::TaskCreated));
        Ok(())
    })
    .unwrap();
    let path = path_of(&harness);
    let crashed = tempfile::tempdir().unwrap();
    let copy = crashed.path().join("taskyard.db");
    for tail in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{tail}", path.display()));
        fs::copy(name(&path), name(&copy)).unwrap();
    }
    assert!(fs::metadata(crashed.path().join("taskyard.db-wal")).unwrap().len() > 0, "nothing to prove");
    let options = || harness.sources.options(Database::Sqlite { path: copy.clone() }, crashed.path());
    let error = Store::open_with(options(), &[GOOD, BAD]).await.unwrap_err();
    let Error::Migration { backup: Some(backup), .. } = error else { panic!("{error}") };
    let restored = Store::open(options()).await.unwrap();
    is_whole(&restored, &world).await;
    restored.close().await;
    let from_backup = harness.sources.options(Database::Sqlite { path: backup }, crashed.path());
    let store = Store::open(from_backup).await.unwrap();
    is_whole(&store, &world).await;
    store.close().await;
    harness.finish().await;
}

#[tokio::test]
async fn without_a_backup_nothing_is_migrated() {
    let (harness, world) = filled().await;
    let before = fs::read(path_of(&harness)).unwrap();
    fs::write(harness.dir.path().join("backups"), "in the way").unwrap();
    let error = open_with(&harness, &[GOOD]).await.unwrap_err();
    assert!(matches!(error, Error::Backup { .. }), "{error}");
    assert!(error.to_string().contains("backups"), "{error}");
    assert!(fs::read(path_of(&harness)).unwrap() == before);
    let store = harness.open_again().await;
    is_whole(&store, &world).await;
    store.close().await;
}

/// What the releases before wrote.
const RELEASED: [&str; 3] = [
    include_str!("../migrations/0001_first.sql"),
    include_str!("../migrations/0002_backlog.sql"),
    include_str!("../migrations/0003_backlog_folders.sql"),
];

const RUN: &str = "01890000-0000-7000-8000-000000000002";

#[tokio::test]
async fn a_database_of_every_earlier_version_is_migrated_with_its_rows() {
    for version in 1..=RELEASED.len() {
        let harness = Harness::sqlite().await;
        let path = harness.dir.path().join("old.db");
        let mut sql = RELEASED[..version].concat().replace("{{AUTO_ID}}", "INTEGER PRIMARY KEY AUTOINCREMENT");
        sql += "CREATE TABLE schema_version (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);";
        for applied in 1..=version {
            sql += &format!("INSERT INTO schema_version VALUES ({applied}, 'x', 0);");
        }
        let id = "01890000-0000-7000-8000-000000000001";
        sql += &format!("INSERT INTO workspace VALUES ('{id}', 'home', 'Home', 'TY', 'the prompt', NULL, 0);");
        sql += &format!("INSERT INTO list VALUES ('{id}', '{id}', 'L', '', '', 0, '{{}}', 0);");
        sql += &format!(
            "INSERT INTO task (id, workspace_id, list_id, short_id, title, description, kind, priority, status, sort_order, manual, my_day, \
             config, interruptions, created_by, created_at, updated_at, search) \
             VALUES ('{id}', '{id}', '{id}', 'TY-1', 'T', '', 'task', 'medium', 'ready', 0, 0, 0, '{{}}', 0, 'operator', 0, 0, '');"
        );
        sql += &format!(
            "INSERT INTO run (id, workspace_id, task_id, kind, state, prompt, wants_slot, cancel_requested, last_activity_at, stalled, usage, \
             prior_status, started_at) VALUES ('{RUN}', '{id}', '{id}', 'claimed', 'ended', '', 0, 0, 0, 0, '{{}}', 'ready', 0);"
        );
        for (kind, target) in [("agent_run", RUN), ("task", id)] {
            sql += &format!(
                "INSERT INTO audit (workspace_id, at, actor, face, action, target_type, target_id, metadata) \
                 VALUES ('{id}', 0, '{{\"kind\":\"operator\"}}', 'cli', 'task.claimed', '{kind}', '{target}', 'null');"
            );
        }
        if version >= 2 {
            let fields = r#"{"title":"T","plan_slug":null,"epic_slug":null,"status":"ready","priority":null,"body":""}"#;
            let agreed = format!(r#"{{"fields":{fields},"known":["title"]}}"#);
            let folder = if version >= 3 { "'', " } else { "" };
            sql += &format!(
                "INSERT INTO backlog_file VALUES ('{id}', '{id}', NULL, {folder}'task', 't', 'Task-t.md', 'text', '{agreed}', 0);"
            );
        }
        std::fs::File::create(&path).unwrap();
        change(&path, Box::leak(sql.into_boxed_str())).await;
        let store = Store::open(harness.sources.options(Database::Sqlite { path }, harness.dir.path())).await.unwrap();
        let workspace = id.parse().unwrap();
        let found = read_tx!(store, |read| {
            let known = read.backlog_file(workspace, "/a", taskyard_domain::task::Kind::Task, "t").await?;
            Ok((read.workspace_list().await?, known, read.audit_page(workspace, Some(id), None, None, 9).await?))
        });
        let (workspaces, known, audit) = found.unwrap();
        let about: Vec<(&str, bool)> = audit.iter().map(|e| (e.body.target_type.as_str(), e.body.task_id.is_some())).collect();
        assert_eq!(about, [("task", false), ("agent_run", true)], "version {version}: an old entry knows its task");
        assert_eq!(workspaces.iter().map(|w| w.prompt.as_str()).collect::<Vec<_>>(), ["the prompt"], "version {version}");
        assert_eq!(known.map(|file| (file.folder, file.path)), (version >= 2).then(|| (String::new(), "Task-t.md".into())));
        assert!(names(&harness.dir.path().join("backups")).iter().any(|name| name.contains("old")), "version {version}: a copy is kept");
        store.close().await;
    }
    assert_eq!(i64::try_from(RELEASED.len()).unwrap() + 1, SCHEMA_VERSION, "the last one's predecessor is missing here");
}

#[tokio::test]
async fn a_migration_that_leaves_dangling_references_fails() {
    let (harness, world) = filled().await;
    let dangling = Migration { version: NEXT, name: "dangling", sql: "DELETE FROM list" };
    let text = open_with(&harness, &[dangling]).await.unwrap_err().to_string();
    assert!(text.contains("1 rows would refer to rows that don't exist"), "{text}");
    let store = harness.open_again().await;
    is_whole(&store, &world).await;
    store.close().await;
}

#[tokio::test]
async fn a_fresh_file_whose_making_failed_is_no_obstacle() {
    let harness = Harness::sqlite().await;
    let path = harness.dir.path().join("fresh.db");
    let options = || harness.sources.options(Database::Sqlite { path: path.clone() }, harness.dir.path());
    let error = Store::open_with(options(), &[GOOD, BAD]).await.unwrap_err();
    assert!(matches!(error, Error::Migration { backup: None, .. }), "{error}");
    Store::open(options()).await.unwrap().close().await;
    harness.finish().await;
}

#[tokio::test]
async fn other_peoples_files_are_left_alone() {
    let harness = Harness::sqlite().await;
    let theirs = harness.dir.path().join("theirs.db");
    fs::write(&theirs, "").unwrap();
    change(&theirs, "CREATE TABLE theirs (x)").await;
    let text = harness.dir.path().join("letter.txt");
    fs::write(&text, "Dear Sir or Madam, this has never been a database, and it never will be one. ".repeat(20)).unwrap();
    for path in [theirs, text] {
        let before = fs::read(&path).unwrap();
        let options = harness.sources.options(Database::Sqlite { path: path.clone() }, harness.dir.path());
        let error = Store::open(options).await.unwrap_err();
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        assert!(fs::read(&path).unwrap() == before, "{}", path.display());
    }
    harness.finish().await;
}

/// What waits is committed together: the second command of a group runs before the first one is committed, and
/// the first one's caller isn't answered before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_commands_share_a_commit() {
    let harness = Harness::sqlite().await;
    let world = World::stored(&harness, "home", "TY").await;
    let id = world.workspace.id;
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let (begun, started) = tokio::sync::oneshot::channel();
    let store = harness.store.clone();
    let first = tokio::spawn(async move {
        write_tx!(store, |tx| {
            let _ = begun.send(());
            let _ = gone.await;
            tx.event(NewEvent::new(id, Kind::TaskUpdated));
            Ok(())
        })
    });
    started.await.unwrap();
    let (outer, inner) = (harness.store.clone(), harness.store.clone());
    let mut second = Box::pin(async move {
        write_tx!(outer, |tx| {
            let seen_by_all = read_tx!(inner, |read| read.event_head(id).await)?;
            Ok((tx.event_head(id).await?, seen_by_all))
        })
    });
    // One poll puts it into the queue behind the first, which still runs.
    assert!(futures::poll!(&mut second).is_pending());
    go.send(()).unwrap();
    assert_eq!(soon(second).await.unwrap(), (1, 0));
    soon(first).await.unwrap().unwrap();
    assert_eq!(read_tx!(harness.store, |read| read.event_head(id).await).unwrap(), 1);
    harness.finish().await;
}

async fn change(path: &Path, sql: &'static str) {
    use sqlx::{ConnectOptions as _, Connection as _};
    let mut conn = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
