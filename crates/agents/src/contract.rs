//! What the engine and the drivers say to each other.

use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::{Item, Usage};
use taskyard_process::Environment;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Everything needed to start one agent process for one session.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The protocol.
    pub driver: DriverKind,
    /// Program and arguments as configured; the driver adds what its protocol needs.
    pub command: Vec<String>,
    /// The worktree.
    pub cwd: PathBuf,
    /// Folders besides `cwd` that the agent must be able to write: the repository's git folders, so that it can commit.
    pub writable_dirs: Vec<PathBuf>,
    /// The complete environment: scrubbed base, agent's and profile's variables, `TASKYARD_*`.
    pub env: Environment,
    /// `NAME=value` in `env` that marks the process tree.
    pub marker: String,
    /// The model, where one is chosen.
    pub model: Option<String>,
    /// The agent's own mode, where one is chosen.
    pub mode: Option<String>,
    /// Largest number of turns of the agent's own loop.
    pub max_turns: Option<i64>,
    /// Added to the system prompt.
    pub system_prompt: Option<String>,
    /// The MCP servers it is given: Taskyard's own with the run's token first.
    pub mcp_servers: Vec<McpServer>,
    /// The conversation to go on with.
    pub resume: Option<Resume>,
    /// Where every byte the agent writes to standard output goes before it is parsed (append-only).
    pub raw_log: PathBuf,
    /// Told whenever it has written part of a line to standard output.
    pub heard: Heard,
    /// Where its standard error goes (append-only).
    pub stderr_log: PathBuf,
    /// Longest a line may be; a longer one is dropped with a notice that says its size.
    pub line_cap: usize,
    /// How long the handshake (up to [`Event::Ready`]) may take.
    pub start_limit: std::time::Duration,
}

/// When an agent last wrote part of a line: a sign of life that is no event yet. Clones share it.
#[derive(Debug, Clone)]
pub struct Heard(Arc<watch::Sender<Instant>>);

impl Default for Heard {
    fn default() -> Self {
        Self(Arc::new(watch::channel(Instant::now()).0))
    }
}

impl Heard {
    pub(crate) fn now(&self) {
        self.0.send_replace(Instant::now());
    }

    /// Follows it.
    pub fn listen(&self) -> watch::Receiver<Instant> {
        self.0.subscribe()
    }
}

/// A conversation the agent had before.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The agent's own id of it.
    pub agent_session_id: String,
}

/// An HTTP MCP server for the agent to connect to.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// Its name as the agent sees it.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Headers to send (the run's token).
    pub headers: Vec<(String, String)>,
    /// How long a call may be silent, seconds; given to agents whose configuration takes it.
    pub tool_timeout_s: u64,
}

/// What the engine tells a running agent.
#[derive(Debug)]
pub enum Command {
    /// Begin a turn. Every prompt ends in exactly one [`Event::TurnEnded`], or in [`Event::Exited`].
    Prompt(String),
    /// Add to the turn that runs, where the protocol can; otherwise the driver reports it back as [`Event::SteerRefused`].
    Steer(String),
    /// Answer a permission request.
    Permission {
        /// The request's id from [`Permission::request_id`].
        request_id: String,
        /// The decision.
        answer: Answer,
    },
    /// Stop the turn that runs; open permission requests are answered as cancelled. Ends in [`Event::TurnEnded`] or [`Event::Exited`].
    CancelTurn,
    /// End politely (close standard input), then by signals. Ends in [`Event::Exited`].
    Close {
        /// How long each step may take before the next stronger one.
        grace: std::time::Duration,
    },
}

/// A person's or the policy's decision on a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Allow this one; with an option id when the person chose one, else chosen by kind.
    Allow(Option<String>),
    /// Refuse this one.
    Deny {
        /// Told to the agent where the protocol can.
        reason: String,
        /// The option the person chose, if they chose one.
        option_id: Option<String>,
    },
    /// The turn is being cancelled.
    Cancelled,
}

/// A request for permission.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    /// The driver's id of the request, to answer with.
    pub request_id: String,
    /// What the agent wants to do, in words.
    pub title: String,
    /// `read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`, `think`, `mcp` or `other`.
    pub kind: String,
    /// The agent's name of the tool, where it says.
    pub tool: Option<String>,
    /// The call's arguments, cut to a sane size.
    pub input: serde_json::Value,
    /// Paths it touches, where it says.
    pub paths: Vec<PathBuf>,
    /// What can be answered; never chosen by position.
    pub options: Vec<PermissionOption>,
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// The agent's id of it.
    pub id: String,
    /// Its label.
    pub label: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

/// Everything a driver can report. Closed: the engine's actor handles each.
#[derive(Debug)]
pub enum Event {
    /// The handshake is done; prompts are taken. `resumed` is false when the old conversation couldn't be taken up.
    Ready {
        /// The agent's own id of the conversation.
        agent_session_id: Option<String>,
        /// Whether [`Launch::resume`] was honoured.
        resumed: bool,
    },
    /// Something for the transcript.
    Item(Item),
    /// The run's figures so far.
    Usage(Usage),
    /// The agent asks for permission and waits.
    Permission(Permission),
    /// The agent no longer waits for this permission.
    PermissionWithdrawn {
        /// The request's id.
        request_id: String,
    },
    /// A [`Command::Steer`] couldn't be delivered in this turn.
    SteerRefused {
        /// Its text, to be sent as the next prompt.
        text: String,
    },
    /// The account has hit a usage limit (reported beside the turn's end, which follows).
    Limit(LimitNotice),
    /// The turn is over.
    TurnEnded(TurnEnd),
    /// The process is gone; the last event. Its tree has been ended and swept.
    Exited {
        /// Exit code.
        code: Option<i32>,
        /// Ending signal.
        signal: Option<i32>,
        /// The end of its standard error.
        stderr_tail: String,
    },
}

/// A usage limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitNotice {
    /// When it ends, when the agent said so.
    pub reset_at: Option<Timestamp>,
    /// The agent's words.
    pub message: String,
}

/// How a turn ended, as far as the protocol says. Never proof of success.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// Why it stopped.
    pub stop: TurnStop,
    /// Errors seen in the stream (API error, context overflow, auth), in the agent's words.
    pub errors: Vec<String>,
    /// The last text of the turn, at most 4 KB.
    pub last_text: String,
}

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStop {
    /// The agent said it was done.
    Ended,
    /// The agent said it was done, without one word, thought or deed before. Worth believing if the work shows it.
    Silent,
    /// It was cancelled.
    Cancelled,
    /// The model's output limit.
    MaxTokens,
    /// The agent's own turn limit.
    MaxTurns,
    /// The model refused.
    Refused,
    /// The agent reported an error (see [`TurnEnd::errors`]).
    Failed,
    /// Not logged in, or the key is wrong.
    AuthRequired,
}

/// A running agent.
#[derive(Debug)]
pub struct Handle {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot; with the pid it names the process for good.
    pub start_time: u64,
    /// To the agent.
    pub commands: mpsc::UnboundedSender<Command>,
    /// From the agent; ends after [`Event::Exited`]. Bounded, so a slow reader slows the agent and memory stays bounded.
    pub events: mpsc::Receiver<Event>,
}

/// The agent couldn't be started at all (later failures are events).
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No program was configured.
    #[error("the agent has no command")]
    NoCommand,
    /// The process couldn't be spawned.
    #[error(transparent)]
    Spawn(#[from] taskyard_process::Error),
    /// A log file couldn't be opened.
    #[error("can't open the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A configuration file for the agent couldn't be written.
    #[error("can't write {}: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
}
