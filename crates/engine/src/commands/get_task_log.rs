//! `get_task_log`: the end of a run's log.

use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use std::io::SeekFrom;
use std::path::Path;
use taskyard_domain::id::RunId;
use taskyard_domain::run::Run;
use taskyard_domain::{Error, Result};
use taskyard_store::Read;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

const DEFAULT: i64 = 10_000;
const MOST: i64 = 262_144;
/// What a default answer's log may take as JSON, so that the whole stays below 10 KB.
const SMALL: usize = 9_700;

/// Which log, and how much of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskLog {
    /// The task.
    pub task_id: String,
    /// The run; the latest one without it.
    #[serde(default)]
    pub run_id: Option<String>,
    /// Most bytes from the end, 1 to 262,144.
    #[serde(default = "ten_thousand")]
    pub tail_bytes: i64,
}

fn ten_thousand() -> i64 {
    DEFAULT
}

/// The end of a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskLogOutput {
    /// Whether there is a log.
    pub available: bool,
    /// The run that it is of.
    pub run_id: Option<String>,
    /// Its last lines; bytes that aren't UTF-8 are replaced.
    pub log: Option<String>,
    /// Whether it is longer than this.
    pub truncated: bool,
    /// How long it is.
    pub total_bytes: u64,
}

impl Engine {
    /// The last `tail_bytes` of a run's log, cut at the start of a line.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a size out of range; `NOT_FOUND` for an unknown task, or a run of another one;
    /// `UNAVAILABLE` when the file can't be read.
    pub async fn get_task_log(&self, caller: &Caller, input: GetTaskLog) -> Result<GetTaskLogOutput> {
        if !(1..=MOST).contains(&input.tail_bytes) {
            return Err(Error::invalid("tail_bytes", format!("tail_bytes is {}; it can be 1 to {MOST}", input.tail_bytes)));
        }
        let tail = u64::try_from(input.tail_bytes).unwrap_or_default();
        let small = input.tail_bytes <= DEFAULT;
        let caller = caller.clone();
        let run = self.store().read(move |read| Box::pin(async move { run_of(read, &caller, &input).await })).await?;
        let none = GetTaskLogOutput { available: false, run_id: None, log: None, truncated: false, total_bytes: 0 };
        let Some(run) = run else { return Ok(none) };
        let none = GetTaskLogOutput { run_id: Some(run.id.to_string()), ..none };
        let path = self.paths().run_log(run.id);
        let Some((bytes, total_bytes)) = end_of(&path, tail).await? else { return Ok(none) };
        let whole = bytes.len() as u64 == total_bytes;
        let log = String::from_utf8_lossy(if whole { &bytes } else { from_line(&bytes) }).into_owned();
        let length = log.len();
        let log = if small { fitting(log) } else { log };
        let truncated = !whole || log.len() < length;
        Ok(GetTaskLogOutput { available: true, log: Some(log), truncated, total_bytes, ..none })
    }
}

async fn run_of(read: &mut Read, caller: &Caller, input: &GetTaskLog) -> Result<Option<Run>> {
    let task = handle::task(read, caller, "task_id", &input.task_id).await?;
    let Some(text) = &input.run_id else { return read.run_latest_for_task(task.id).await };
    let id: RunId = handle::id("run_id", text)?;
    let run = read.run_fetch(id).await?.filter(|run| run.task_id == task.id);
    run.map(Some).ok_or_else(|| Error::not_found(&format!("run of {} named", task.short_id), text).with_field("run_id"))
}

/// The last `tail` bytes of a file and its length; `None` where there is no file.
async fn end_of(path: &Path, tail: u64) -> Result<Option<(Vec<u8>, u64)>> {
    let failed = |error: std::io::Error| Error::unavailable(format!("the log {} can't be read: {error}", path.display()));
    let mut file = match tokio::fs::File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let total = file.metadata().await.map_err(failed)?.len();
    let length = total.min(tail);
    file.seek(SeekFrom::Start(total - length)).await.map_err(failed)?;
    let mut bytes = Vec::new();
    // The log may grow while it is read.
    file.take(length).read_to_end(&mut bytes).await.map_err(failed)?;
    Ok(Some((bytes, total)))
}

/// `bytes` from the first line that begins in them; a line that is longer than all of them is cut at a character.
fn from_line(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if end + 1 < bytes.len() => &bytes[end + 1..],
        _ => {
            let inside = bytes.iter().take(4).take_while(|byte| **byte & 0xC0 == 0x80).count();
            &bytes[inside..]
        }
    }
}

/// The end of `log` that takes no more than a small answer as JSON, cut at a line where it has lines.
fn fitting(log: String) -> String {
    let mut room = SMALL;
    let mut start = log.len();
    for (at, c) in log.char_indices().rev() {
        let cost = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        if cost > room {
            return String::from_utf8_lossy(from_line(&log.as_bytes()[start..])).into_owned();
        }
        room -= cost;
        start = at;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_with_a_line() {
        assert_eq!(from_line(b"lf\nwhole\nlast\n"), b"whole\nlast\n");
        assert_eq!(from_line("é no line".as_bytes().get(1..).unwrap()), b" no line");
        assert_eq!(from_line(b"cut\n"), b"cut\n");
    }

    #[test]
    fn a_default_log_stays_small_however_it_is_escaped() {
        let log: String = "\u{1b}[0m\"quoted\"\n".repeat(900);
        let short = fitting(log.clone());
        assert!(serde_json::to_string(&short).unwrap().len() <= SMALL + 2);
        assert!(log.ends_with(&short) && short.starts_with('\u{1b}'));
        assert_eq!(fitting("short\n".into()), "short\n");
    }
}
