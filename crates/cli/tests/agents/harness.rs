//! What tests with real agents stand on: where the agents are, a yard whose agent talks to a scripted model.

use crate::support::{Server, Setup, Task, Yard, eventually};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use taskyard_domain::agent::DriverKind;
use taskyard_process::{Command, run};
use taskyard_testkit::model::scenario::Scenario;
use taskyard_testkit::model::{Model, Playing};
use taskyard_testkit::repo::Repo;

/// The key that no vendor knows.
pub const KEY: &str = "sk-test-0000";

/// A program of an agent that `scripts/install-agents.sh` has installed.
pub fn program(agent: &str, program: &str) -> PathBuf {
    let folder = std::env::var_os("TASKYARD_TEST_AGENTS").expect("TASKYARD_TEST_AGENTS isn't set: run `make test-agents`");
    let path = PathBuf::from(folder).join(agent).join("node_modules/.bin").join(program);
    assert!(path.exists(), "{} isn't there: run `make test-agents`", path.display());
    path
}

/// What the program says to `--version`, in a home of its own.
pub async fn version(agent: &str, name: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let env = taskyard_testkit::repo::environment(home.path());
    for name in ["home", "tmp"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
    }
    let output = run(Command::new(program(agent, name), home.path(), env).args(["--version"])).await.unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// How an agent is configured for the model at an address, with more words for `taskyard agent add`.
pub type Configure = fn(&str, &[&str]) -> Agent;

/// How an agent is configured by a user: files in the home, words behind `taskyard agent add`.
pub struct Agent {
    /// The name it is added by.
    pub name: &'static str,
    /// Files of its home folder.
    pub files: Vec<(&'static str, String)>,
    /// What follows `taskyard agent add NAME`.
    pub words: Vec<String>,
}

impl Agent {
    /// The driver, the variables and the command among the words.
    pub fn parts(&self) -> (DriverKind, Vec<(String, String)>, Vec<String>) {
        let behind = |flag: &str| {
            let words = self.words.iter().zip(self.words.iter().skip(1));
            words.filter(|(word, _)| *word == flag).map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let driver = serde_json::from_value(behind("--driver").remove(0).into()).unwrap();
        let variables = behind("--env").iter().filter_map(|variable| variable.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect();
        let command = self.words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
        (driver, variables, command)
    }

    /// Writes the files of its home folder.
    pub fn settle(&self, home: &Path) {
        for (path, content) in &self.files {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
}

/// A yard whose only agent is a real one with a scripted model.
pub struct Stage {
    /// Server, repository and list.
    pub yard: Yard,
    /// What the model says.
    pub playing: Playing,
    _model: Model,
}

impl Stage {
    /// The stage for `scenario`.
    pub async fn new(configure: Configure, scenario: Scenario) -> Self {
        Self::with(configure, &[], scenario).await
    }

    /// The same with more words for `taskyard agent add`.
    pub async fn with(configure: Configure, words: &[&str], scenario: Scenario) -> Self {
        let model = Model::start().await.unwrap();
        let playing = model.play(scenario);
        let setup = Setup::new();
        let agent = configure(playing.url(), words);
        agent.settle(&setup.folder().join("home"));
        let (server, repo) = (setup.start().await, Repo::new().await.unwrap());
        let stage = Self { yard: Yard { server, repo, list: String::new() }, playing, _model: model };
        stage.with_list(&agent).await
    }

    async fn with_list(mut self, agent: &Agent) -> Self {
        let mut words = vec!["agent", "add", agent.name];
        words.extend(agent.words.iter().map(String::as_str));
        let told = self.yard.server.cli(&words).await;
        assert_eq!(told.code, 0, "{told:?}");
        let path = self.yard.repo.path();
        let made = self.yard.server.call("create_list", json!({ "name": "Work", "local_path": path })).await;
        self.yard.list = made["list_id"].as_str().unwrap().into();
        self
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.yard.server
    }

    /// Adds and queues a task.
    pub async fn queue(&self, title: &str) -> Task {
        let arguments = json!({ "list_id": self.yard.list, "title": title, "description": title, "queue": true });
        self.yard.server.call("add_task", arguments).await["task_id"].as_str().unwrap().into()
    }

    /// Waits until the task has `status`, telling the model's side when it gets another.
    pub async fn wait(&self, task: &str, status: &str) -> Value {
        eventually(&format!("{task} to be {status}; the model served {:#?}", self.playing.served()), async || {
            let shown = self.yard.get(task).await;
            let now = shown["status"].as_str().unwrap();
            let over = ["failed", "waiting_for_review", "done", "cancelled"].contains(&now);
            if over && now != status {
                let log = self.yard.log(task).await;
                panic!("the task is {now}, not {status}: {shown:#}\n{log}\n{:#?}\n{:?}", self.playing.served(), self.playing.problems());
            }
            (now == status).then_some(shown)
        })
        .await
    }

    /// Waits until the model has served something with this outcome.
    pub async fn served(&self, outcome: &str) {
        eventually(&format!("the model to serve {outcome}"), async || (self.playing.count(outcome) > 0).then_some(())).await;
    }

    /// Waits until this file is in the task's worktree; gives its text.
    pub async fn file(&self, task: &str, name: &str) -> String {
        eventually(&format!("{name} in the worktree"), async || {
            let worktree = self.yard.worktree(task).await;
            std::fs::read_to_string(worktree.join(name)).ok().filter(|text| !text.is_empty() && !worktree.as_os_str().is_empty())
        })
        .await
    }

    /// Subjects of the commits of the task's branch that `main` doesn't have, newest first.
    pub async fn commits(&self, task: &str) -> Vec<String> {
        let worktree = self.yard.worktree(task).await;
        let log = self.yard.repo.git_in(&worktree, &["log", "--format=%s", "main..HEAD"]).await.unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// Panics when the model had to do what the scenario doesn't say.
    pub fn no_problems(&self) {
        let problems = self.playing.problems();
        assert!(problems.is_empty(), "{problems:#?}\n{:#?}", self.playing.served());
    }

    /// The latest run's outcome and the reason that a person is told.
    pub async fn end(&self, task: &str) -> (String, String) {
        let run = self.yard.run(task).await;
        let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
        (text("outcome"), text("exit_reason"))
    }
}
