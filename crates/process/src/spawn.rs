//! Starts a child that is owned as a whole tree: own process group, marker in its environment.

use crate::run::{Command, Error, Input};
use crate::{Environment, tree};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// A long-lived child to start.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// Exactly the variables it gets.
    pub env: Environment,
    /// Whether it gets a pipe on standard input; the null device otherwise.
    pub stdin: bool,
    /// `NAME=value` that marks it and, by inheritance, all its descendants; must be in `env` too.
    pub marker: Option<String>,
}

impl From<Command> for Spawn {
    fn from(command: Command) -> Self {
        Self {
            program: command.program,
            args: command.args,
            cwd: command.cwd,
            env: command.env,
            stdin: matches!(command.input, Input::Bytes(_)),
            marker: None,
        }
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A running child with its pipes. Dropping it kills the group.
#[derive(Debug)]
pub struct Child {
    inner: tokio::process::Child,
    pid: i32,
    start_time: u64,
    marker: Option<String>,
    done: bool,
    /// Its standard input, when a pipe was asked for.
    pub stdin: Option<ChildStdin>,
    /// Its standard output.
    pub stdout: Option<ChildStdout>,
    /// Its standard error.
    pub stderr: Option<ChildStderr>,
}

/// Starts `what`.
///
/// # Errors
/// [`Error::NoFolder`] or [`Error::Start`].
#[expect(clippy::disallowed_types, reason = "this is the one helper that may")]
pub fn spawn(what: Spawn) -> Result<Child, Error> {
    let words = std::iter::once(&what.program).chain(&what.args);
    let argv = words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    if !what.cwd.is_dir() {
        return Err(Error::NoFolder { argv, cwd: what.cwd });
    }
    let mut command = tokio::process::Command::new(&what.program);
    command.args(&what.args).current_dir(&what.cwd).env_clear().envs(what.env.iter());
    command.stdin(if what.stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut inner = command.spawn().map_err(|source| {
        let program = what.program.to_string_lossy().into_owned();
        Error::Start { program, argv, source }
    })?;
    let pid = inner.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let (stdin, stdout, stderr) = (inner.stdin.take(), inner.stdout.take(), inner.stderr.take());
    Ok(Child { pid, start_time: tree::start_time(pid).unwrap_or_default(), marker: what.marker, done: false, stdin, stdout, stderr, inner })
}

impl Child {
    /// The process id, which is also the process group's.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Start time in clock ticks since boot (`/proc/PID/stat` field 22): with the pid it names one process for good.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Waits for the child itself (not its descendants).
    ///
    /// # Errors
    /// The operating system's.
    pub async fn wait(&mut self) -> std::io::Result<Exit> {
        let status = self.inner.wait().await?;
        self.done = true;
        Ok(Exit { code: status.code(), signal: std::os::unix::process::ExitStatusExt::signal(&status) })
    }

    /// Ends the whole tree: SIGTERM to the group, `grace` to go, SIGKILL, then a sweep for marked
    /// descendants that left the group. Returns how the child itself ended.
    pub async fn end(&mut self, grace: Duration) -> Option<Exit> {
        if !self.done {
            tree::signal_group(self.pid, tree::Signal::Term);
        }
        let mut exit = tokio::time::timeout(grace, self.wait()).await.ok().and_then(Result::ok);
        tree::signal_group(self.pid, tree::Signal::Kill);
        if exit.is_none() {
            exit = self.wait().await.ok();
        }
        tree::group_gone(self.pid).await;
        if let Some(marker) = &self.marker {
            tree::sweep(marker).await;
        }
        exit
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.done {
            tree::signal_group(self.pid, tree::Signal::Kill);
        }
    }
}
