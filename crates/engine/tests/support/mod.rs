//! An engine over a temporary store with a fixed clock and counted ids. Nothing runs by itself until it is started.

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use taskyard_domain::agent::DriverKind;
use taskyard_domain::id::{RunId, SessionId, WorkspaceId};
use taskyard_domain::run::{Kind, Run, State};
use taskyard_domain::session::{self, Session};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::worktree::{self, Worktree};
use taskyard_domain::{Actor, Clock, Face, Ids};
use taskyard_engine::{Caller, Engine, Options, Paths};
use taskyard_git::Git;
use taskyard_store::{Database, Store};
use taskyard_testkit::postgres::TestDatabase;
use taskyard_testkit::repo::{Repo, environment};
use tempfile::TempDir;
use uuid::Uuid;

/// A clock that stands still until it is moved.
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// Ids that count up.
struct TestIds(AtomicU64);

impl Ids for TestIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }
}

/// An engine at rest with one workspace, `main` with prefix `TY`.
pub struct Yard {
    pub engine: Engine,
    pub clock: Arc<TestClock>,
    pub workspace: WorkspaceId,
    folder: TempDir,
    postgres: Option<TestDatabase>,
}

impl Drop for Yard {
    fn drop(&mut self) {
        let Some(database) = self.postgres.take() else { return };
        // On a thread of its own: the test's runtime may not be blocked. What fails goes with the server.
        let remove =
            move || tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| runtime.block_on(database.remove()));
        let _ = std::thread::spawn(remove).join();
    }
}

impl Yard {
    pub async fn new() -> Self {
        let yard = Self::empty().await;
        let workspace = Workspace {
            id: yard.workspace,
            slug: "main".into(),
            name: "Main".into(),
            task_prefix: "TY".into(),
            prompt: String::new(),
            default_profile_id: None,
            created_at: yard.clock.now(),
        };
        yard.write(move |tx| Box::pin(async move { tx.workspace_insert(&workspace).await })).await;
        yard
    }

    /// One without a workspace.
    pub async fn empty() -> Self {
        let folder = TempDir::with_prefix("taskyard-engine-").unwrap();
        for name in ["data", "home", "tmp", "bin", "backup"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("gitconfig"), "[init]\n\tdefaultBranch = main\n").unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(1_767_323_045_000_000)));
        let ids: Arc<dyn Ids> = Arc::new(TestIds(AtomicU64::new(1)));
        let data = folder.path().join("data");
        let postgres = if crate::ON_POSTGRES { TestDatabase::make().await.unwrap() } else { None };
        let database = match &postgres {
            Some(made) => Database::Postgres { url: made.url.clone() },
            None => Database::Sqlite { path: data.join("taskyard.db") },
        };
        let store = Store::open(taskyard_store::Options {
            database,
            backup_dir: folder.path().join("backup"),
            clock: clock.clone(),
            ids: ids.clone(),
            audited: true,
        })
        .await
        .unwrap();
        let environment = environment(folder.path());
        let engine = Engine::new(Options {
            store,
            git: Git::new(environment.clone()),
            environment: environment.with("PATH", folder.path().join("bin")),
            paths: Paths::new(data),
            clock: clock.clone(),
            ids: ids.clone(),
            node: "test:1".into(),
            patience: 0.05,
        });
        Self { engine, clock, workspace: WorkspaceId(ids.next()), folder, postgres }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The operator.
    pub fn me(&self) -> Caller {
        Caller::operator(Face::Mcp)
    }

    /// Rows written behind the commands' backs.
    pub async fn write<T, F>(&self, f: F) -> T
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut taskyard_store::Tx) -> taskyard_store::BoxFuture<'a, taskyard_domain::Result<T>> + Send + 'static,
    {
        let write = self.engine.store().write(move |tx| {
            tx.fixture();
            f(tx)
        });
        write.await.unwrap()
    }

    pub async fn task(&self, short_id: &str) -> Task {
        let short = taskyard_domain::name::ShortId::parse(short_id).unwrap();
        let found = self.engine.store().read(move |read| Box::pin(async move { read.task_by_short(&short).await })).await;
        found.unwrap().unwrap()
    }

    /// A list without a repository.
    pub async fn list(&self, name: &str) -> String {
        self.engine.create_list(&self.me(), input(json!({ "name": name }))).await.unwrap().list_id
    }

    /// A list over a fresh repository with one commit on `main`.
    pub async fn list_with_repo(&self, name: &str) -> (String, Repo) {
        let repo = Repo::new().await.unwrap();
        let path = repo.path();
        let list = self.engine.create_list(&self.me(), input(json!({ "name": name, "local_path": path }))).await.unwrap();
        (list.list_id, repo)
    }

    /// A repository that no workspace knows yet.
    pub async fn foreign_repo(&self) -> PathBuf {
        let path = self.path().join("foreign");
        let repo = Repo::new().await.unwrap();
        repo.git(&["clone", "-q", repo.path().to_str().unwrap(), path.to_str().unwrap()]).await.unwrap();
        path
    }

    /// A task of `list`; its short id.
    pub async fn add(&self, list: &str, title: &str) -> String {
        self.engine.add_task(&self.me(), input(json!({ "list_id": list, "title": title }))).await.unwrap().short_id
    }

    /// An agent with a profile of the same name.
    pub async fn agent(&self, name: &str, driver: DriverKind) -> String {
        let values = json!({ "name": name, "driver": driver, "command": ["true"], "workspace": self.workspace.to_string() });
        self.engine.agent_add(&self.me(), input(values)).await.unwrap().profile_id
    }

    /// Sets a status as if a run or a review had brought it about.
    pub async fn force(&self, short_id: &str, status: Status) {
        let mut task = self.task(short_id).await;
        let previous = std::mem::replace(&mut task.status, status);
        self.clock.advance(1);
        task.updated_at = self.clock.now();
        self.write(move |tx| {
            Box::pin(async move {
                tx.task_update(&task).await?;
                let data = json!({ "status": task.status, "previous_status": previous });
                let event = taskyard_domain::event::NewEvent::new(task.workspace_id, taskyard_domain::event::Kind::TaskStatusChanged);
                tx.event(event.task(task.id).data(data));
                Ok(())
            })
        })
        .await;
    }

    /// An open claim of a task, without effect on its status.
    pub async fn open_run(&self, short_id: &str) -> Run {
        let task = self.task(short_id).await;
        let run = claimed(&task, RunId::new(self.engine.store().ids()), self.clock.now());
        let stored = run.clone();
        self.write(move |tx| Box::pin(async move { tx.run_insert(&stored).await })).await;
        run
    }

    /// A caller with the token of a run of this task.
    pub fn run_of(&self, run: &Run) -> Caller {
        let actor = Actor::Run { workspace_id: run.workspace_id, run_id: run.id, session_id: None, task_id: run.task_id };
        Caller { actor, face: Face::Mcp, within: None }
    }

    /// A real worktree of a task on a branch of its own, with its row.
    pub async fn worktree(&self, short_id: &str, repo: &Repo) -> PathBuf {
        let task = self.task(short_id).await;
        let path = self.path().join("data").join(short_id);
        let branch = format!("taskyard/{}", short_id.to_lowercase());
        repo.git(&["worktree", "add", "-q", "-b", &branch, path.to_str().unwrap(), "main"]).await.unwrap();
        let base_commit = repo.git(&["rev-parse", "main"]).await.unwrap();
        let (list_id, clock, ids) = (task.list_id, self.clock.now(), self.engine.store().ids().next());
        let shown = path.to_str().unwrap().to_owned();
        self.write(move |tx| {
            Box::pin(async move {
                let list = tx.list_fetch(list_id).await?.unwrap();
                let worktree = Worktree {
                    id: taskyard_domain::id::WorktreeId(ids),
                    workspace_id: task.workspace_id,
                    task_id: task.id,
                    repository_id: list.config.repository_id.unwrap(),
                    path: shown,
                    branch,
                    base_branch: Some("main".into()),
                    base_commit,
                    state: worktree::State::Active,
                    is_ready: true,
                    has_folder: true,
                    tip: None,
                    kept_ref: None,
                    copied_files: Vec::new(),
                    created_at: clock,
                    updated_at: clock,
                };
                tx.worktree_insert(&worktree).await
            })
        })
        .await;
        path
    }

    /// A session of a task with an agent, as its history.
    pub async fn session(&self, short_id: &str, profile: &str) -> SessionId {
        let task = self.task(short_id).await;
        let (id, now) = (SessionId::new(self.engine.store().ids()), self.clock.now());
        let profile = profile.parse().unwrap();
        self.write(move |tx| {
            Box::pin(async move {
                let profile = tx.profile_fetch(profile).await?.unwrap();
                let session = Session {
                    id,
                    workspace_id: task.workspace_id,
                    task_id: task.id,
                    agent_id: profile.agent_id,
                    profile_id: profile.id,
                    worktree_id: None,
                    is_primary: true,
                    state: session::State::Completed,
                    agent_session_id: None,
                    created_at: now,
                    updated_at: now,
                };
                tx.session_insert(&session).await
            })
        })
        .await;
        id
    }
}

/// An open claim of `task`.
pub fn claimed(task: &Task, id: RunId, now: Timestamp) -> Run {
    Run { actor: Some("tester".into()), ..Run::opened(id, task, Kind::Claimed, State::Running, String::new(), now) }
}

/// An input from what a face passes on.
pub fn input<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Bytes of an answer as compact JSON.
pub fn size(answer: &impl serde::Serialize) -> usize {
    serde_json::to_vec(answer).unwrap().len()
}

/// A day from `now`, written as callers write times.
pub fn tomorrow(now: Timestamp) -> String {
    (now + SignedDuration::from_hours(24)).to_string()
}
