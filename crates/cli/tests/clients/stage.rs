//! What tests with real clients stand on: a yard whose server notes every call and comes back on the same port.

use crate::support::{PROGRAM, Setup, Task, Yard, eventually, within};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A yard whose server keeps its address over restarts.
pub struct Stage {
    /// Server, repository, list and the scripted agent `ada`.
    pub yard: Yard,
}

impl Stage {
    /// A server with nothing but a list.
    pub async fn new() -> Self {
        let setup = Setup::new();
        let log = setup.folder().join("calls").to_string_lossy().into_owned();
        Self { yard: Yard::with(setup.args(&["--listen", "127.0.0.1:0", "--mcp-log", &log])).await }
    }

    /// Stops the server and starts it again where it was.
    pub async fn restart(&mut self) {
        let address = self.yard.server.url().trim_start_matches("http://").to_owned();
        let log = self.calls_file().to_string_lossy().into_owned();
        assert_eq!(self.yard.server.stop().await, Some(0), "{}", self.yard.server.log());
        self.yard.server.launch_with(&["--listen", &address, "--mcp-log", &log]).await;
    }

    /// The endpoint that the README hands out; `part` is `mcp` or `mcp/sse`.
    pub fn url(&self, part: &str) -> String {
        format!("{}/{part}?mode=core", self.yard.server.url())
    }

    /// The command for clients that want one.
    pub fn command(&self) -> Value {
        json!({ "command": PROGRAM, "args": ["mcp", "--mode", "core"], "env": self.variables() })
    }

    /// What the command needs to find the server.
    pub fn variables(&self) -> Value {
        json!({ "TASKYARD_DATA_DIR": self.yard.server.data(), "PATH": std::env::var("PATH").unwrap(), "HOME": self.home() })
    }

    /// The home folder of server and clients.
    pub fn home(&self) -> PathBuf {
        self.yard.server.folder().join("home")
    }

    fn calls_file(&self) -> PathBuf {
        self.yard.server.folder().join("calls")
    }

    /// The server's notes of the finished calls of `tool`.
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.calls_file()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(|call: &Value| call["call"] == tool).collect()
    }

    /// Waits until `n` calls of `tool` have ended; gives the outcome of the last.
    pub async fn ended(&self, tool: &str, n: usize) -> String {
        let look = async || self.calls(tool).get(n - 1).map(|call| call["outcome"].as_str().unwrap().to_owned());
        eventually(&format!("{n} calls of {tool} to end"), look).await
    }

    /// The same of the first call, for which there is time until `limit`.
    pub async fn ended_within(&self, limit: Duration, tool: &str) -> String {
        let look = async || self.calls(tool).first().map(|call| call["outcome"].as_str().unwrap().to_owned());
        within(limit, &format!("the first call of {tool} to end"), look).await
    }

    /// A running task whose agent ends its turn when the gate `name` opens.
    pub async fn held(&self, name: &str) -> Task {
        let (up, gate) = (self.yard.gate(&format!("{name}-up")), self.yard.gate(name));
        // Not `wait_file`, which has a limit of its own.
        let wait = format!("until [ -e '{}' ]; do sleep 0.1; done", gate.display());
        let task = self.yard.queue(name, json!([{ "signal": up }, { "shell": wait }, { "text": "Waited." }])).await;
        self.yard.reached(&format!("{name}-up")).await;
        task
    }

    /// Lets the agent of [`Self::held`] end and waits until its task shows it.
    pub async fn finish(&self, name: &str, task: &str) {
        self.yard.open(name);
        self.yard.reviewable(task).await;
    }
}
