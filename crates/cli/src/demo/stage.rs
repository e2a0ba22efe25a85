//! The demo's stage: a throw-away repository, a data folder, a server of its own.

use super::script::AGENTS;
use crate::client::Client;
use crate::fail::{Result, machine};
use serde_json::json;
use std::path::{Path, PathBuf};
use taskyard_domain::Error;
use taskyard_git::Git;
use taskyard_process::{Command, Environment, run};

/// A built stage.
#[derive(Debug)]
pub struct Stage {
    pub repository: PathBuf,
    pub data: PathBuf,
    pub client: Client,
    program: PathBuf,
    env: Environment,
}

impl Stage {
    /// Makes the repository and starts the server.
    pub async fn build(dir: Option<&Path>) -> Result<Self> {
        let root = match dir {
            Some(dir) => std::path::absolute(dir).map_err(|e| machine("reading the folder's path", e))?,
            None => tempfile::Builder::new().prefix("taskyard-demo-").tempdir().map_err(|e| machine("making a folder", e))?.keep(),
        };
        let (repository, data) = (root.join("repository"), root.join("data"));
        if repository.exists() {
            return Err(Error::precondition(format!("{} is there already", repository.display())).with_hint("name a new folder with --dir"));
        }
        for folder in [&repository, &data] {
            std::fs::create_dir_all(folder).map_err(|e| machine(&format!("making {}", folder.display()), e))?;
        }
        let env = Environment::from_vars(std::env::vars_os()).without_agents();
        make_repository(&repository, &env).await?;
        let program = std::env::current_exe().map_err(|e| machine("finding this program", e))?;
        let client = start_server(&program, &data, &env).await?;
        Ok(Self { repository, data, client, program, env })
    }

    /// Adds the three agents and the list; gives the list's UUID.
    pub async fn set_up(&self) -> Result<String> {
        for name in AGENTS {
            let command = [self.program.to_string_lossy().into_owned(), "scripted-agent".into()];
            let state = self.data.join("scripted").join(name);
            let env = json!({ "TASKYARD_SCRIPTED_STATE": state });
            self.client.call("agent_add", json!({ "name": name, "driver": "acp", "command": command, "env": env })).await?;
        }
        let made = self.client.call("create_list", json!({ "name": "Demo", "local_path": self.repository })).await?;
        Ok(made["list_id"].as_str().unwrap_or_default().to_owned())
    }

    /// The repository's history as git tells it.
    pub async fn git_log(&self) -> Result<String> {
        let log = Git::new(self.env.clone()).call("show the demo's history", &self.repository);
        let log = log.args(["log", "--graph", "--oneline", "--no-decorate", "main"]).text().await;
        log.map_err(|e| machine("reading the log", e))
    }

    /// Ends the demo's server.
    pub async fn stop_server(&self) -> Result<()> {
        let script = "kill -TERM \"$(sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' server.json)\"";
        run(Command::new("sh", &self.data, self.env.clone()).arg("-c").arg(script)).await.map_err(|e| machine("stopping the server", e))?;
        Ok(())
    }

    /// What a reader can do next.
    pub fn how_to_go_on(&self) -> String {
        let (program, data, repository) = (self.program.display(), self.data.display(), self.repository.display());
        format!(
            "\nThe server goes on running. Look further:\n  \
             export TASKYARD_DATA_DIR={data}\n  \
             {program} task list\n  \
             {program} task log TY-4\n  \
             {program} task diff TY-5\n  \
             {program} worktree list\n  \
             git -C {repository} log --graph\n\
             Stop it:\n  \
             kill $(sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' {data}/server.json)"
        )
    }
}

async fn make_repository(path: &Path, env: &Environment) -> Result<()> {
    for (name, content) in [("README.md", "# Yard\n"), ("title.txt", "Untitled\n"), ("notes.txt", "c\na\nb\n")] {
        std::fs::write(path.join(name), content).map_err(|e| machine(&format!("writing {name}"), e))?;
    }
    let git = Git::new(env.clone());
    let steps: [&[&str]; 5] = [
        &["init", "-q", "-b", "main"],
        &["config", "user.name", "Demo"],
        &["config", "user.email", "demo@example.invalid"],
        &["add", "."],
        &["commit", "-qm", "A small project"],
    ];
    for step in steps {
        git.call("make the demo's repository", path).args(step).run().await.map_err(|e| machine("making the repository", e))?;
    }
    Ok(())
}

async fn start_server(program: &Path, data: &Path, env: &Environment) -> Result<Client> {
    let script = "setsid \"$0\" serve --data-dir \"$1\" --listen 127.0.0.1:0 >server.log 2>&1 </dev/null &";
    let command = Command::new("sh", data, env.clone()).arg("-c").arg(script).arg(program).arg(data);
    run(command).await.map_err(|e| machine("starting the server", e))?;
    let url = crate::discover::wait_for(data).await?;
    Client::at(url)
}
