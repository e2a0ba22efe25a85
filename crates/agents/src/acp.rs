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
pub(crate) fn start(launch: Launch) -> Result<Handle, StartError> {
    let started = process::start(&launch, &[])?;
    let (emitter, events) = Emitter::new();
    let (commands, received) = mpsc::unbounded_channel();
    let handle = Handle { pid: started.pid, start_time: started.start_time, commands, events };
    tokio::spawn(run(launch, started, emitter, received));
    Ok(handle)
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
