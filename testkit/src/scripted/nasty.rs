//! Everything a well-behaved agent doesn't do.

use super::peer::Peer;
use super::scenario::Grandchildren;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

/// Writes a line to standard error.
pub(super) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes `bytes` bytes to standard error.
pub(super) fn flood_stderr(bytes: u64) {
    let mut line = [b'e'; 1024];
    line[1023] = b'\n';
    let mut err = std::io::stderr();
    for _ in 0..bytes.div_ceil(1024) {
        if err.write_all(&line).is_err() {
            return;
        }
    }
}

/// Writes one line of about `bytes` bytes that would be a message if anybody read it.
pub(super) fn huge_line(peer: &Peer, session: &str, bytes: u64) {
    let head = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":""#
    );
    let tail = "\"}}}}\n";
    let body = usize::try_from(bytes).unwrap_or_default().saturating_sub(head.len() + tail.len() - 1);
    let mut line = head.into_bytes();
    line.resize(line.len() + body, b'x');
    line.extend_from_slice(tail.as_bytes());
    peer.raw(&line);
}

/// Writes a line that is no text at all, then a text with bytes in it that aren't UTF-8.
pub(super) fn bad_utf8(peer: &Peer, session: &str) {
    peer.raw(b"\xff\xfe\xfd not a message \x80\n");
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "bad @ byte" } });
    let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } });
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    if let Some(byte) = line.iter_mut().find(|byte| **byte == b'@') {
        *byte = 0xff;
    }
    peer.raw(&line);
}

/// From now on SIGTERM changes nothing.
pub(super) fn ignore_sigterm() {
    if let Ok(mut signals) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::spawn(async move { while signals.recv().await.is_some() {} });
    }
}

/// Ends this process without any of its cleaning up.
pub(super) fn kill_self() -> ! {
    if let Some(own) = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(own, Signal::KILL);
    }
    std::process::abort()
}

/// Leaves a process in this group and one in a session of its own whose parent is gone.
///
/// # Errors
/// A sentence on what couldn't be done.
#[expect(clippy::disallowed_types, reason = "taskyard-process gives every child a group of its own; one of these must share the agent's")]
pub(super) fn leave_grandchildren(cwd: &Path, what: &Grandchildren) -> Result<(), String> {
    let inherit = if what.hold_output { "1>&3" } else { ">/dev/null" };
    let sleep = format!("sleep 1000 {inherit} 2>/dev/null </dev/null 3>&- & echo $!");
    let script = format!("{sleep}; setsid -f sh -c '{sleep}' | cat");
    // Descriptor 3 is the agent's own output; what `echo` says comes through the pipe.
    let mut child = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("exec 3>&2 2>/dev/null; {script}"))
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(own_output()?))
        .spawn()
        .map_err(|error| format!("can't leave processes behind: {error}"))?;
    let mut pids = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut pids).map_err(|error| error.to_string())?;
    }
    child.wait().map_err(|error| error.to_string())?;
    // In one step, so that whoever waits for the file finds both.
    let (path, part) = (cwd.join(&what.pids), cwd.join(format!("{}.part", what.pids)));
    std::fs::write(&part, pids).and_then(|()| std::fs::rename(&part, &path)).map_err(|error| error.to_string())
}

fn own_output() -> Result<std::os::fd::OwnedFd, String> {
    use std::os::fd::AsFd;
    std::io::stdout().as_fd().try_clone_to_owned().map_err(|error| error.to_string())
}

/// Closes standard output for good: what is written later goes nowhere.
pub(super) fn close_output() -> Result<(), String> {
    let null = std::fs::File::options().write(true).open("/dev/null").map_err(|error| error.to_string())?;
    rustix::stdio::dup2_stdout(&null).map_err(|error| error.to_string())
}
