//! Driver for Codex: `codex app-server`, JSON lines on standard input and output.
//!
//! All settings, the run's token among them, go into the thread's own configuration over standard input:
//! nothing of them is in the arguments, which every user of the machine can read, and the user's
//! configuration file stays as it is. The sandbox lets it write the worktree and the repository's git
//! folders, without which it couldn't commit in a linked worktree.

mod approval;
mod fault;
mod items;
mod session;
mod shell;

use crate::contract::{Handle, Launch, McpServer, StartError};
use crate::dialogue::hold;
use crate::emit::Emitter;
use crate::process;
use serde_json::{Map, Value, json};
use session::Session;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Codex's sandboxes; the words a mode may name besides [`APPROVALS`].
const SANDBOXES: &[&str] = &["read-only", "workspace-write", "danger-full-access"];
/// Codex's approval policies.
const APPROVALS: &[&str] = &["untrusted", "on-request", "never"];

/// Starts Codex; the handshake and everything after it is told by events.
///
/// # Errors
/// [`StartError`]: no command, it can't be started, a log can't be opened.
pub fn start(mut launch: Launch) -> Result<Handle, StartError> {
    if launch.env.get("NO_COLOR").is_none() {
        // What it says on standard error is shown to people as text.
        launch.env.set("NO_COLOR", "1");
    }
    let named = launch.command.iter().any(|word| word == "app-server");
    let arguments: Vec<String> = if named { Vec::new() } else { vec!["app-server".to_owned()] };
    let started = process::start(&launch, &arguments)?;
    let (emitter, events) = Emitter::new();
    let (tx, mut commands) = mpsc::unbounded_channel();
    let handle = Handle { pid: started.pid, start_time: started.start_time, commands: tx, events };
    let start_limit = launch.start_limit;
    let mut session = Session::new(Settings::from(launch));
    tokio::spawn(async move {
        hold(&mut session, started, &mut commands, &emitter, start_limit).await;
    });
    Ok(handle)
}

/// What a thread is opened with.
#[derive(Debug)]
struct Settings {
    cwd: PathBuf,
    writable: Vec<PathBuf>,
    model: Option<String>,
    system_prompt: Option<String>,
    mcp_servers: Vec<McpServer>,
    sandbox: String,
    approval: String,
    resume: Option<String>,
}

impl From<Launch> for Settings {
    fn from(launch: Launch) -> Self {
        let mode = launch.mode.unwrap_or_default();
        let words: Vec<&str> = mode.split([' ', ',', '+', '/']).filter(|word| !word.is_empty()).collect();
        let one_of = |known: &[&str]| words.iter().find(|word| known.contains(word)).map(|word| (*word).to_owned());
        // A word that is neither is passed on, so that Codex itself says what it doesn't know.
        let other = words.iter().find(|word| !SANDBOXES.contains(word) && !APPROVALS.contains(word)).map(|word| (*word).to_owned());
        Self {
            sandbox: other.or_else(|| one_of(SANDBOXES)).unwrap_or_else(|| "workspace-write".to_owned()),
            approval: one_of(APPROVALS).unwrap_or_else(|| "on-request".to_owned()),
            cwd: launch.cwd,
            writable: launch.writable_dirs,
            model: launch.model,
            system_prompt: launch.system_prompt,
            mcp_servers: launch.mcp_servers,
            resume: launch.resume.map(|resume| resume.agent_session_id),
        }
    }
}

impl Settings {
    /// The parameters that `thread/start` and `thread/resume` share.
    fn thread(&self) -> Value {
        let servers: Map<String, Value> =
            self.mcp_servers.iter().enumerate().map(|(at, server)| (server.name.clone(), mcp(server, at == 0))).collect();
        let mut params = json!({
            "cwd": self.cwd,
            "sandbox": self.sandbox,
            "approvalPolicy": self.approval,
            "approvalsReviewer": "user",
            "config": {
                "sandbox_workspace_write": { "writable_roots": self.writable },
                "mcp_servers": servers,
            },
        });
        if let Some(model) = &self.model {
            params["model"] = model.clone().into();
        }
        if let Some(prompt) = &self.system_prompt {
            params["developerInstructions"] = prompt.clone().into();
        }
        params
    }
}

/// A server's configuration. Calls of Taskyard's own aren't asked about: it checks them itself, by the
/// run's token, and Codex would refuse them where it never asks.
fn mcp(server: &McpServer, own: bool) -> Value {
    let headers: Map<String, Value> = server.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let mut config = json!({ "url": server.url, "http_headers": headers, "tool_timeout_sec": server.tool_timeout_s });
    if own {
        config["default_tools_approval_mode"] = "approve".into();
    }
    config
}

#[cfg(test)]
pub(crate) mod tests;
