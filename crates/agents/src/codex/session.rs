//! The conversation's state: the handshake, prompts one after another, steering, approvals, cancelling.

use super::approval::{self, Open};
use super::items::Items;
use super::{Settings, fault};
use crate::contract::{Answer, Command, Event, TurnEnd, TurnStop};
use crate::cut::{self, Tail};
use crate::dialogue::{CANCEL_LIMIT, Dialogue, Fate, Out};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use taskyard_domain::transcript::{Item, Usage};
use tokio::time::Instant;

/// Notifications that say nothing a reader of the transcript needs.
const QUIET: &[&str] = &[
    "account/",
    "app/",
    "fs/",
    "fuzzyFileSearch/",
    "hook/",
    "item/",
    "mcpServer/",
    "model/",
    "modelProvider/",
    "process/",
    "project/",
    "rawResponse",
    "remoteControl/",
    "skills/",
    "thread/",
    "turn/",
    "windows",
];

/// A request of ours that waits for its response.
enum Waiting {
    Initialize,
    Resume,
    Start,
    Turn,
    Steer(String),
    Interrupt,
}

/// A turn that runs.
#[derive(Default)]
struct Turn {
    /// Codex's id of it, once it said so.
    id: Option<String>,
    /// Steering that waits for the id.
    steering: Vec<String>,
    /// Set by a cancel: when the process is ended if the turn still runs.
    cancel: Option<Instant>,
    errors: Vec<String>,
    last: Tail,
    last_id: String,
}

/// One conversation with Codex.
pub(super) struct Session {
    settings: Settings,
    thread: Option<String>,
    requests: i64,
    waiting: BTreeMap<i64, Waiting>,
    turn: Option<Turn>,
    prompts: VecDeque<String>,
    approvals: BTreeMap<String, Open>,
    /// Changes of the file changes that run, by their item: approvals name only the item.
    changes: BTreeMap<String, Value>,
    items: Items,
    /// Tokens that an earlier process used in this conversation.
    before: Option<(i64, i64)>,
    turns: i64,
    windows: Value,
}

impl Session {
    /// A conversation that isn't open yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            thread: None,
            requests: 0,
            waiting: BTreeMap::new(),
            turn: None,
            prompts: VecDeque::new(),
            approvals: BTreeMap::new(),
            changes: BTreeMap::new(),
            items: Items::default(),
            before: None,
            turns: 0,
            windows: Value::Null,
        }
    }

    fn call(&mut self, method: &str, params: &Value, waiting: Waiting, out: &mut Out) {
        self.requests += 1;
        self.waiting.insert(self.requests, waiting);
        out.line(&json!({ "id": self.requests, "method": method, "params": params }));
    }

    fn open(&mut self, out: &mut Out) {
        match self.settings.resume.clone() {
            Some(id) => {
                let mut params = self.settings.thread();
                params["threadId"] = id.into();
                params["excludeTurns"] = true.into();
                self.call("thread/resume", &params, Waiting::Resume, out);
            }
            None => self.call("thread/start", &self.settings.thread(), Waiting::Start, out),
        }
    }

    fn response(&mut self, message: &Value, out: &mut Out) {
        let Some(waiting) = message["id"].as_i64().and_then(|id| self.waiting.remove(&id)) else { return };
        let error = message.get("error").filter(|error| !error.is_null()).map(fault::words);
        let result = &message["result"];
        match (waiting, error) {
            (Waiting::Initialize, None) => {
                out.line(&json!({ "method": "initialized" }));
                self.open(out);
            }
            (Waiting::Resume, Some(why)) => {
                out.notice("warning", format!("The earlier conversation can't be taken up, a new one begins: {why}"));
                self.settings.resume = None;
                self.open(out);
            }
            (Waiting::Initialize | Waiting::Start, Some(why)) => {
                let auth = ["not logged in", "unauthorized", "login"].iter().any(|word| why.to_lowercase().contains(word));
                out.give_up(if auth { TurnStop::AuthRequired } else { TurnStop::Failed }, why);
            }
            (Waiting::Resume, None) => self.opened(result, true, out),
            (Waiting::Start, None) => self.opened(result, false, out),
            (Waiting::Turn, None) => self.turn_began(&result["turn"]["id"], out),
            (Waiting::Turn, Some(why)) => self.end_turn(TurnStop::Failed, Some(why), out),
            (Waiting::Steer(text), Some(_)) => out.events.push(Event::SteerRefused { text }),
            // An interrupt that came too late finds the turn's end on its way.
            (Waiting::Steer(_), None) | (Waiting::Interrupt, _) => {}
        }
    }

    fn opened(&mut self, result: &Value, resumed: bool, out: &mut Out) {
        let Some(id) = result["thread"]["id"].as_str() else {
            return out.give_up(TurnStop::Failed, "Codex opened no thread".into());
        };
        self.thread = Some(id.to_owned());
        self.before = (!resumed).then_some((0, 0));
        out.events.push(Event::Ready { agent_session_id: Some(id.to_owned()), resumed });
        self.begin_turn(out);
    }

    fn begin_turn(&mut self, out: &mut Out) {
        let Some(thread) = self.thread.clone().filter(|_| self.turn.is_none()) else { return };
        if let Some(text) = self.prompts.pop_front() {
            self.turn = Some(Turn::default());
            let params = json!({ "threadId": thread, "input": [{ "type": "text", "text": text }] });
            self.call("turn/start", &params, Waiting::Turn, out);
        }
    }

    fn turn_began(&mut self, id: &Value, out: &mut Out) {
        let (Some(turn), Some(id)) = (&mut self.turn, id.as_str()) else { return };
        if turn.id.is_some() {
            return;
        }
        turn.id = Some(id.to_owned());
        for text in std::mem::take(&mut turn.steering) {
            self.steer(text, out);
        }
    }

    /// An interrupt that comes before the turn really runs is lost, so it is said again when something begins.
    fn cancel_again(&mut self, out: &mut Out) {
        if self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some()) {
            self.interrupt(out);
        }
    }

    fn steer(&mut self, text: String, out: &mut Out) {
        match &mut self.turn {
            Some(Turn { id: Some(id), cancel: None, .. }) => {
                let params = json!({ "threadId": self.thread, "expectedTurnId": id, "input": [{ "type": "text", "text": text }] });
                self.call("turn/steer", &params, Waiting::Steer(text), out);
            }
            Some(Turn { id: None, cancel: None, steering, .. }) => steering.push(text),
            _ => out.events.push(Event::SteerRefused { text }),
        }
    }

    fn cancel(&mut self, out: &mut Out) {
        for open in std::mem::take(&mut self.approvals).into_values() {
            out.line(&json!({ "id": open.id, "result": open.result(&Answer::Cancelled) }));
        }
        match &mut self.turn {
            Some(turn) if turn.cancel.is_none() => {
                turn.cancel = Some(Instant::now() + CANCEL_LIMIT);
                let refused = std::mem::take(&mut turn.steering).into_iter().map(|text| Event::SteerRefused { text });
                out.events.extend(refused);
                self.interrupt(out);
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

    /// Interrupts the turn, as soon as its id is known.
    fn interrupt(&mut self, out: &mut Out) {
        if let Some(id) = self.turn.as_ref().and_then(|turn| turn.id.clone()) {
            let params = json!({ "threadId": self.thread, "turnId": id });
            self.call("turn/interrupt", &params, Waiting::Interrupt, out);
        }
    }

    fn request(&mut self, method: &str, message: &Value, out: &mut Out) {
        let (id, params) = (&message["id"], &message["params"]);
        let changes = params["itemId"].as_str().and_then(|item| self.changes.get(item));
        if let Some((permission, open)) = approval::asked(method, id, params, changes) {
            if self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some()) {
                return out.line(&json!({ "id": id, "result": open.result(&Answer::Cancelled) }));
            }
            self.approvals.insert(permission.request_id.clone(), open);
            return out.events.push(Event::Permission(permission));
        }
        match method {
            "mcpServer/elicitation/request" => {
                let (server, message) = (params["serverName"].as_str().unwrap_or_default(), params["message"].as_str().unwrap_or_default());
                out.notice("warning", format!("The MCP server {server} asked for input that Taskyard can't give: {message}"));
                out.line(&json!({ "id": id, "result": { "action": "decline" } }));
            }
            "item/tool/requestUserInput" => out.line(&json!({ "id": id, "result": { "answers": {} } })),
            _ => out.line(&json!({ "id": id, "error": { "code": -32601, "message": "not supported by this client" } })),
        }
    }

    fn notification(&mut self, method: &str, message: Value, out: &mut Out) {
        let params = &message["params"];
        // Sub-agents have threads of their own; their work is shown, their turns aren't ours.
        let ours = params["threadId"].as_str().is_none_or(|id| self.thread.as_deref() == Some(id));
        self.remember(method, params, ours);
        if ours && method == "item/started" {
            self.cancel_again(out);
        }
        match method {
            "turn/started" if ours => {
                self.turn_began(&params["turn"]["id"], out);
                self.cancel_again(out);
            }
            "turn/completed" if ours => self.turn_completed(&params["turn"], out),
            "thread/tokenUsage/updated" if ours => self.usage(params, out),
            "account/rateLimits/updated" => self.windows = params["rateLimits"].clone(),
            "serverRequest/resolved" => self.resolved(&params["requestId"], out),
            "error" => self.error(params, ours, out),
            "warning" | "guardianWarning" => out.notice("warning", params["message"].as_str().unwrap_or_default()),
            "configWarning" | "deprecationNotice" => out.notice("info", params["summary"].as_str().unwrap_or_default()),
            "mcpServer/startupStatus/updated" if params["status"] == "failed" => {
                let (name, error) = (params["name"].as_str().unwrap_or_default(), params["error"].as_str().unwrap_or_default());
                out.notice("warning", format!("Codex can't use the MCP server {name}: {}", cut::text(error, 300)));
            }
            _ if self.items.notification(method, params, out) => {}
            _ if QUIET.iter().any(|prefix| method.starts_with(prefix)) => {}
            _ => out.item(Item::Unknown { raw: cut::json(message, cut::SANE) }),
        }
    }

    /// Keeps what later messages refer to: file changes by item, the turn's last text.
    fn remember(&mut self, method: &str, params: &Value, ours: bool) {
        let item = &params["item"];
        let id = item["id"].as_str().or(params["itemId"].as_str()).unwrap_or_default();
        match (method, item["type"].as_str()) {
            ("item/started", Some("fileChange")) => drop(self.changes.insert(id.to_owned(), item["changes"].clone())),
            ("item/completed", Some("fileChange")) => drop(self.changes.remove(id)),
            _ => {}
        }
        let Some(turn) = self.turn.as_mut().filter(|_| ours) else { return };
        let text = match (method, item["type"].as_str()) {
            ("item/agentMessage/delta", _) => params["delta"].as_str(),
            ("item/completed", Some("agentMessage")) if turn.last_id != id => item["text"].as_str(),
            _ => None,
        };
        if let Some(text) = text {
            if turn.last_id != id {
                turn.last.clear();
                turn.last_id = id.to_owned();
            }
            turn.last.push(text);
        }
    }

    fn usage(&mut self, params: &Value, out: &mut Out) {
        let usage = &params["tokenUsage"];
        let of = |part: &str, key: &str| usage[part][key].as_i64().unwrap_or_default();
        let total = (of("total", "inputTokens"), of("total", "outputTokens"));
        let last = (of("last", "inputTokens"), of("last", "outputTokens"));
        // A thread that is taken up tells once more what its last turn used.
        let running = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        if self.before.is_none() && running.is_none_or(|id| params["turnId"] != id) {
            self.before = Some(total);
            return;
        }
        let before = *self.before.get_or_insert((total.0.saturating_sub(last.0), total.1.saturating_sub(last.1)));
        self.turns += 1;
        let (input_tokens, output_tokens) = (total.0.saturating_sub(before.0).max(0), total.1.saturating_sub(before.1).max(0));
        out.events.push(Event::Usage(Usage { turns: self.turns, input_tokens, output_tokens, cost_usd: None }));
    }

    fn resolved(&mut self, id: &Value, out: &mut Out) {
        let request_id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        if self.approvals.remove(&request_id).is_some() {
            out.events.push(Event::PermissionWithdrawn { request_id });
        }
    }

    fn error(&mut self, params: &Value, ours: bool, out: &mut Out) {
        let words = fault::words(&params["error"]);
        if params["willRetry"] == true {
            return out.notice("warning", words);
        }
        out.notice("error", words.clone());
        if let Some(turn) = self.turn.as_mut().filter(|turn| ours && !turn.errors.contains(&words)) {
            turn.errors.push(words);
        }
    }

    fn turn_completed(&mut self, turn: &Value, out: &mut Out) {
        // A turn that isn't the one we began (a late end of an interrupted one) ends nothing.
        let began = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        if self.turn.is_none() || began.is_some_and(|id| turn["id"] != id) {
            return;
        }
        let error = Some(&turn["error"]).filter(|error| !error.is_null());
        let stop = match turn["status"].as_str() {
            Some("completed") => TurnStop::Ended,
            Some("interrupted") => TurnStop::Cancelled,
            _ => error.map_or(TurnStop::Failed, fault::stop),
        };
        if let Some(limit) = error.filter(|_| stop != TurnStop::Cancelled).and_then(|error| fault::limit(error, &self.windows)) {
            out.events.push(Event::Limit(limit));
        }
        self.end_turn(stop, error.map(fault::words), out);
    }

    fn end_turn(&mut self, stop: TurnStop, error: Option<String>, out: &mut Out) {
        let Some(mut turn) = self.turn.take() else { return };
        if let Some(error) = error.filter(|error| !turn.errors.contains(error)) {
            turn.errors.push(error);
        }
        if stop == TurnStop::MaxTokens {
            // Codex tells the output limit as an error; with every other agent it is a way to stop.
            turn.errors.clear();
        }
        for request_id in std::mem::take(&mut self.approvals).into_keys() {
            out.events.push(Event::PermissionWithdrawn { request_id });
        }
        out.events.extend(turn.steering.into_iter().map(|text| Event::SteerRefused { text }));
        out.events.push(Event::TurnEnded(TurnEnd { stop, errors: turn.errors, last_text: turn.last.take() }));
        self.begin_turn(out);
    }
}

impl Dialogue for Session {
    fn begin(&mut self, out: &mut Out) {
        let client = json!({ "name": "taskyard", "title": "Taskyard", "version": env!("CARGO_PKG_VERSION") });
        self.call("initialize", &json!({ "clientInfo": client }), Waiting::Initialize, out);
    }

    fn line(&mut self, line: &str, out: &mut Out) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return out.notice("info", format!("Codex wrote: {}", cut::text(line, 500)));
        };
        match message["method"].as_str().map(str::to_owned) {
            Some(method) if message.get("id").is_some() => self.request(&method, &message, out),
            Some(method) => self.notification(&method, message, out),
            None => self.response(&message, out),
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
                if let Some(open) = self.approvals.remove(&request_id) {
                    out.line(&json!({ "id": open.id, "result": open.result(&answer) }));
                }
            }
            Command::CancelTurn => self.cancel(out),
            Command::Close { .. } => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.thread.is_some()
    }

    fn deadline(&self) -> Option<Instant> {
        self.turn.as_ref()?.cancel
    }

    fn overdue(&mut self, out: &mut Out) {
        out.notice("warning", "Codex didn't stop when it was asked to; its process is ended");
        out.fate = Some(Fate::End);
    }

    fn gone(&mut self, _out: &mut Out) {}
}
