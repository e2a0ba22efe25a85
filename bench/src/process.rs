//! Programs under measurement: started in a group of their own, ended with everything they started, and weighed.
//!
//! The driver starts processes by itself, because starting bare ones is among what it measures.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a program may take to end in good order.
const GRACE: Duration = Duration::from_secs(10);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// How to start a program.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// All its variables.
    pub env: Vec<(OsString, OsString)>,
    /// Its folder.
    pub cwd: PathBuf,
    /// Where its output goes; with `piped` only standard error.
    pub log: PathBuf,
    /// Whether its standard input and output are for the driver.
    pub piped: bool,
}

/// A running program. Dropping it kills its group.
pub struct Process {
    child: Child,
    pid: i32,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(launch: &Launch) -> Result<Self> {
        let log = std::fs::File::options().create(true).append(true).open(&launch.log)?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.args).env_clear().envs(launch.env.iter().cloned()).current_dir(&launch.cwd);
        command.process_group(0).kill_on_drop(true).stderr(log.try_clone()?);
        if launch.piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(log);
        }
        let child = command.spawn().with_context(|| format!("starting {}", launch.program.display()))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).context("no process id")?;
        Ok(Self { child, pid })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its pipes, once.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Fails when it has ended.
    ///
    /// # Errors
    /// Saying how.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the program ended: {status}"),
            None => Ok(()),
        }
    }

    /// Ends it with SIGTERM, then with SIGKILL what is left of its tree.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn stop(mut self) -> Result<()> {
        let tree = tree(self.pid);
        signal(self.pid, rustix::process::Signal::TERM);
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        self.kill_tree(tree);
        if ended.is_err() {
            self.child.wait().await?;
        }
        Ok(())
    }

    /// Kills it and all it started with SIGKILL, at once.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn kill(mut self) -> Result<()> {
        let tree = tree(self.pid);
        self.kill_tree(tree);
        self.child.wait().await?;
        Ok(())
    }

    fn kill_tree(&self, tree: Vec<i32>) {
        for pid in tree {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        signal(self.pid, rustix::process::Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill_tree(tree(self.pid));
        }
    }
}

fn signal(group: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(group) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Waits until `look` has something; fails after `limit`.
///
/// # Errors
/// When it never has, or fails itself.
pub async fn until<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if begun.elapsed() > limit {
            bail!("{what}: not within {limit:?}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A process and all its living descendants.
pub fn tree(root: i32) -> Vec<i32> {
    let parents: Vec<(i32, i32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, stat(pid)?.get(1)?.parse().ok()?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Memory of a process with all its descendants, shared pages counted in parts, in MB.
pub fn memory(root: i32) -> f64 {
    tree(root).into_iter().map(memory_of_one).sum()
}

/// Memory of one process, shared pages counted in parts, in MB.
pub fn memory_of_one(pid: i32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kb = text.lines().find_map(|line| line.strip_prefix("Pss:")).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or_default() / 1024.0
}

/// Processor time that a process itself has used, in seconds, with that of children it has waited for.
pub fn cpu(pid: i32) -> f64 {
    let ticks = stat(pid).map(|fields| fields.iter().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>());
    ticks.unwrap_or_default() / 100.0
}

/// Processor time that the whole machine has used, in seconds.
pub fn machine_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().sum::<f64>() - idle) / 100.0
}

/// Nanoseconds of the clock that all processes of a machine share.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or_default()
}

/// Variables for programs that must not see the machine: `folder` holds their home and their git configuration.
///
/// # Errors
/// When the files can't be made.
pub fn environment(folder: &Path) -> Result<Vec<(OsString, OsString)>> {
    let config = folder.join("gitconfig");
    std::fs::create_dir_all(folder.join("home"))?;
    std::fs::create_dir_all(folder.join("tmp"))?;
    let text = "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[user]\n\tname = Bench\n\temail = bench@example.invalid\n";
    std::fs::write(&config, text)?;
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
        ("HOME".into(), folder.join("home").into()),
        ("TMPDIR".into(), folder.join("tmp").into()),
        ("GIT_CONFIG_GLOBAL".into(), config.into()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("LANG".into(), "C.UTF-8".into()),
    ];
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        env.push((name.into(), folder.join("home/xdg").into()));
    }
    Ok(env)
}
