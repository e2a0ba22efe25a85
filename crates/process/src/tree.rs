//! Process trees: who is alive, who carries a marker, and how to end them all.

use crate::spawn::Child;
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Process groups of the commands that [`run`](crate::run::run) is waiting for right now.
static HELPERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn helpers() -> MutexGuard<'static, BTreeSet<i32>> {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that a command of ours has ended, when dropped.
pub(crate) struct Helper(i32);

impl Drop for Helper {
    fn drop(&mut self) {
        helpers().remove(&self.0);
    }
}

/// Starts a command of ours that is waited for. Nobody looks for processes between its start and its entry.
pub(crate) fn start_helper<E>(start: impl FnOnce() -> Result<Child, E>) -> Result<(Child, Helper), E> {
    let mut helpers = helpers();
    let child = start()?;
    helpers.insert(child.pid());
    let helper = Helper(child.pid());
    Ok((child, helper))
}

/// The two signals used to end processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: please end.
    Term,
    /// SIGKILL: end.
    Kill,
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// Sends `signal` to the process group `group`; one that is gone is fine.
pub fn signal_group(group: i32, signal: Signal) {
    // 0 and 1 would reach our own group and everybody.
    if let Some(pid) = Some(group).filter(|group| *group > 1).and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, signal.into());
    }
}

/// Start time of `pid` in clock ticks since boot, `None` when there is no such process.
pub fn start_time(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

/// What is read of `/proc/PID/stat`.
struct Stat {
    group: i32,
    started: u64,
}

/// Of a process that lives; one that only waits to be reaped doesn't.
fn stat(pid: i32) -> Option<Stat> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command name may hold spaces and brackets; the numbers follow the last ')'.
    let after = stat.iter().rposition(|b| *b == b')')? + 1;
    let fields = String::from_utf8_lossy(&stat[after..]).into_owned();
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    let group = fields.nth(1)?.parse().ok()?;
    Some(Stat { group, started: fields.nth(16)?.parse().ok()? })
}

/// Waits (bounded) until nobody of a group that was killed lives: a signal is sent before it has worked.
pub(crate) async fn group_gone(group: i32) {
    for round in 0..50u64 {
        let left = Pid::from_raw(group.max(0)).is_some_and(|pid| test_kill_process_group(pid).is_ok());
        if !left || !pids().into_iter().any(|pid| stat(pid).is_some_and(|stat| stat.group == group)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1 + round)).await;
    }
}

/// Whether exactly this process (not a later one with the same pid) lives.
pub fn is_alive(pid: i32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// Ids of living processes whose environment holds `marker` (`NAME=value`), this process left out.
pub fn marked(marker: &str) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let holds = |pid: i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|var| var == marker.as_bytes())
    };
    pids().into_iter().filter(|pid| *pid != own && holds(*pid) && start_time(*pid).is_some()).collect()
}

/// Ids of living processes whose working folder is `folder` or inside it. This process and the short commands that it
/// is waiting for (a question to git, say) are left out: they don't live there.
pub fn inside(folder: &Path) -> Vec<i32> {
    let helpers = helpers();
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let folder: PathBuf = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let within = |pid: i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
    let is_helper = |pid: i32| stat(pid).is_some_and(|stat| helpers.contains(&stat.group));
    pids().into_iter().filter(|pid| *pid != own && within(*pid) && !is_helper(*pid)).collect()
}

/// Clock ticks of a second in `/proc`, the same on every Linux that Rust's standard library knows.
const TICKS: u64 = 100;

/// How long the oldest living process whose program is called `name` or `name-…` has been running; `None` when there is
/// none.
pub fn oldest(name: &str) -> Option<Duration> {
    let is_called = |pid: i32| {
        let called = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        called.trim_end().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let first = pids().into_iter().filter(|pid| is_called(*pid)).filter_map(start_time).min()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let started = Duration::from_millis(first.saturating_mul(1000 / TICKS));
    Some(Duration::from_secs_f64(uptime.max(0.0)).saturating_sub(started))
}

/// Kills everything that carries `marker`, again until nothing is left (bounded). Returns how many were killed.
pub async fn sweep(marker: &str) -> usize {
    let mut killed = 0;
    for round in 0..50u64 {
        let found = marked(marker);
        if found.is_empty() {
            break;
        }
        for pid in found.into_iter().filter_map(Pid::from_raw) {
            killed += usize::from(kill_process(pid, rustix::process::Signal::KILL).is_ok());
        }
        tokio::time::sleep(Duration::from_millis(2 + round)).await;
    }
    killed
}

/// Ends a tree that an earlier server left: the group of `pid` if it is still that process, then all marked ones.
pub async fn end(pid: i32, started: u64, marker: &str) -> usize {
    if is_alive(pid, started) {
        signal_group(pid, Signal::Kill);
    }
    sweep(marker).await
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| std::str::from_utf8(entry.file_name().as_bytes()).ok().and_then(|name| name.parse().ok()))
        .collect()
}
