//! Driver for any command that reads a prompt on standard input and exits.
//!
//! One prompt per process: it is written, standard input is closed, every line of output is text, and the
//! exit code says how the turn ended. Nothing can be resumed, steered or asked.

use crate::contract::{Command, Event, Handle, Launch, StartError, TurnEnd, TurnStop};
use crate::cut::Tail;
use crate::dialogue::GRACE;
use crate::emit::Emitter;
use crate::frame::Frame;
use crate::limits;
use crate::process::{self, Started};
use taskyard_domain::transcript::Item;
use tokio::sync::mpsc;

/// Starts the command; it waits for its prompt.
///
/// # Errors
/// [`StartError`]: no command, it can't be started, a log can't be opened.
pub fn start(launch: Launch) -> Result<Handle, StartError> {
    let started = process::start(&launch, &[])?;
    let (emitter, events) = Emitter::new();
    let (tx, commands) = mpsc::unbounded_channel();
    let handle = Handle { pid: started.pid, start_time: started.start_time, commands: tx, events };
    let exec = Exec { emitter, commands, preface: launch.system_prompt, turn: None, last: Tail::default() };
    tokio::spawn(exec.run(started));
    Ok(handle)
}

struct Exec {
    emitter: Emitter,
    commands: mpsc::UnboundedReceiver<Command>,
    preface: Option<String>,
    /// Once prompted: whether the turn was cancelled.
    turn: Option<bool>,
    last: Tail,
}

impl Exec {
    async fn run(mut self, mut started: Started) {
        self.emitter.send(Event::Ready { agent_session_id: None, resumed: false }).await;
        let mut ending = false;
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv(), if !ending => match command {
                    Some(Command::Close { grace }) => { started.control.end(grace); ending = true; }
                    Some(command) => self.command(command, &started).await,
                    None => { started.control.end(GRACE); ending = true; }
                },
                frame = started.stdout.next() => match frame {
                    Some(frame) => self.frame(frame).await,
                    None => break,
                },
                () = self.emitter.closed(), if !ending => { started.control.end(GRACE); ending = true; }
            }
        }
        self.wait_for_exit(&started).await;
    }

    async fn command(&mut self, command: Command, started: &Started) {
        match command {
            Command::Prompt(text) if self.turn.is_none() => {
                let preface = self.preface.take().map(|preface| preface + "\n\n").unwrap_or_default();
                started.stdin.bytes((preface + &text).into_bytes());
                started.stdin.close();
                self.turn = Some(false);
            }
            Command::Steer(text) => {
                self.emitter.send(Event::SteerRefused { text }).await;
            }
            Command::CancelTurn if self.turn.is_some() => {
                self.turn = Some(true);
                started.control.end(GRACE);
            }
            // A later prompt ends in the exit of this process; nothing asks, nothing else can be cancelled.
            Command::Prompt(_) | Command::CancelTurn | Command::Permission { .. } | Command::Close { .. } => {}
        }
    }

    async fn frame(&mut self, frame: Frame) {
        let notice = frame.notice();
        let item = match (frame, notice) {
            (Frame::Line(line), _) => {
                let text = line + "\n";
                self.last.push(&text);
                Item::Text { message_id: "output".into(), text }
            }
            (_, Some(notice)) => notice,
            (_, None) => return,
        };
        self.emitter.item(item).await;
    }

    /// A command may close its output and work on: it is waited for, and can still be told to end.
    async fn wait_for_exit(mut self, started: &Started) {
        let mut listening = true;
        let exited = loop {
            tokio::select! {
                exited = started.control.exited() => break exited,
                command = self.commands.recv(), if listening => match command {
                    Some(Command::Close { grace }) => started.control.end(grace),
                    Some(command) => self.command(command, started).await,
                    None => { started.control.end(GRACE); listening = false; }
                },
            }
        };
        if let (Some(cancelled), Event::Exited { code, signal, stderr_tail }) = (self.turn, &exited) {
            let last_text = self.last.take();
            let end = ended(cancelled, *code, *signal, stderr_tail, last_text);
            let words = end.errors.iter().map(String::as_str).chain([end.last_text.as_str()]);
            let limit = (end.stop == TurnStop::Failed).then(|| words.filter_map(limits::notice).next()).flatten();
            if let Some(limit) = limit {
                self.emitter.send(Event::Limit(limit)).await;
            }
            self.emitter.send(Event::TurnEnded(end)).await;
        }
        self.emitter.send(exited).await;
    }
}

fn ended(cancelled: bool, code: Option<i32>, signal: Option<i32>, stderr: &str, last_text: String) -> TurnEnd {
    let (stop, errors) = match (cancelled, code, signal) {
        (true, ..) => (TurnStop::Cancelled, Vec::new()),
        (_, Some(0), _) => (TurnStop::Ended, Vec::new()),
        (_, code, signal) => {
            let how = match (code, signal) {
                (Some(code), _) => format!("the command exited with {code}"),
                (None, Some(signal)) => format!("the command was ended by signal {signal}"),
                (None, None) => "the command is gone".to_owned(),
            };
            let said = (!stderr.is_empty()).then(|| stderr.to_owned());
            (TurnStop::Failed, [how].into_iter().chain(said).collect())
        }
    };
    TurnEnd { stop, errors, last_text }
}
