//! A server with a project, a list and a scripted agent: what most tests begin with.

use super::server::PROGRAM;
use super::{Server, Setup, eventually, processes_of};
use serde_json::{Value, json};
use std::path::PathBuf;
use taskyard_testkit::repo::Repo;
use taskyard_testkit::scripted::scenario::{Step, prompt_with};

/// A task by its UUID.
pub type Task = String;

/// The stage of a test.
pub struct Yard {
    /// The server.
    pub server: Server,
    /// The repository whose tasks are done.
    pub repo: Repo,
    /// Its list.
    pub list: String,
}

impl Yard {
    /// A server, a repository with a list, the scripted agent `ada` as the default profile.
    pub async fn new() -> Self {
        Self::with(Setup::new()).await
    }

    /// The same with a server of one's own making.
    pub async fn with(setup: Setup) -> Self {
        let (server, repo) = (setup.start().await, Repo::new().await.unwrap());
        let mut yard = Self { server, repo, list: String::new() };
        yard.agent("ada", json!({})).await;
        let made = yard.server.call("create_list", json!({ "name": "Work", "local_path": yard.repo.path() })).await;
        yard.list = made["list_id"].as_str().unwrap().into();
        yard
    }

    /// Adds (or changes) a scripted agent; `more` are further arguments of `agent_add`, such as `permission_policy`.
    pub async fn agent(&self, name: &str, more: Value) {
        let mut arguments = json!({
            "name": name, "driver": "acp", "command": [PROGRAM, "scripted-agent"],
            "env": { "TASKYARD_SCRIPTED_STATE": self.server.folder().join("scripted") },
        });
        merge(&mut arguments, more);
        self.server.call("agent_add", arguments).await;
    }

    /// Adds a task whose agent does `steps`, without queueing it.
    pub async fn task(&self, title: &str, steps: Value) -> Task {
        self.add(title, steps, json!({})).await
    }

    /// Adds and queues a task whose agent does `steps`.
    pub async fn queue(&self, title: &str, steps: Value) -> Task {
        self.add(title, steps, json!({ "queue": true })).await
    }

    /// Adds a task; `more` are further arguments of `add_task`.
    pub async fn add(&self, title: &str, steps: Value, more: Value) -> Task {
        let mut arguments = json!({ "list_id": self.list, "title": title, "description": prompt(title, steps) });
        merge(&mut arguments, more);
        let added = self.server.call("add_task", arguments).await;
        added["task_id"].as_str().unwrap().into()
    }

    /// The task as `get_task` tells it.
    pub async fn get(&self, task: &str) -> Value {
        self.server.call("get_task", json!({ "task_id": task })).await
    }

    /// Its status.
    pub async fn status(&self, task: &str) -> String {
        self.get(task).await["status"].as_str().unwrap().into()
    }

    /// Waits until the task has `status`; gives the task. Fails at once when it has ended otherwise.
    pub async fn wait_status(&self, task: &str, status: &str) -> Value {
        eventually(&format!("{task} to be {status}"), async || {
            let shown = self.get(task).await;
            let now = shown["status"].as_str().unwrap();
            let over = ["failed", "waiting_for_review", "done", "cancelled"].contains(&now);
            assert!(now == status || !over, "the task is {now}, not {status}: {shown:#}\n{}", self.log(task).await);
            (now == status).then_some(shown)
        })
        .await
    }

    /// Waits until the task waits for review.
    pub async fn reviewable(&self, task: &str) -> Value {
        self.wait_status(task, "waiting_for_review").await
    }

    /// Its latest run, as `get_task` shows it.
    pub async fn run(&self, task: &str) -> Value {
        self.get(task).await["latest_run"].clone()
    }

    /// The outcomes of its runs, newest first; an open run has none and is left out.
    pub async fn outcomes(&self, task: &str) -> Vec<String> {
        let runs = self.server.call("list_runs", json!({ "task_id": task })).await;
        runs["runs"].as_array().unwrap().iter().filter_map(|run| run["outcome"].as_str().map(str::to_owned)).collect()
    }

    /// Its session's UUID.
    pub async fn session(&self, task: &str) -> String {
        self.get(task).await["session_id"].as_str().unwrap_or_default().into()
    }

    /// The latest run's log.
    pub async fn log(&self, task: &str) -> String {
        let log = self.server.call("get_task_log", json!({ "task_id": task, "tail_bytes": 262_144 })).await;
        log["log"].as_str().unwrap_or_default().into()
    }

    /// The folder of the task's worktree.
    pub async fn worktree(&self, task: &str) -> PathBuf {
        self.get(task).await["worktree"]["path"].as_str().unwrap_or_default().into()
    }

    /// The absolute path of a gate: a file by which test and agent wait for each other (`wait_file`, `signal`).
    pub fn gate(&self, name: &str) -> PathBuf {
        self.server.folder().join("gates").join(name)
    }

    /// Opens a gate that an agent waits for.
    pub fn open(&self, name: &str) {
        std::fs::write(self.gate(name), "").unwrap();
    }

    /// Waits until an agent has opened the gate.
    pub async fn reached(&self, name: &str) {
        eventually(&format!("the agent to reach {name}"), async || self.gate(name).exists().then_some(())).await;
    }

    /// The two process ids that the step `grandchildren` left in the gate `name`.
    pub async fn grandchildren(&self, name: &str) -> Vec<i32> {
        let text = eventually("the grandchildren's ids", async || std::fs::read_to_string(self.gate(name)).ok()).await;
        text.lines().map(|line| line.trim().parse().unwrap()).collect()
    }

    /// Gives the agent `name` a scenario for the turns (from 0) whose prompt has no steps in it.
    pub async fn later_turns(&self, name: &str, turns: Value) {
        let scenario = json!({ "turns": turns }).to_string();
        self.agent(name, json!({ "env": { "TASKYARD_SCENARIO": scenario } })).await;
    }

    /// The newest audit entries, as text to look for words in.
    pub async fn audit(&self) -> String {
        let workspace = self.server.call("list_workspaces", json!({})).await["workspaces"][0]["id"].clone();
        self.server.call("get_audit_log", json!({ "workspace": workspace, "limit": 100 })).await.to_string()
    }

    /// What the audit says was done to a task and what belongs to it, oldest first.
    pub async fn audited(&self, task: &str) -> Vec<String> {
        let workspace = self.server.call("list_workspaces", json!({})).await["workspaces"][0]["id"].clone();
        let asked = json!({ "workspace": workspace, "target_id": task, "limit": 200 });
        let found = self.server.call("get_audit_log", asked).await["entries"].as_array().unwrap().clone();
        found.iter().rev().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    }

    /// The open permission requests.
    pub async fn questions(&self) -> Vec<Value> {
        self.server.call("list_pending_questions", json!({})).await["questions"].as_array().unwrap().clone()
    }

    /// `git worktree list` of the project, without the project's own checkout.
    pub async fn worktrees(&self) -> Vec<String> {
        let list = self.repo.git(&["worktree", "list", "--porcelain"]).await.unwrap();
        list.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect()
    }

    /// The project's branches without `main`.
    pub async fn branches(&self) -> Vec<String> {
        let list = self.repo.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]).await.unwrap();
        list.lines().filter(|name| *name != "main").map(str::to_owned).collect()
    }

    /// Panics when a process of any session of the task lives.
    pub async fn nothing_lives(&self, task: &str) {
        let session = self.session(task).await;
        let left = processes_of(&session);
        assert!(left.is_empty(), "processes of {session} are left: {left:?}");
    }
}

/// A prompt with the steps in it; with `null` the words alone, for an agent with a scenario of its own.
pub fn prompt(words: &str, steps: Value) -> String {
    if steps.is_null() {
        return words.into();
    }
    let steps: Vec<Step> = serde_json::from_value(steps).unwrap();
    prompt_with(words, &steps)
}

/// Steps that write a file and commit it.
pub fn work(path: &str, content: &str) -> Value {
    json!([{ "write": { "path": path, "content": content } }, { "commit": format!("Write {path}") }])
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        *into = more;
        return;
    };
    for (name, value) in more {
        merge(&mut into[name], value);
    }
}
