//! Runs a command to its end: bounded time, bounded output, a typed error for each stage.

use crate::Environment;
use crate::spawn::{Spawn, spawn};
use crate::tree;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// How long a command may take when it doesn't say.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(120);
/// How much of each output is kept when the command doesn't say.
pub const DEFAULT_OUTPUT_CAP: usize = 64 << 20;
/// How long output is waited for once the command itself is gone.
const LINGER: Duration = Duration::from_secs(1);
const STDERR_TAIL: usize = 4 << 10;
/// `ENOEXEC`: neither a program nor a script with an interpreter.
const NO_FORMAT: i32 = 8;

/// What a command reads on standard input.
#[derive(Debug, Clone, Default)]
pub enum Input {
    /// Nothing: the null device.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
}

/// A command to run to its end.
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Environment,
    pub(crate) input: Input,
    pub(crate) time_limit: Duration,
    pub(crate) output_cap: usize,
}

impl Command {
    /// `program` in the folder `cwd` with exactly the variables of `env`.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>, env: Environment) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env,
            input: Input::Null,
            time_limit: DEFAULT_TIME_LIMIT,
            output_cap: DEFAULT_OUTPUT_CAP,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: Into<OsString>>(mut self, args: impl IntoIterator<Item = I>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.set(name, value);
        self
    }

    /// What it reads.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// After this its whole tree is ended and [`Error::TimedOut`] returned.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Bytes of standard output (and of standard error) that are kept; the rest is read and dropped.
    #[must_use]
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.output_cap = bytes;
        self
    }

    /// Program and arguments for messages.
    pub fn argv(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// What a command that was started came to.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output up to the cap.
    pub stdout: Vec<u8>,
    /// Standard error up to the cap.
    pub stderr: Vec<u8>,
    /// Whether either output was longer than the cap.
    pub truncated: bool,
}

impl Output {
    /// Whether it exited with 0.
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }

    /// The last few kilobytes of standard error as text.
    pub fn stderr_tail(&self) -> String {
        tail(&self.stderr)
    }
}

/// The last few kilobytes of `bytes` as text, trimmed.
pub(crate) fn tail(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(STDERR_TAIL);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}

/// Why a command gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder it should run in isn't there.
    #[error("the folder {} doesn't exist, so this can't run there: {argv}", cwd.display())]
    NoFolder {
        /// What should have run.
        argv: String,
        /// Where.
        cwd: PathBuf,
    },
    /// The program couldn't be started.
    #[error("can't start {program}: {}", reason(program, source))]
    Start {
        /// The program.
        program: String,
        /// The same with its arguments.
        argv: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Reading or writing its streams, or waiting for it, failed.
    #[error("lost {argv}: {source}")]
    Stream {
        /// What ran.
        argv: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// It took longer than its limit and was ended with all its descendants.
    #[error("{argv} was ended after {} s{}", limit.as_secs_f32(), said(stderr))]
    TimedOut {
        /// What ran.
        argv: String,
        /// The limit.
        limit: Duration,
        /// The end of what it said on standard error.
        stderr: String,
    },
}

/// Why `program` can't be started: what the system says, and what that means for a program.
fn reason(program: &str, source: &std::io::Error) -> String {
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let (by_path, path) = (program.contains('/'), Path::new(program));
    let meaning = match source.kind() {
        ErrorKind::NotFound if !by_path => "it isn't on the server's PATH",
        ErrorKind::NotFound if path.is_relative() => "a path that isn't absolute is looked up in the folder that it runs in",
        ErrorKind::NotFound if path.exists() => "the interpreter that its first line names isn't there",
        ErrorKind::PermissionDenied if by_path => "is it a file, and executable?",
        _ if source.raw_os_error() == Some(NO_FORMAT) => "a script needs a first line such as #!/bin/sh",
        _ => return text.to_owned(),
    };
    format!("{text} ({meaning})")
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

/// Runs `command` to its end.
///
/// # Errors
/// [`Error`], by stage. A non-zero exit is not an error here: look at [`Output::ok`].
pub async fn run(command: Command) -> Result<Output, Error> {
    let argv = command.argv();
    let (limit, cap, input) = (command.time_limit, command.output_cap, command.input.clone());
    let (mut child, _helper) = tree::start_helper(|| spawn(Spawn::from(command)))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async move {
        if let (Some(mut stdin), Input::Bytes(bytes)) = (stdin, input) {
            // A program that doesn't read to the end closes the pipe; its exit code tells the story.
            let _ = stdin.write_all(&bytes).await;
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let work = async {
        let streams = async { tokio::join!(feed, read_into(stdout, cap, &mut out), read_into(stderr, cap, &mut err)) };
        let mut streams = std::pin::pin!(streams);
        let (status, ((), out_cut, err_cut)) = tokio::select! {
            read = &mut streams => (child.wait().await?, read),
            // What the command left running in the background may keep the pipes open for ever.
            status = child.wait() => match tokio::time::timeout(LINGER, streams).await {
                Ok(read) => (status?, read),
                Err(_) => return Ok((status?, false)),
            },
        };
        Ok::<_, std::io::Error>((status, out_cut? || err_cut?))
    };
    match tokio::time::timeout(limit, work).await {
        Ok(Ok((status, truncated))) => Ok(Output { code: status.code, signal: status.signal, stdout: out, stderr: err, truncated }),
        Ok(Err(source)) => Err(Error::Stream { argv, source }),
        Err(_) => {
            child.end(Duration::from_millis(500)).await;
            Err(Error::TimedOut { argv, limit, stderr: tail(&err) })
        }
    }
}

async fn read_into(from: Option<impl AsyncRead + Unpin>, cap: usize, kept: &mut Vec<u8>) -> std::io::Result<bool> {
    let Some(mut from) = from else { return Ok(false) };
    let mut chunk = vec![0; 32 << 10];
    let mut cut = false;
    loop {
        let n = from.read(&mut chunk).await?;
        if n == 0 {
            return Ok(cut);
        }
        let take = n.min(cap - kept.len());
        kept.extend_from_slice(&chunk[..take]);
        cut |= take < n;
    }
}
