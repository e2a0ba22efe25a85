//! A repository, a store and an engine at rest; tasks that wait for review with work in their worktrees.

use crate::session::Site;
use crate::{Caller, Engine, Options, Paths, SystemClock, SystemIds};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use taskyard_domain::id::{ListId, RepositoryId, RunId, SessionId, TaskId, WorktreeId};
use taskyard_domain::merge::MergeRecord;
use taskyard_domain::repository::Repository;
use taskyard_domain::session::Session;
use taskyard_domain::task::{Status, Task};
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Actor, Face, Result};
use taskyard_git::Git;
use taskyard_git::worktree::{Wanted, create, plan};
use taskyard_store::{Database, Options as StoreOptions, Store};
use taskyard_testkit::repo::Repo;
use tempfile::TempDir;

/// Everything a merge needs.
pub(crate) struct Yard {
    pub repo: Repo,
    pub engine: Engine,
    data: TempDir,
    list: ListId,
    repository: RepositoryId,
}

async fn open(data: &Path) -> Store {
    let database = Database::Sqlite { path: data.join("taskyard.db") };
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    Store::open(StoreOptions { database, backup_dir: data.join("backup"), clock, ids, audited: true }).await.unwrap()
}

/// A task with its worktree.
pub(crate) struct Work {
    pub task: TaskId,
    pub short: String,
    pub worktree: WorktreeId,
    pub path: PathBuf,
    pub branch: String,
}

impl Yard {
    /// `main` is checked out with `README.md`, `a.txt` and `k.txt`.
    pub async fn new() -> Self {
        let repo = Repo::new().await.unwrap();
        for name in ["a.txt", "k.txt"] {
            repo.write(name, &format!("{name}\n")).unwrap();
        }
        repo.commit("Files").await.unwrap();
        let path = repo.path();
        Self::of(repo, &path).await
    }

    /// A yard whose project folder is `folder`.
    pub async fn of(repo: Repo, folder: &Path) -> Self {
        let data = TempDir::with_prefix("taskyard-data-").unwrap();
        let store = open(data.path()).await;
        let engine = engine(&repo, store, data.path());
        engine.ensure_first_workspace().await.unwrap();
        let operator = Caller::operator(Face::Cli);
        let list = engine.create_list(&operator, input(json!({ "name": "List", "local_path": folder }))).await.unwrap();
        let (list, repository) = (list.list_id.parse().unwrap(), list.repository_id.unwrap().parse().unwrap());
        Self { repo, engine, data, list, repository }
    }

    /// Another engine on the same store and folders: what a restarted server is.
    pub fn restarted(&self) -> Engine {
        engine(&self.repo, self.engine.store().clone(), self.data.path())
    }

    /// The same after the database was closed and opened again.
    pub async fn reopened(&self) -> Engine {
        engine(&self.repo, open(self.data.path()).await, self.data.path())
    }

    pub fn data(&self) -> PathBuf {
        self.data.path().canonicalize().unwrap()
    }

    /// A ready task without a worktree.
    pub async fn bare_task(&self, title: &str) -> TaskId {
        let task = input(json!({ "list_id": self.list.to_string(), "title": title }));
        self.engine.add_task(&operator(), task).await.unwrap().task_id.parse().unwrap()
    }

    /// Where the task's next run would stand, with its folder.
    pub async fn stand(&self, task: TaskId) -> Result<Worktree> {
        let row = self.row(task).await;
        let read = self.engine.store().read(move |read| {
            Box::pin(async move {
                let levels = crate::resolve::Levels::of(read, row).await?;
                let repository = levels.repository(read).await?;
                Ok((levels, repository))
            })
        });
        let (levels, repository) = read.await?;
        let project = taskyard_git::Repo::open(self.engine.git(), &self.repo.path()).await.unwrap();
        let site = Site { levels: &levels, repository: &repository, project: &project, root: self.data().join("worktrees") };
        let crate::session::Stood { worktree, tree, .. } = self.engine.stand(&site).await?;
        assert_eq!(tree.root(), Path::new(&worktree.path));
        Ok(worktree)
    }

    /// A task that waits for review, its worktree made from `main`.
    pub async fn task(&self, title: &str) -> Work {
        self.task_from(title, Some("main")).await
    }

    /// The same from another base; without one from the commit that is checked out.
    pub async fn task_from(&self, title: &str, base: Option<&str>) -> Work {
        let task = self.bare_task(title).await;
        let git = taskyard_git::Repo::open(self.engine.git(), &self.repo.path()).await.unwrap();
        let commit = git.find_commit(base.unwrap_or("HEAD")).await.unwrap().unwrap();
        let row = self.row(task).await;
        let wanted = Wanted { root: &self.data().join("worktrees"), prefix: "taskyard", name: &row.branch_leaf() };
        let made = create(&git, &plan(&git, &wanted).await.unwrap(), &commit).await.unwrap();
        let now = self.engine.now();
        let worktree = Worktree {
            id: WorktreeId::new(self.engine.ids()),
            workspace_id: row.workspace_id,
            task_id: task,
            repository_id: self.repository,
            path: made.path.to_str().unwrap().into(),
            branch: made.branch.clone(),
            base_branch: base.map(str::to_owned),
            base_commit: commit.into(),
            state: State::Active,
            is_ready: true,
            has_folder: true,
            tip: None,
            kept_ref: None,
            copied_files: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        let (id, path) = (worktree.id, made.path);
        self.engine
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.fixture();
                    tx.worktree_insert(&worktree).await
                })
            })
            .await
            .unwrap();
        self.set(task, |task| task.status = Status::WaitingForReview).await;
        Work { task, short: row.short_id.to_string(), worktree: id, path, branch: made.branch }
    }

    /// Changes a task's row as no command would.
    pub async fn set(&self, task: TaskId, change: impl FnOnce(&mut Task) + Send + 'static) {
        let write = self.engine.store().write(move |tx| {
            Box::pin(async move {
                tx.fixture();
                let mut task = tx.task_lock(task).await?.unwrap();
                change(&mut task);
                tx.task_update(&task).await
            })
        });
        write.await.unwrap();
    }

    /// Changes the repository's row.
    pub async fn set_repository(&self, change: impl FnOnce(&mut Repository) + Send + 'static) {
        let id = self.repository;
        let write = self.engine.store().write(move |tx| {
            Box::pin(async move {
                tx.fixture();
                let mut repository = tx.repository_fetch(id).await?.unwrap();
                change(&mut repository);
                tx.repository_update(&repository).await
            })
        });
        write.await.unwrap();
    }

    pub async fn row(&self, task: TaskId) -> Task {
        self.engine.store().read(move |read| Box::pin(async move { read.task_fetch(task).await })).await.unwrap().unwrap()
    }

    /// What the audit says was done to `target` and, of a task, to what belongs to it; oldest first.
    pub async fn audited(&self, target: impl ToString) -> Vec<String> {
        let workspace = self.engine.list_workspaces(&operator(), input(json!({}))).await.unwrap().workspaces[0].slug.clone();
        let asked = json!({ "workspace": workspace, "target_id": target.to_string(), "limit": 200 });
        let found = self.engine.get_audit_log(&operator(), input(asked)).await.unwrap().entries;
        found.into_iter().rev().map(|entry| entry.action).collect()
    }

    pub async fn status(&self, task: TaskId) -> Status {
        self.row(task).await.status
    }

    pub async fn worktree(&self, id: WorktreeId) -> Worktree {
        self.engine.store().read(move |read| Box::pin(async move { read.worktree_fetch(id).await })).await.unwrap().unwrap()
    }

    pub async fn records(&self, task: TaskId) -> Vec<MergeRecord> {
        self.engine.store().read(move |read| Box::pin(async move { read.merge_list(task).await })).await.unwrap()
    }

    /// The agent writes a file in the task's worktree.
    pub fn write(&self, work: &Work, name: &str, content: &str) {
        std::fs::write(work.path.join(name), content).unwrap();
    }

    /// The agent writes a file and commits.
    pub async fn work(&self, work: &Work, name: &str, content: &str) -> String {
        self.write(work, name, content);
        self.commit_at(&work.path, &format!("{}: {name}", work.short)).await
    }

    /// A person commits a file on `main`.
    pub async fn others(&self, name: &str, content: &str) -> String {
        self.repo.write(name, content).unwrap();
        self.repo.commit(&format!("main: {name}")).await.unwrap()
    }

    pub async fn commit_at(&self, folder: &Path, message: &str) -> String {
        self.repo.git_in(folder, &["add", "-A"]).await.unwrap();
        self.repo.git_in(folder, &["commit", "-q", "--allow-empty", "-m", message]).await.unwrap();
        self.repo.git_in(folder, &["rev-parse", "HEAD"]).await.unwrap()
    }

    pub async fn git(&self, args: &[&str]) -> String {
        self.repo.git(args).await.unwrap()
    }

    /// A file of a commit; `None` when it isn't in it.
    pub async fn show(&self, commit: &str, name: &str) -> Option<String> {
        self.repo.git(&["show", &format!("{commit}:{name}")]).await.ok()
    }

    /// Everything of the user's that must not change behind their back.
    pub async fn snap(&self) -> Vec<String> {
        let root = self.repo.path();
        let mut seen = vec![
            self.git(&["for-each-ref"]).await,
            self.git(&["--no-optional-locks", "status", "--porcelain=v2", "--branch"]).await,
            self.git(&["config", "--list", "--local"]).await,
            self.git(&["worktree", "list", "--porcelain"]).await,
            self.git(&["stash", "list"]).await,
        ];
        for name in ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"] {
            seen.push(format!("{name} {}", root.join(".git").join(name).exists()));
        }
        let mut names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
        names.sort();
        seen.extend(names.iter().map(|p| format!("{} {:?}", p.display(), std::fs::read_to_string(p).unwrap())));
        seen
    }

    /// Runs the effects that are due until there are none.
    pub async fn effects(&self) {
        for lane in crate::effect::Lane::ALL {
            self.engine.run_due_effects(lane).await.unwrap();
        }
    }

    pub async fn approve(&self, work: &Work) -> Result<crate::commands::output::ReviewTaskOutput> {
        self.engine.review_task(&operator(), input(json!({ "task_id": work.short, "decision": "approve" }))).await
    }

    pub async fn merge(&self, work: &Work, more: Value) -> Result<crate::commands::output::MergeTaskOutput> {
        self.engine.merge_task(&operator(), about(work, more)).await
    }

    pub async fn revert(&self, work: &Work) -> Result<crate::commands::output::RevertMergeOutput> {
        self.engine.revert_merge(&operator(), about(work, json!({}))).await
    }

    /// A session of the task's, as its last run left it; what marks its processes.
    pub async fn session(&self, work: &Work) -> String {
        let agent = json!({ "name": "agent", "driver": "exec", "command": ["true"] });
        let agent = self.engine.agent_add(&operator(), input(agent)).await.unwrap();
        let now = self.engine.now();
        let session = Session {
            id: SessionId::new(self.engine.ids()),
            workspace_id: self.row(work.task).await.workspace_id,
            task_id: work.task,
            agent_id: agent.agent_id.parse().unwrap(),
            profile_id: agent.profile_id.parse().unwrap(),
            worktree_id: Some(work.worktree),
            is_primary: true,
            state: taskyard_domain::session::State::Completed,
            agent_session_id: None,
            created_at: now,
            updated_at: now,
        };
        let marker = crate::session::marker(session.id);
        self.engine
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.fixture();
                    tx.session_insert(&session).await
                })
            })
            .await
            .unwrap();
        marker
    }

    /// The caller that an agent of this task's run would be.
    pub async fn agent(&self, work: &Work) -> Caller {
        let workspace_id = self.row(work.task).await.workspace_id;
        let run_id = RunId::new(self.engine.ids());
        Caller { actor: Actor::Run { workspace_id, run_id, session_id: None, task_id: work.task }, face: Face::Mcp, within: None }
    }
}

fn engine(repo: &Repo, store: Store, data: &Path) -> Engine {
    Engine::new(Options {
        store,
        git: Git::new(repo.env().clone()),
        environment: repo.env().clone(),
        paths: Paths::new(data.canonicalize().unwrap()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        node: "test:1".into(),
        patience: 0.01,
    })
}

pub(crate) fn operator() -> Caller {
    Caller::operator(Face::Cli)
}

/// The same where a future borrows it.
pub(crate) fn operator_ref() -> &'static Caller {
    static OPERATOR: std::sync::OnceLock<Caller> = std::sync::OnceLock::new();
    OPERATOR.get_or_init(operator)
}

/// A command's input from what a caller would send.
pub(crate) fn input<T: DeserializeOwned>(value: impl Serialize) -> T {
    serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap()
}

/// The input of a command about a task, with more arguments.
pub(crate) fn about<T: DeserializeOwned>(work: &Work, more: Value) -> T {
    let mut all = json!({ "task_id": work.short });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input(all)
}
