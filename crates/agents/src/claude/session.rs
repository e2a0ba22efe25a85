//! The conversation's state: prompts one after another, steering, open permission requests, cancelling.
//!
//! Claude takes user messages at any time and says with a replay when it has read one. A turn is over with
//! the first `result` by which every message sent was read: a message that comes too late for a turn makes
//! Claude begin another one by itself, which still belongs to the same prompt.

use super::{permission, stream};
use crate::contract::{Answer, Command, Event, LimitNotice, TurnEnd, TurnStop};
use crate::cut::Tail;
use crate::dialogue::{CANCEL_LIMIT, Dialogue, Fate, Out};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use taskyard_domain::transcript::Usage;
use tokio::time::Instant;

/// How long Claude may take to begin with a message that a finished turn has left over.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(5);

/// One conversation with Claude.
pub(super) struct Session {
    /// Claude's id of it.
    pub id: String,
    /// Whether it is an earlier one, as far as is known.
    pub resume: bool,
    ready: bool,
    requests: u64,
    pub(super) turn: Option<Turn>,
    prompts: VecDeque<String>,
    permissions: BTreeMap<String, Value>,
    turns: i64,
    /// The limit's end, when Claude told of it outside of a result.
    pub(super) limit: Option<Option<Timestamp>>,
    /// MCP servers whose failure was told.
    pub(super) told: BTreeSet<String>,
}

/// A turn that runs.
#[derive(Default)]
pub(super) struct Turn {
    /// Messages that Claude hasn't read yet.
    unread: VecDeque<Unread>,
    /// Set by a cancel: when the process is ended if the turn still runs.
    cancel: Option<Instant>,
    /// The end that a result told of while messages were unread, and how long it is held back.
    held: Option<(TurnEnd, Instant)>,
    pub(super) last: Tail,
    pub(super) last_id: String,
}

/// A message that was sent and not yet read.
struct Unread {
    text: String,
    steers: bool,
}

impl Session {
    /// A new conversation, or the one with this id.
    pub fn new(resume: Option<String>) -> Self {
        Self {
            resume: resume.is_some(),
            id: resume.unwrap_or_else(new_id),
            ready: false,
            requests: 0,
            turn: None,
            prompts: VecDeque::new(),
            permissions: BTreeMap::new(),
            turns: 0,
            limit: None,
            told: BTreeSet::new(),
        }
    }

    /// Whether the running turn is being cancelled.
    pub(super) fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some())
    }

    fn request(&mut self, request: &Value, out: &mut Out) {
        self.requests += 1;
        out.line(&json!({ "type": "control_request", "request_id": format!("taskyard-{}", self.requests), "request": request }));
    }

    fn say(&mut self, text: String, steers: bool, out: &mut Out) {
        out.line(&json!({
            "type": "user",
            "message": { "role": "user", "content": text },
            "parent_tool_use_id": null,
            "session_id": self.id,
        }));
        if let Some(turn) = &mut self.turn {
            turn.unread.push_back(Unread { text, steers });
        }
    }

    fn begin_turn(&mut self, out: &mut Out) {
        if !self.ready || self.turn.is_some() {
            return;
        }
        if let Some(text) = self.prompts.pop_front() {
            self.turn = Some(Turn::default());
            self.say(text, false, out);
        }
    }

    fn steer(&mut self, text: String, out: &mut Out) {
        let takes = self.turn.as_ref().is_some_and(|turn| turn.cancel.is_none() && turn.held.is_none());
        if takes { self.say(text, true, out) } else { out.events.push(Event::SteerRefused { text }) }
    }

    fn cancel(&mut self, out: &mut Out) {
        for (request_id, request) in std::mem::take(&mut self.permissions) {
            out.line(&permission::response(&request_id, &request, &Answer::Cancelled));
        }
        match &mut self.turn {
            Some(turn) if turn.cancel.is_none() => {
                turn.cancel = Some(Instant::now() + CANCEL_LIMIT);
                self.request(&json!({ "subtype": "interrupt" }), out);
            }
            Some(_) => {}
            None => {
                if self.prompts.pop_front().is_some() {
                    let end = TurnEnd { stop: TurnStop::Cancelled, errors: Vec::new(), last_text: String::new() };
                    out.events.push(Event::TurnEnded(end));
                }
            }
        }
    }

    fn control_response(&mut self, response: &Value, out: &mut Out) {
        // The first request is `initialize`; the answers to interrupts say nothing that the result doesn't.
        if self.ready || response["request_id"] != "taskyard-1" {
            return;
        }
        if response["subtype"] == "error" {
            let why = response["error"].as_str().unwrap_or("initialize was refused").to_owned();
            return self.handshake_failed(why, out);
        }
        self.ready = true;
        out.events.push(Event::Ready { agent_session_id: Some(self.id.clone()), resumed: self.resume });
        self.begin_turn(out);
    }

    fn handshake_failed(&mut self, why: String, out: &mut Out) {
        if self.resume {
            return self.start_anew(&why, out);
        }
        let stop = if stream::is_auth(&why) { TurnStop::AuthRequired } else { TurnStop::Failed };
        out.give_up(stop, why);
    }

    fn start_anew(&mut self, why: &str, out: &mut Out) {
        out.notice("warning", format!("The earlier conversation can't be taken up, a new one begins: {why}"));
        (self.id, self.resume, self.requests) = (new_id(), false, 0);
        out.fate = Some(Fate::Restart);
    }

    fn control_request(&mut self, message: &Value, out: &mut Out) {
        let id = message["request_id"].as_str().unwrap_or_default();
        let request = &message["request"];
        if request["subtype"] != "can_use_tool" {
            out.line(&json!({
                "type": "control_response",
                "response": { "subtype": "error", "request_id": id, "error": "not supported by this client" },
            }));
            return;
        }
        if self.is_cancelling() {
            out.line(&permission::response(id, request, &Answer::Cancelled));
            return;
        }
        self.permissions.insert(id.to_owned(), request.clone());
        out.events.push(Event::Permission(permission::asked(id, request)));
    }

    fn user(&mut self, message: &Value, out: &mut Out) {
        if message["isReplay"] != true {
            return stream::tool_results(message, out);
        }
        let Some(turn) = &mut self.turn else { return };
        let text = message["message"]["content"].as_str().unwrap_or_default();
        let at = turn.unread.iter().position(|unread| unread.text == text).unwrap_or(0);
        turn.unread.remove(at);
    }

    fn result(&mut self, message: &Value, out: &mut Out) {
        if !self.ready {
            return self.handshake_failed(stream::errors(message).join("; "), out);
        }
        self.turns = self.turns.saturating_add(message["num_turns"].as_i64().unwrap_or_default());
        out.events.push(Event::Usage(usage(message, self.turns)));
        let Some(turn) = &mut self.turn else { return };
        let end = stream::end(message, turn.cancel.is_some(), turn.last.take());
        if let Some(limit) = limit(message, &end, self.limit.take()) {
            out.events.push(Event::Limit(limit));
        }
        if turn.unread.is_empty() {
            self.end_turn(end, out);
        } else {
            turn.held = Some((end, Instant::now() + LEFTOVER_LIMIT));
        }
    }

    fn end_turn(&mut self, end: TurnEnd, out: &mut Out) {
        for request_id in std::mem::take(&mut self.permissions).into_keys() {
            out.events.push(Event::PermissionWithdrawn { request_id });
        }
        self.turn = None;
        out.events.push(Event::TurnEnded(end));
        self.begin_turn(out);
    }

    /// Claude begins a turn of its own loop: what was held back goes on, what was cancelled is cancelled again.
    fn turn_began(&mut self, out: &mut Out) {
        let Some(turn) = &mut self.turn else { return };
        turn.held = None;
        if turn.cancel.is_some() {
            self.request(&json!({ "subtype": "interrupt" }), out);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "names a conversation for Claude; nothing of Taskyard's has this id")]
fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn usage(result: &Value, turns: i64) -> Usage {
    let models = result["modelUsage"].as_object();
    let sum = |keys: &[&str]| -> i64 {
        let figures = models.into_iter().flat_map(|models| models.values()).flat_map(|model| keys.iter().map(|key| model[*key].as_i64()));
        figures.flatten().fold(0, i64::saturating_add)
    };
    Usage {
        turns,
        input_tokens: sum(&["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]),
        output_tokens: sum(&["outputTokens"]),
        cost_usd: result["total_cost_usd"].as_f64(),
    }
}

/// The usage limit that a failed turn tells of.
fn limit(result: &Value, end: &TurnEnd, told: Option<Option<Timestamp>>) -> Option<LimitNotice> {
    if result["is_error"] != true || end.stop == TurnStop::Cancelled {
        return None;
    }
    let text = end.errors.join("; ");
    let sure = result["api_error_status"] == 429 || told.is_some();
    let mut notice = if sure { crate::limits::certain(&text) } else { crate::limits::notice(&text)? };
    notice.reset_at = told.flatten().or(notice.reset_at);
    Some(notice)
}

impl Dialogue for Session {
    fn begin(&mut self, out: &mut Out) {
        self.request(&json!({ "subtype": "initialize" }), out);
    }

    fn line(&mut self, line: &str, out: &mut Out) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return out.notice("info", format!("Claude wrote: {}", crate::cut::text(line, 500)));
        };
        match message["type"].as_str().unwrap_or_default() {
            "control_request" => self.control_request(&message, out),
            "control_response" => self.control_response(&message["response"], out),
            "control_cancel_request" => {
                let request_id = message["request_id"].as_str().unwrap_or_default().to_owned();
                if self.permissions.remove(&request_id).is_some() {
                    out.events.push(Event::PermissionWithdrawn { request_id });
                }
            }
            "user" => self.user(&message, out),
            "result" => self.result(&message, out),
            "system" if message["subtype"] == "init" => {
                self.turn_began(out);
                stream::servers(self, &message, out);
            }
            _ => stream::message(self, message, out),
        }
    }

    fn command(&mut self, command: Command, out: &mut Out) {
        match command {
            Command::Prompt(text) => {
                self.prompts.push_back(text);
                self.begin_turn(out);
            }
            Command::Steer(text) => self.steer(text, out),
            Command::Permission { request_id, answer } => {
                // One that was withdrawn needs no answer any more.
                if let Some(request) = self.permissions.remove(&request_id) {
                    out.line(&permission::response(&request_id, &request, &answer));
                }
            }
            Command::CancelTurn => self.cancel(out),
            Command::Close { .. } => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn deadline(&self) -> Option<Instant> {
        let turn = self.turn.as_ref()?;
        turn.held.as_ref().map(|(_, deadline)| *deadline).into_iter().chain(turn.cancel).min()
    }

    fn overdue(&mut self, out: &mut Out) {
        let Some(turn) = &mut self.turn else { return };
        let unread = std::mem::take(&mut turn.unread);
        if let Some((end, _)) = turn.held.take() {
            let steering = unread.into_iter().filter(|unread| unread.steers);
            out.events.extend(steering.map(|unread| Event::SteerRefused { text: unread.text }));
            return self.end_turn(end, out);
        }
        out.notice("warning", "Claude didn't stop when it was asked to; its process is ended");
        out.fate = Some(Fate::End);
    }

    fn gone(&mut self, out: &mut Out) {
        if !self.ready && self.resume {
            self.start_anew("Claude ended while it was loaded", out);
        }
    }
}
