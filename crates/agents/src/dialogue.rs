//! The loop that the line-based vendor drivers share: commands in, lines out, lines in, events out.
//!
//! A [`Dialogue`] knows one protocol and holds all of a conversation's state; it never waits and does no
//! input or output, so that it can be tested with recorded lines. This loop owns the process.

use crate::contract::{Command, Event, TurnEnd, TurnStop};
use crate::emit::Emitter;
use crate::frame::Frame;
use crate::process::Started;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long each step of ending the process may take when nobody said.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How long an agent may take to end a turn that was cancelled, before its process is ended.
pub(crate) const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// What a protocol wants done.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// Lines for the agent's standard input.
    pub lines: Vec<String>,
    /// News for the engine, sent after the lines.
    pub events: Vec<Event>,
    /// What becomes of the process.
    pub fate: Option<Fate>,
}

/// What a protocol wants to become of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is ended; the conversation is over.
    End,
    /// It is ended and the same conversation goes on in a new one.
    Restart,
}

impl Out {
    /// One more line to send.
    pub fn line(&mut self, json: &serde_json::Value) {
        self.lines.push(json.to_string());
    }

    /// A transcript item.
    pub fn item(&mut self, item: taskyard_domain::transcript::Item) {
        self.events.push(Event::Item(item));
    }

    /// A notice; `level` is `info`, `warning` or `error`.
    pub fn notice(&mut self, level: &str, text: impl Into<String>) {
        self.item(taskyard_domain::transcript::Item::Notice { level: level.into(), text: text.into() });
    }

    /// The handshake failed: one turn's end says why, then the process is ended.
    pub fn give_up(&mut self, stop: TurnStop, why: String) {
        if let Some(limit) = crate::limits::notice(&why) {
            self.events.push(Event::Limit(limit));
        }
        self.events.push(Event::TurnEnded(TurnEnd { stop, errors: vec![why], last_text: String::new() }));
        self.fate = Some(Fate::End);
    }
}

/// One protocol's side of a conversation.
pub(crate) trait Dialogue: Send + 'static {
    /// The process has started: the first lines.
    fn begin(&mut self, out: &mut Out);
    /// A line from the agent.
    fn line(&mut self, line: &str, out: &mut Out);
    /// A command other than `Close`, which the loop sees to.
    fn command(&mut self, command: Command, out: &mut Out);
    /// Whether the handshake is done.
    fn is_ready(&self) -> bool;
    /// When [`Dialogue::overdue`] is to be called.
    fn deadline(&self) -> Option<Instant>;
    /// The deadline is over.
    fn overdue(&mut self, out: &mut Out);
    /// The agent's output is over and nobody asked for it; a restart may be wanted.
    fn gone(&mut self, out: &mut Out);
}

/// How a process's part in a conversation was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// [`Event::Exited`] was sent.
    Exited,
    /// The process is gone and another one is wanted.
    Restart,
}

/// Holds the conversation with one process, to its end.
pub(crate) async fn hold(
    dialogue: &mut impl Dialogue,
    mut started: Started,
    commands: &mut mpsc::UnboundedReceiver<Command>,
    emitter: &Emitter,
    start_limit: Duration,
) -> Over {
    let start_deadline = Instant::now() + start_limit;
    let mut out = Out::default();
    let mut ending = false;
    dialogue.begin(&mut out);
    loop {
        let fate = flush(&mut out, &started, emitter).await;
        if fate.is_some() {
            started.control.end(GRACE);
            ending = true;
        }
        if fate == Some(Fate::Restart) {
            started.control.exited().await;
            return Over::Restart;
        }
        let start_deadline = (!dialogue.is_ready() && !ending).then_some(start_deadline);
        tokio::select! {
            biased;
            command = commands.recv(), if !ending => match command {
                Some(Command::Close { grace }) => { started.control.end(grace); ending = true; }
                Some(command) => dialogue.command(command, &mut out),
                None => out.fate = Some(Fate::End),
            },
            frame = started.stdout.next() => match frame {
                Some(Frame::Line(line)) => dialogue.line(&line, &mut out),
                Some(other) => out.events.extend(other.notice().map(Event::Item)),
                None => break,
            },
            () = sleep_until(start_deadline) => {
                out.give_up(TurnStop::Failed, format!("the agent wasn't ready within {start_limit:?}"));
            }
            () = sleep_until(dialogue.deadline()), if !ending => dialogue.overdue(&mut out),
            () = emitter.closed(), if !ending => out.fate = Some(Fate::End),
        }
    }
    // Without output there is no conversation; usually the process is gone already.
    started.control.end(GRACE);
    if !ending {
        dialogue.gone(&mut out);
        if flush(&mut out, &started, emitter).await == Some(Fate::Restart) {
            started.control.exited().await;
            return Over::Restart;
        }
    }
    let exited = started.control.exited().await;
    emitter.send(exited).await;
    Over::Exited
}

async fn flush(out: &mut Out, started: &Started, emitter: &Emitter) -> Option<Fate> {
    for line in out.lines.drain(..) {
        started.stdin.line(&line);
    }
    for event in out.events.drain(..) {
        emitter.send(event).await;
    }
    out.fate.take()
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
