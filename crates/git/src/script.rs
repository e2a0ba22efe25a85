//! Running a repository's setup, cleanup and verify scripts: bounded in time and output, into a log file.
//!
//! The script is run by `sh -e` in the worktree with its whole tree of processes owned; both outputs go to the log as
//! they come. Never reads the terminal.

use crate::error::{Error, Result};
use std::path::Path;
use std::time::Duration;
use taskyard_process::Environment;
use taskyard_process::spawn::{Child, Exit, Spawn, spawn};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

/// How much of the end of the output is given in an error, in bytes.
const TAIL: usize = 4 << 10;

/// A script to run.
#[derive(Debug, Clone)]
pub struct Script<'a> {
    /// `setup`, `cleanup` or `verify`.
    pub name: &'static str,
    /// Its text, for `sh -e`.
    pub text: &'a str,
    /// The folder it runs in.
    pub folder: &'a Path,
    /// Exactly the variables it gets.
    pub env: Environment,
    /// The file its output is appended to; made when missing.
    pub log: &'a Path,
    /// Bytes of output that are kept in the log; the rest is read and dropped.
    pub log_limit: u64,
    /// After this it is ended with everything it started.
    pub time_limit: Duration,
    /// `NAME=value` of `env` by which what left its process group is found and ended too.
    pub marker: Option<String>,
}

/// Runs `script` to its end. An empty one is fine.
///
/// # Errors
/// [`Error::ScriptFailed`] with the end of what it printed; [`Error::TimedOut`]; [`Error::Io`] on the log;
/// [`Error::Process`] when it can't be started.
pub async fn run_script(script: &Script<'_>) -> Result<()> {
    if script.text.trim().is_empty() {
        return Ok(());
    }
    let stage = "run a script";
    let args = ["-e", "-c", script.text].map(Into::into).to_vec();
    let what = Spawn {
        program: "sh".into(),
        args,
        cwd: script.folder.into(),
        env: script.env.clone(),
        stdin: false,
        marker: script.marker.clone(),
    };
    let log = Mutex::new(Log::open(script).await?);
    let mut child = spawn(what).map_err(|source| Error::Process { stage, source })?;
    let done = tokio::time::timeout(script.time_limit, follow(&mut child, &log)).await;
    // What it left running in the background goes with it.
    child.end(Duration::from_millis(if done.is_err() { 500 } else { 0 })).await;
    let mut log = log.into_inner();
    log.file.flush().await.map_err(Error::io("write", script.log))?;
    let tail = String::from_utf8_lossy(&log.tail).trim().to_owned();
    match done {
        Err(_) => Err(Error::TimedOut { stage, argv: format!("{} script", script.name), limit: script.time_limit, stderr: tail }),
        Ok(Err(source)) => Err(Error::Io { action: "write", path: script.log.into(), source }),
        Ok(Ok(Exit { code: Some(0), .. })) => Ok(()),
        Ok(Ok(exit)) => Err(Error::ScriptFailed { name: script.name, status: said(exit), tail }),
    }
}

fn said(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown state".into(),
    }
}

/// Waits for the script itself. A process it left in the background may hold the pipes open, so the outputs are
/// followed only as long as the script runs, and then to what is already in them.
async fn follow(child: &mut Child, log: &Mutex<Log>) -> std::io::Result<Exit> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let outputs = async { tokio::try_join!(copy(stdout, log), copy(stderr, log)).map(|_| ()) };
    tokio::pin!(outputs);
    tokio::select! {
        ended = child.wait() => {
            let exit = ended?;
            match tokio::time::timeout(Duration::from_millis(200), outputs).await {
                Ok(done) => done.map(|()| exit),
                Err(_) => Ok(exit),
            }
        }
        done = &mut outputs => {
            done?;
            child.wait().await
        }
    }
}

async fn copy(from: Option<impl AsyncRead + Unpin>, log: &Mutex<Log>) -> std::io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut chunk = vec![0; 16 << 10];
    loop {
        let n = from.read(&mut chunk).await?;
        if n == 0 {
            return Ok(());
        }
        log.lock().await.add(&chunk[..n]).await?;
    }
}

/// The log file, how much may still go into it, and the end of all output.
struct Log {
    file: File,
    left: u64,
    tail: Vec<u8>,
}

impl Log {
    async fn open(script: &Script<'_>) -> Result<Self> {
        if let Some(folder) = script.log.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
        }
        let file = File::options().create(true).append(true).open(script.log).await.map_err(Error::io("open", script.log))?;
        Ok(Self { file, left: script.log_limit, tail: Vec::new() })
    }

    async fn add(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.tail.extend_from_slice(bytes);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        let fits = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.file.write_all(&bytes[..fits]).await?;
        self.left -= fits as u64;
        if fits < bytes.len() && fits > 0 {
            self.file.write_all(b"\n[more output was dropped]\n").await?;
        }
        Ok(())
    }
}
