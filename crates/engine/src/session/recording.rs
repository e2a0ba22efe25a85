//! Records a run: the transcript in batches, the log for people line by line, usage and activity.
//!
//! Deltas of one message are joined while a batch gathers; a batch is written after 50 ms or 256 KB. The
//! event that tells boards about it is written at most four times a second.

use crate::Engine;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use taskyard_domain::Result;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RunId, SessionId};
use taskyard_domain::run::Run;
use taskyard_domain::transcript::{Item, Usage};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

const BATCH_TIME: Duration = Duration::from_millis(50);
const BATCH_BYTES: usize = 256 << 10;
const EVENT_PAUSE: Duration = Duration::from_millis(250);

/// The recorder of one run.
pub(super) struct Recorder {
    engine: Engine,
    run_id: RunId,
    session_id: SessionId,
    log: Option<File>,
    /// What goes into the log with the next batch: each write of its own would cost a thread.
    lines: String,
    /// Whether the log's last line is unfinished agent text.
    in_text: Option<String>,
    batch: Vec<Item>,
    bytes: usize,
    due: Option<Instant>,
    told: Option<Instant>,
    usage: Option<Usage>,
    /// Whether the agent has said or done something that isn't written down on its run yet.
    heard: bool,
}

impl Recorder {
    /// A recorder that appends to the run's log file. A log that can't be opened is reported once and does without.
    pub(super) async fn open(engine: &Engine, run_id: RunId, session_id: SessionId) -> Self {
        let path = engine.paths().run_log(run_id);
        let log = match open_log(&path).await {
            Ok(file) => Some(file),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the run's log can't be opened");
                None
            }
        };
        Self {
            engine: engine.clone(),
            run_id,
            session_id,
            log,
            lines: String::new(),
            in_text: None,
            batch: Vec::new(),
            bytes: 0,
            due: None,
            told: None,
            usage: None,
            heard: false,
        }
    }

    /// When the batch that gathers must be written.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes an item in; writes the batch when it is full.
    pub(super) async fn item(&mut self, item: Item) -> Result<()> {
        self.log_item(&item);
        self.bytes += size(&item);
        if let Some(rest) = self.batch.last_mut().map_or(Some(item.clone()), |last| join(last, item)) {
            self.batch.push(rest);
        }
        self.due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
        if self.bytes >= BATCH_BYTES { self.flush(false).await } else { Ok(()) }
    }

    /// The agent has spoken: written with the next batch, soon when the run counts as `stalled`.
    pub(super) fn heard(&mut self, stalled: bool) {
        self.heard = true;
        if stalled {
            self.due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
        }
    }

    /// A sentence of Taskyard's own for transcript and log.
    pub(super) async fn notice(&mut self, level: &str, text: impl Into<String>) -> Result<()> {
        self.item(Item::Notice { level: level.into(), text: text.into() }).await
    }

    /// Takes the run's figures in; they are written with the next batch.
    pub(super) fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
        self.due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
    }

    /// Writes what has gathered. `last` also tells subscribers, whatever the time.
    pub(super) async fn flush(&mut self, last: bool) -> Result<()> {
        self.due = None;
        self.bytes = 0;
        let lines = std::mem::take(&mut self.lines);
        if let Some(log) = self.log.as_mut().filter(|_| !lines.is_empty()) {
            // The log is for people; the transcript holds the same, so a full disk here isn't fatal.
            let _ = log.write_all(lines.as_bytes()).await;
            let _ = log.flush().await;
        }
        if self.batch.is_empty() && self.usage.is_none() && !self.heard {
            return Ok(());
        }
        let now = Instant::now();
        let tell = last || self.told.is_none_or(|told| now - told >= EVENT_PAUSE);
        if tell {
            self.told = Some(now);
        }
        let (items, usage, heard) = (std::mem::take(&mut self.batch), self.usage.take(), std::mem::take(&mut self.heard));
        let (run_id, session_id) = (self.run_id, self.session_id);
        self.engine
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let seq = if items.is_empty() { None } else { Some(tx.transcript_append(session_id, run_id, &items).await?) };
                    let Some(mut run) = tx.run_lock(run_id).await?.filter(Run::is_open) else { return Ok(()) };
                    tx.bookkeeping();
                    run.usage = usage.unwrap_or(run.usage);
                    if heard {
                        run.last_activity_at = tx.now();
                    }
                    if heard && run.stalled {
                        run.stalled = false;
                        super::slot::store(tx, &run).await?;
                    } else {
                        tx.run_update(&run).await?;
                    }
                    if let (true, Some(seq)) = (tell, seq) {
                        let event = NewEvent::new(run.workspace_id, Kind::TranscriptAdvanced).task(run.task_id).run(run_id);
                        tx.event(event.session(Some(session_id)).data(json!({ "transcript_seq": seq })));
                    }
                    Ok(())
                })
            })
            .await
    }

    fn log_item(&mut self, item: &Item) {
        let (text, continues) = match item {
            Item::Text { message_id, text } => (text.clone(), Some(format!("text {message_id}"))),
            Item::Thought { message_id, text } => (text.clone(), Some(format!("thought {message_id}"))),
            Item::Prompt { text } => (format!(">>> {text}\n"), None),
            Item::ToolCall { title, kind, .. } => (format!("[{kind}] {title}\n"), None),
            Item::ToolUpdate { status, output, .. } => (tool_line(status, output.as_deref()), None),
            Item::Plan { entries } => (entries.iter().map(|e| format!("[plan] {} {}\n", e.status, e.text)).collect(), None),
            Item::Notice { level, text } => (format!("[{level}] {text}\n"), None),
            Item::Unknown { .. } => return,
        };
        let breaks = self.in_text.is_some() && self.in_text != continues;
        self.in_text = continues;
        if breaks {
            self.lines.push('\n');
        }
        self.lines.push_str(&text);
    }
}

fn tool_line(status: &str, output: Option<&str>) -> String {
    match output.map(str::trim_end).filter(|o| !o.is_empty()) {
        Some(output) => format!("[{status}] {output}\n"),
        None => String::new(),
    }
}

async fn open_log(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    tokio::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).await
}

fn size(item: &Item) -> usize {
    match item {
        Item::Text { text, .. } | Item::Thought { text, .. } | Item::Prompt { text } | Item::Notice { text, .. } => text.len(),
        Item::ToolUpdate { output, .. } => output.as_ref().map_or(64, String::len),
        Item::ToolCall { .. } | Item::Plan { .. } | Item::Unknown { .. } => 1024,
    }
}

/// Joins a delta to the last item when both belong to one message; gives it back otherwise.
fn join(last: &mut Item, next: Item) -> Option<Item> {
    match (last, next) {
        (Item::Text { message_id: a, text: have }, Item::Text { message_id: b, text }) if *a == b => {
            have.push_str(&text);
            None
        }
        (Item::Thought { message_id: a, text: have }, Item::Thought { message_id: b, text }) if *a == b => {
            have.push_str(&text);
            None
        }
        (_, next) => Some(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_of_one_message_are_joined() {
        let text = |id: &str, text: &str| Item::Text { message_id: id.into(), text: text.into() };
        let mut last = text("a", "one ");
        assert_eq!(join(&mut last, text("a", "two")), None);
        assert_eq!(last, text("a", "one two"));
        assert_eq!(join(&mut last, text("b", "three")), Some(text("b", "three")));
    }
}
