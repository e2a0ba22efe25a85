//! Driver for agents that speak the Agent Client Protocol, version 1, on standard input and output.
//!
//! Lines are framed, capped and logged by [`crate::process`]; the pump turns `session/update` into
//! transcript items without typed parsing, so that unknown kinds survive, and hands requests and
//! responses to the SDK. The conversation owns everything with state: the turn that runs, open
//! permission requests, prompts in line. No handler of the SDK's dispatch loop ever waits.

mod ask;
mod connection;
mod conversation;
mod files;
mod handshake;
mod pump;
mod rpc;
mod update;

use crate::contract::{Command, Handle, Launch, StartError};
use crate::emit::Emitter;
use crate::process::{self, Started};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long each step of ending may take when nobody said.
const GRACE: Duration = Duration::from_secs(2);
/// Lines that wait for the SDK.
const LINES: usize = 64;

/// Starts the agent; the handshake and everything after it is told by events. When the handshake fails
/// while the agent lives, one [`crate::Event::TurnEnded`] says why before [`crate::Event::Exited`].
///
/// # Errors
/// [`StartError`].
pub(crate) fn start(mut launch: Launch) -> Result<Handle, StartError> {
    if is_adapter(&launch.command, &["claude-agent-acp", "claude-code-acp"]) {
        crate::claude::defaults(&mut launch);
    }
    // A user's own server of the same name would take the place of the one with the run's token.
    let filter = "DISABLE_MCP_CONFIG_FILTERING";
    if is_adapter(&launch.command, &["codex-acp"]) && launch.env.get(filter).is_none() {
        launch.env.set(filter, "true");
    }
    let started = process::start(&launch, &[])?;
    let (emitter, events) = Emitter::new();
    let (commands, received) = mpsc::unbounded_channel();
    let handle = Handle { pid: started.pid, start_time: started.start_time, commands, events };
    tokio::spawn(run(launch, started, emitter, received));
    Ok(handle)
}

/// Whether the command is one of these adapters, itself or by `npx`.
fn is_adapter(command: &[String], adapters: &[&str]) -> bool {
    let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
    command.iter().map(name).any(|name| adapters.iter().any(|adapter| name.starts_with(adapter)))
}

async fn run(launch: Launch, started: Started, emitter: Emitter, commands: mpsc::UnboundedReceiver<Command>) {
    let Started { pid, start_time, stdin, stdout, control } = started;
    // Ids of messages must not repeat in a session whose earlier run was another process.
    let stream = Arc::new(pump::Stream::new(format!("{start_time:x}.{pid:x}")));
    let (lines_tx, lines) = mpsc::channel(LINES);
    let pump = tokio::spawn(pump::run(stdout, emitter.clone(), stream.clone(), lines_tx));
    let root = launch.cwd.clone();
    let context = conversation::Context { launch, emitter: emitter.clone(), stream, commands };
    let grace = connection::serve(root, stdin, lines, context).await;
    control.end(grace);
    let exited = control.exited().await;
    // What the agent said to the last byte comes before its exit; the pump ends with its output.
    let _ = pump.await;
    emitter.send(exited).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn adapters_are_known_by_their_names() {
        let is = |command: &[&str]| {
            super::is_adapter(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &["claude-agent-acp", "codex-acp"])
        };
        assert!(is(&["/opt/bin/claude-agent-acp"]) && is(&["npx", "-y", "@agentclientprotocol/codex-acp@2.6.0"]));
        assert!(!is(&["codex"]) && !is(&["claude"]) && !is(&[]));
    }
}
