//! Driver for Claude Code: `claude -p` with stream-json in both directions.
//!
//! Questions about permissions come over standard input and output (`--permission-prompt-tool stdio`);
//! checks are never bypassed. The MCP configuration holds the run's token: it lies beside the raw log,
//! readable by its owner only, and is removed when the process is gone.

mod permission;
mod session;
mod stream;
mod tools;

use crate::contract::{Command, Event, Handle, Launch, StartError, TurnEnd, TurnStop};
use crate::dialogue::{Over, hold};
use crate::emit::Emitter;
use crate::process::{self, Started};
use serde_json::{Map, Value, json};
use session::Session;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Retries of one request: with more, a wrong key takes minutes to tell.
const RETRIES: &str = "5";
/// How long an MCP server may take to start, milliseconds.
const MCP_START: &str = "30000";
/// Longest system prompt that is given as an argument; one argument can't be longer than 128 KB.
const ARGUMENT: usize = 64 << 10;
/// Longest folder for sockets: the path of one can't be longer than 107 bytes.
const SOCKET_FOLDER: usize = 80;
/// Tools that make no sense here: nobody sits at a terminal, worktrees and later turns are Taskyard's.
const NOT_HERE: &str = "AskUserQuestion,EnterWorktree,ExitWorktree,ScheduleWakeup,CronCreate,CronDelete,CronList";

/// Starts Claude Code; the handshake and everything after it is told by events.
///
/// # Errors
/// [`StartError`]: no command, it can't be started, a log or the configuration can't be written.
pub fn start(launch: Launch) -> Result<Handle, StartError> {
    let session = Session::new(launch.resume.as_ref().map(|resume| resume.agent_session_id.clone()));
    let (launch, files) = prepare(launch)?;
    let started = spawn(&launch, &files, &session)?;
    let (emitter, events) = Emitter::new();
    let (tx, commands) = mpsc::unbounded_channel();
    let handle = Handle { pid: started.pid, start_time: started.start_time, commands: tx, events };
    tokio::spawn(run(launch, files, session, started, commands, emitter));
    Ok(handle)
}

/// Files made for one run; removed with this.
#[derive(Debug)]
struct Files {
    mcp: PathBuf,
    system_prompt: Option<PathBuf>,
    sockets: Option<PathBuf>,
}

impl Drop for Files {
    fn drop(&mut self) {
        // What can't be removed holds a token that is dead by then.
        let _ = std::fs::remove_file(&self.mcp);
        if let Some(path) = &self.system_prompt {
            let _ = std::fs::remove_file(path);
        }
        if let Some(path) = &self.sockets {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

async fn run(
    launch: Launch,
    files: Files,
    mut session: Session,
    mut started: Started,
    mut commands: mpsc::UnboundedReceiver<Command>,
    emitter: Emitter,
) {
    if launch.mode.as_deref() == Some("bypassPermissions") {
        emitter.notice("warning", "Claude's mode bypassPermissions is not used: the profile's permission policy answers instead").await;
    }
    while hold(&mut session, started, &mut commands, &emitter, launch.start_limit).await == Over::Restart {
        started = match spawn(&launch, &files, &session) {
            Ok(started) => started,
            Err(error) => {
                let end = TurnEnd { stop: TurnStop::Failed, errors: vec![error.to_string()], last_text: String::new() };
                emitter.send(Event::TurnEnded(end)).await;
                emitter.send(Event::Exited { code: None, signal: None, stderr_tail: String::new() }).await;
                return;
            }
        };
    }
}

/// Sets what Claude Code needs to work unattended, where the user has said nothing else.
pub(crate) fn defaults(launch: &mut Launch) {
    let longest = launch.mcp_servers.iter().map(|server| server.tool_timeout_s).max().unwrap_or(600);
    let defaults = [
        ("CLAUDE_CODE_MAX_RETRIES", RETRIES.to_owned()),
        ("MCP_TOOL_TIMEOUT", longest.saturating_mul(1000).to_string()),
        ("MCP_TIMEOUT", MCP_START.to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
    ];
    for (name, value) in defaults {
        if launch.env.get(name).is_none() {
            launch.env.set(name, value);
        }
    }
}

fn prepare(mut launch: Launch) -> Result<(Launch, Files), StartError> {
    defaults(&mut launch);
    let mut files = Files { mcp: launch.raw_log.with_extension("mcp.json"), system_prompt: None, sockets: None };
    write_private(&files.mcp, mcp_config(&launch).to_string().as_bytes())?;
    if let Some(prompt) = launch.system_prompt.as_ref().filter(|prompt| prompt.len() > ARGUMENT) {
        let path = launch.raw_log.with_extension("system-prompt.txt");
        write_private(&path, prompt.as_bytes())?;
        files.system_prompt = Some(path);
    }
    // A desktop's own folder is left alone: keys and containers live there too.
    let sockets = launch.raw_log.with_extension("run");
    if launch.env.get("XDG_RUNTIME_DIR").is_none() && sockets.as_os_str().len() <= SOCKET_FOLDER {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&sockets);
        made.map_err(|source| StartError::Config { path: sockets.clone(), source })?;
        launch.env.set("XDG_RUNTIME_DIR", &sockets);
        files.sockets = Some(sockets);
    }
    Ok((launch, files))
}

fn mcp_config(launch: &Launch) -> Value {
    let servers: Map<String, Value> = launch
        .mcp_servers
        .iter()
        .map(|server| {
            let headers: Map<String, Value> = server.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
            (server.name.clone(), json!({ "type": "http", "url": server.url, "headers": headers }))
        })
        .collect();
    json!({ "mcpServers": servers })
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StartError> {
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(bytes)
    };
    write().map_err(|source| StartError::Config { path: path.to_owned(), source })
}

fn spawn(launch: &Launch, files: &Files, session: &Session) -> Result<Started, StartError> {
    process::start(launch, &arguments(launch, files, session))
}

fn arguments(launch: &Launch, files: &Files, session: &Session) -> Vec<String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let fixed = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--replay-user-messages"];
    let mut args: Vec<String> = fixed.map(str::to_owned).into();
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("--permission-prompt-tool", "stdio".into());
    // Without it the user's own settings choose, and they may choose never to ask.
    let mode = launch.mode.as_deref().filter(|mode| *mode != "bypassPermissions");
    add("--permission-mode", mode.unwrap_or("default").into());
    add("--disallowedTools", NOT_HERE.into());
    if let Some(own) = launch.mcp_servers.first() {
        // Taskyard checks these calls itself, by the run's token.
        add("--allowedTools", format!("mcp__{}", own.name));
    }
    add("--mcp-config", path(&files.mcp));
    if let Some(model) = &launch.model {
        add("--model", model.clone());
    }
    if let Some(turns) = launch.max_turns {
        add("--max-turns", turns.to_string());
    }
    match (&files.system_prompt, &launch.system_prompt) {
        (Some(file), _) => add("--append-system-prompt-file", path(file)),
        (None, Some(prompt)) => add("--append-system-prompt", prompt.clone()),
        (None, None) => {}
    }
    add(if session.resume { "--resume" } else { "--session-id" }, session.id.clone());
    args.push("--strict-mcp-config".to_owned());
    args
}

#[cfg(test)]
pub(crate) mod tests;
