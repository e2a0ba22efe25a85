//! The agent's process: started with its marker, its output logged before anybody parses it, ended as a
//! whole tree.
//!
//! Three parts for a driver: [`Stdin`] (never blocks the caller), [`Stdout`] (framed lines, read at the
//! driver's pace) and [`Control`] (end it, learn how it ended). Standard error is read all the time, so a
//! flood of it can't block the agent; a bounded tail is kept. Speaks no protocol.

use crate::contract::{Event, Heard, Launch, StartError};
use crate::frame::{Frame, Framer};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use taskyard_process::spawn::{Child, Exit};
use taskyard_process::{Spawn, spawn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};

/// How much of standard error an [`Event::Exited`] carries.
const STDERR_TAIL: usize = 8 << 10;
/// Most of standard error that goes to its log; an agent that floods it mustn't fill the disk.
const STDERR_LOG: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;
/// How long output may stay open without news once the process and its marked descendants are gone.
const DRAIN: Duration = Duration::from_secs(1);

/// A started agent.
#[derive(Debug)]
pub struct Started {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// To the agent.
    pub stdin: Stdin,
    /// From the agent.
    pub stdout: Stdout,
    /// Over the agent.
    pub control: Control,
}

/// Starts `launch.command` with `more_args` behind it and its output going to the launch's logs.
/// Must be called inside a Tokio runtime.
///
/// # Errors
/// [`StartError::NoCommand`], [`StartError::Log`] or [`StartError::Spawn`].
pub fn start(launch: &Launch, more_args: &[String]) -> Result<Started, StartError> {
    let (program, args) = launch.command.split_first().ok_or(StartError::NoCommand)?;
    let raw_log = open_log(&launch.raw_log)?;
    let stderr_log = open_log(&launch.stderr_log)?;
    let mut child = spawn(Spawn {
        program: program.into(),
        args: args.iter().chain(more_args).map(Into::into).collect(),
        cwd: launch.cwd.clone(),
        env: launch.env.clone(),
        stdin: true,
        marker: Some(launch.marker.clone()),
    })
    .inspect_err(|_| tracing::warn!(%program, ?args, ?more_args, "an agent can't be started"))?;
    let (pid, start_time) = (child.pid(), child.start_time());
    let (stdin_tx, stdin_rx) = mpsc::unbounded_channel();
    if let Some(pipe) = child.stdin.take() {
        tokio::spawn(write(pipe, stdin_rx));
    }
    let tail = Arc::new(Mutex::new(Vec::new()));
    let stderr_done = tokio::spawn(drain_stderr(child.stderr.take(), stderr_log, tail.clone()));
    let (exit_tx, exit) = watch::channel(None);
    let (end, end_rx) = mpsc::unbounded_channel();
    let stdin = Stdin { tx: stdin_tx };
    let stdout = Stdout {
        pipe: child.stdout.take(),
        log: Some(raw_log),
        log_name: launch.raw_log.display().to_string(),
        framer: Framer::new(launch.line_cap),
        chunk: vec![0; CHUNK],
        heard: launch.heard.clone(),
        exit: exit.clone(),
    };
    tokio::spawn(supervise(child, stdin.clone(), end_rx, exit_tx, stderr_done));
    Ok(Started { pid, start_time, stdin, stdout, control: Control { end, exit, tail } })
}

fn open_log(path: &Path) -> Result<File, StartError> {
    let open = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Like the database: what agents say is the owner's only.
        File::options().create(true).append(true).mode(0o600).open(path)
    };
    open().map_err(|source| StartError::Log { path: path.to_owned(), source })
}

/// The agent's standard input. Cheap to clone; what is sent is written in order by a task of its own.
#[derive(Debug, Clone)]
pub struct Stdin {
    tx: mpsc::UnboundedSender<Input>,
}

#[derive(Debug)]
enum Input {
    Bytes(Vec<u8>),
    Close,
}

impl Stdin {
    /// Sends a line; the line ending is added. `false` when the agent takes no more.
    pub fn line(&self, line: &str) -> bool {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.bytes(bytes)
    }

    /// Sends bytes as they are. `false` when the agent takes no more.
    pub fn bytes(&self, bytes: Vec<u8>) -> bool {
        self.tx.send(Input::Bytes(bytes)).is_ok()
    }

    /// Closes it after everything sent so far.
    pub fn close(&self) {
        let _ = self.tx.send(Input::Close);
    }
}

async fn write(mut pipe: ChildStdin, mut rx: mpsc::UnboundedReceiver<Input>) {
    while let Some(Input::Bytes(bytes)) = rx.recv().await {
        if pipe.write_all(&bytes).await.is_err() || pipe.flush().await.is_err() {
            // The agent closed its end; its exit tells the story.
            return;
        }
    }
}

/// The agent's standard output, framed.
#[derive(Debug)]
pub struct Stdout {
    pipe: Option<ChildStdout>,
    log: Option<File>,
    log_name: String,
    framer: Framer,
    chunk: Vec<u8>,
    heard: Heard,
    exit: watch::Receiver<Option<Exit>>,
}

impl Stdout {
    /// The next frame; `None` at the end of the output. Every byte is in the raw log before its frame is
    /// returned. Can be dropped and called again without losing anything.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.framer.pop() {
                return Some(frame);
            }
            let pipe = self.pipe.as_mut()?;
            let read = tokio::select! {
                biased;
                read = pipe.read(&mut self.chunk) => read.unwrap_or(0),
                () = quiet_after(&mut self.exit) => 0,
            };
            if read == 0 {
                self.pipe = None;
                self.framer.finish();
                continue;
            }
            self.log(read);
            self.framer.push(&self.chunk[..read]);
            // A whole line speaks for itself; what a driver passes over, a keep-alive say, is no sign of life.
            if !self.framer.is_ready() {
                self.heard.now();
            }
        }
    }

    fn log(&mut self, read: usize) {
        let Some(log) = self.log.as_mut() else { return };
        if let Err(error) = log.write_all(&self.chunk[..read]) {
            self.log = None;
            let message = format!("The raw log {} can't be written any more: {error}", self.log_name);
            self.framer.insert(Frame::LogFailed { message });
        }
    }
}

/// Ready once the process has been gone for [`DRAIN`]: something unmarked holds the pipe open.
async fn quiet_after(exit: &mut watch::Receiver<Option<Exit>>) {
    // An error means that the supervisor is gone, and the process with it.
    let _ = exit.wait_for(Option::is_some).await;
    tokio::time::sleep(DRAIN).await;
}

/// Ends the agent and tells how it ended. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Control {
    end: mpsc::UnboundedSender<Duration>,
    exit: watch::Receiver<Option<Exit>>,
    tail: Arc<Mutex<Vec<u8>>>,
}

impl Control {
    /// Ends the tree: closes standard input, after `grace` SIGTERM to the group, after another `grace`
    /// SIGKILL, then whatever carries the marker. Returns at once; see [`Control::exited`].
    pub fn end(&self, grace: Duration) {
        let _ = self.end.send(grace);
    }

    /// Whether the process is gone.
    pub fn is_gone(&self) -> bool {
        self.exit.borrow().is_some()
    }

    /// Waits until the process is gone and its tree swept; the [`Event::Exited`] to send last.
    pub async fn exited(&self) -> Event {
        let exit = self.exit.clone().wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        let exit = exit.unwrap_or(Exit { code: None, signal: None });
        Event::Exited { code: exit.code, signal: exit.signal, stderr_tail: self.stderr_tail() }
    }

    /// The end of standard error so far.
    pub fn stderr_tail(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let from = tail.len().saturating_sub(STDERR_TAIL);
        String::from_utf8_lossy(&tail[from..]).trim().to_owned()
    }
}

async fn supervise(
    mut child: Child,
    stdin: Stdin,
    mut end: mpsc::UnboundedReceiver<Duration>,
    exit_tx: watch::Sender<Option<Exit>>,
    stderr_done: tokio::task::JoinHandle<()>,
) {
    let grace = tokio::select! {
        _ = child.wait() => Duration::ZERO,
        grace = end.recv() => {
            // All controls gone without a word: the driver is gone, nobody waits for politeness.
            let grace = grace.unwrap_or_default();
            stdin.close();
            let _ = tokio::time::timeout(grace, child.wait()).await;
            grace
        }
    };
    let exit = child.end(grace).await.unwrap_or(Exit { code: None, signal: None });
    let _ = tokio::time::timeout(DRAIN, stderr_done).await;
    let _ = exit_tx.send(Some(exit));
}

async fn drain_stderr(pipe: Option<ChildStderr>, mut log: File, tail: Arc<Mutex<Vec<u8>>>) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; CHUNK];
    let mut logged = 0u64;
    while let Ok(read) = pipe.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        if logged < STDERR_LOG {
            // A full disk mustn't stop the agent; the tail still tells what it said.
            let _ = log.write_all(&chunk[..read]);
            logged += read as u64;
            if logged >= STDERR_LOG {
                let _ = log.write_all(b"\n[taskyard: standard error goes on, the rest is not kept]\n");
            }
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&chunk[..read]);
        let surplus = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_an_agent_says_is_its_owners_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/agent.raw");
        open_log(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
