//! Taskyard under measurement: the real program on a fresh data folder, with a list and the stub agent.

use crate::http::Http;
use crate::mcp::Mcp;
use crate::place::Place;
use crate::process::{Launch, Process, until};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A Taskyard server of its own.
pub struct Yard {
    folder: TempDir,
    launch: Launch,
    process: Option<Process>,
    /// `127.0.0.1:PORT`.
    pub host: String,
    /// The list that tasks are added to.
    pub list: String,
}

impl Yard {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// When it doesn't start.
    pub async fn new(place: &Place) -> Result<Self> {
        let folder = place.folder("yard")?;
        let data = folder.path().join("data");
        let mut env = crate::process::environment(folder.path())?;
        env.push(("TASKYARD_DATA_DIR".into(), data.into()));
        let host = format!("127.0.0.1:{}", free_port()?);
        let args = ["serve", "--listen", &host].map(Into::into).to_vec();
        let log = folder.path().join("server.log");
        let launch = Launch { program: place.program.clone(), args, env, cwd: folder.path().into(), log, piped: false };
        let mut yard = Self { folder, launch, process: None, host, list: String::new() };
        yard.start().await?;
        Ok(yard)
    }

    /// Starts the server (again) on the same data; how long it took until it was ready.
    ///
    /// # Errors
    /// When it doesn't start.
    pub async fn start(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut process = Process::start(&self.launch)?;
        let mut http = Http::new(&self.host);
        let ready = until("ready", PATIENCE, async || {
            process.alive()?;
            let reply = http.request("GET", "/healthz", "", b"").await;
            Ok(reply.is_ok_and(|reply| reply.status == 200).then_some(begun.elapsed()))
        });
        let took = ready.await.with_context(|| self.log())?;
        self.process = Some(process);
        Ok(took)
    }

    /// The end of the server's log.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
        text.lines()
            .filter(|line| !line.contains(" INFO"))
            .rev()
            .take(20)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The server's process.
    ///
    /// # Errors
    /// When it isn't running.
    pub fn pid(&self) -> Result<i32> {
        Ok(self.process.as_ref().context("the server isn't running")?.pid())
    }

    /// Stops the server in good order.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// Kills the server with SIGKILL.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn kill(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A new MCP connection.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn mcp(&self) -> Result<Mcp> {
        Mcp::connect(&format!("http://{}/mcp?mode=core", self.host)).await
    }

    /// Runs an operation as the operator, outside of what is measured.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn operate(&self, operation: &str, arguments: Value) -> Result<Value> {
        let body = arguments.to_string();
        let reply = Http::new(&self.host).request("POST", &format!("/api/internal/call/{operation}"), "", body.as_bytes()).await?;
        let answer: Value = serde_json::from_slice(&reply.body)?;
        answer.get("result").cloned().with_context(|| format!("{operation}: {answer}"))
    }

    /// Makes the list, in the repository at `repo` where there is one.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn make_list(&mut self, repo: Option<&std::path::Path>) -> Result<()> {
        let mut arguments = json!({ "name": "Bench" });
        if let Some(repo) = repo {
            arguments["local_path"] = json!(repo);
        }
        let made = self.operate("create_list", arguments).await?;
        self.list = made["list_id"].as_str().context("no list")?.into();
        Ok(())
    }

    /// Sets up the stub agent, which notes what it sees in [`Self::notes`].
    ///
    /// # Errors
    /// When it is refused.
    pub async fn make_agent(&self) -> Result<()> {
        let program = std::env::current_exe()?;
        let env = json!({ "BENCH_NOTES": self.notes() });
        let arguments = json!({ "name": "stub", "driver": "acp", "command": [program, "agent"], "env": env });
        self.operate("agent_add", arguments).await.map(drop)
    }

    /// The file in which the stub agent notes what it sees.
    pub fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// Arguments of `add_task` for the task with this number.
    pub fn task(&self, number: usize, prompt: &str) -> Value {
        json!({ "list_id": self.list, "title": format!("bench task {number}"), "description": prompt })
    }

    /// Adds a task outside of what is measured; its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn add(&self, arguments: Value) -> Result<String> {
        let added = self.operate("add_task", arguments).await?;
        Ok(added["task_id"].as_str().context("no task")?.into())
    }

    /// Waits until a task has a status.
    ///
    /// # Errors
    /// When it never has, with the end of the server's log.
    pub async fn reaches(&self, task: &str, status: &str) -> Result<()> {
        let look = async || {
            let shown = self.operate("get_task", json!({ "task_id": task })).await?;
            anyhow::ensure!(shown["status"] != "failed" || status == "failed", "{task} failed: {}", shown["failure"]);
            Ok((shown["status"] == status).then_some(()))
        };
        until(&format!("{task} to be {status}"), PATIENCE, look).await.with_context(|| self.log())
    }
}

/// A port of the loopback interface that nobody listens on.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
