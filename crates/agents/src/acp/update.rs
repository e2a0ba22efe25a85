//! `session/update` → transcript items, without typed parsing: an update of a kind this version doesn't
//! know is kept whole, a malformed one costs nothing but itself.

use super::ask;
use crate::cut;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use taskyard_domain::transcript::{Item, PlanEntry};

/// Tool calls whose titles are remembered.
const REMEMBERED: usize = 512;

/// What an update means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meaning {
    /// For the transcript.
    Item(Item),
    /// Cost of the conversation so far in US dollars.
    Cost(f64),
    /// Whether the turn that runs is broken, said beside its messages: it will end as if it were done.
    Broken(bool),
    /// The account's usage limit is reached; when it ends, if that is said.
    Limited(Option<Timestamp>),
}

/// A tool call as far as the agent told.
#[derive(Debug, Clone, Default, PartialEq)]
struct Call {
    title: String,
    kind: String,
    input: Value,
    status: String,
}

/// Gives messages ids where the agent gives none, and remembers tool calls.
#[derive(Debug)]
pub(super) struct Normaliser {
    prefix: String,
    messages: u64,
    /// The stretch of text that runs: what it is, the agent's id of it, ours.
    open: Option<(&'static str, Option<String>, String)>,
    calls: HashMap<String, Call>,
    order: VecDeque<String>,
}

impl Normaliser {
    /// Its message ids begin with `prefix`.
    pub fn new(prefix: String) -> Self {
        Self { prefix, messages: 0, open: None, calls: HashMap::new(), order: VecDeque::new() }
    }

    /// The next text belongs to a new message.
    pub fn break_message(&mut self) {
        self.open = None;
    }

    /// What `update` (the object with `sessionUpdate`) means.
    pub fn read(&mut self, update: &Value) -> Vec<Meaning> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.chunk("t", update),
            "agent_thought_chunk" => self.chunk("r", update),
            "tool_call" | "tool_call_update" => self.tool_call(update),
            "plan" => self.other(plan(&update["entries"])),
            "notice" => self.other(notice(update)),
            "usage_update" => {
                let limit = claude_limit(&update["_meta"]["_claude/rateLimit"]);
                cost(update).map(Meaning::Cost).into_iter().chain(limit.map(Meaning::Limited)).collect()
            }
            "current_mode_update" => {
                let mode = update["currentModeId"].as_str().or(update["modeId"].as_str()).unwrap_or("unknown");
                self.other(Item::Notice { level: "info".into(), text: format!("The agent is in mode {mode}") })
            }
            // An echo of the prompt and news that only an editor shows.
            "user_message_chunk" | "available_commands_update" | "config_option_update" => Vec::new(),
            "session_info_update" => codex_news(&update["_meta"]["codex"]),
            _ => self.other(Item::Unknown { raw: cut::json(update.clone(), cut::SANE) }),
        }
    }

    /// Adds to a permission request what is known of its tool call but not said again, and how it was announced.
    pub fn enrich(&self, params: &mut Value) {
        let Some(call) = params["toolCall"]["toolCallId"].as_str().and_then(|id| self.calls.get(id)) else { return };
        let known = [("title", json!(call.title)), ("kind", json!(call.kind)), ("rawInput", call.input.clone())];
        if let Some(fields) = params["toolCall"].as_object_mut() {
            for (name, value) in known {
                if fields.get(name).is_none_or(Value::is_null) && value != Value::Null && value != "" {
                    fields.insert(name.to_owned(), value);
                }
            }
            fields.insert(ask::ANNOUNCED.to_owned(), json!(call.title));
        }
    }

    fn other(&mut self, item: Item) -> Vec<Meaning> {
        self.break_message();
        vec![Meaning::Item(item)]
    }

    fn chunk(&mut self, kind: &'static str, update: &Value) -> Vec<Meaning> {
        let text = content(&update["content"]);
        if text.is_empty() {
            return Vec::new();
        }
        let given = update["messageId"].as_str().map(str::to_owned);
        let message_id = match &self.open {
            Some((open, id, ours)) if *open == kind && *id == given => ours.clone(),
            _ => {
                self.messages += 1;
                let ours = format!("{kind}{}.{}", self.prefix, self.messages);
                self.open = Some((kind, given, ours.clone()));
                ours
            }
        };
        vec![Meaning::Item(if kind == "t" { Item::Text { message_id, text } } else { Item::Thought { message_id, text } })]
    }

    fn tool_call(&mut self, update: &Value) -> Vec<Meaning> {
        self.break_message();
        let Some(call_id) = update["toolCallId"].as_str().map(str::to_owned) else {
            return vec![Meaning::Item(Item::Unknown { raw: cut::json(update.clone(), cut::SANE) })];
        };
        let known = self.calls.get(&call_id);
        let call = merged(known, update);
        let announced = known.is_some_and(|known| (&known.title, &known.kind, &known.input) == (&call.title, &call.kind, &call.input));
        let output = output(update);
        let changed = known.map_or(call.status != "pending", |known| known.status != call.status);
        let mut meanings = Vec::new();
        if !announced {
            let (title, kind, input) = (call.title.clone(), call.kind.clone(), call.input.clone());
            meanings.push(Meaning::Item(Item::ToolCall { call_id: call_id.clone(), title, kind, input }));
        }
        if changed || output.is_some() {
            meanings.push(Meaning::Item(Item::ToolUpdate { call_id: call_id.clone(), status: call.status.clone(), output }));
        }
        self.remember(call_id, call);
        meanings
    }

    fn remember(&mut self, id: String, call: Call) {
        if self.calls.insert(id.clone(), call).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }
}

/// What is known of a call after `update`.
fn merged(known: Option<&Call>, update: &Value) -> Call {
    let mut call = known.cloned().unwrap_or_else(|| Call { kind: "other".into(), status: "pending".into(), ..Call::default() });
    let tool = ask::tool_name(update);
    if let Some(title) = update["title"].as_str().filter(|title| !title.is_empty()).or(tool.as_deref().filter(|_| known.is_none())) {
        call.title = cut::text(title, cut::LAST_TEXT);
    }
    if call.title.is_empty() {
        call.title = "Tool call".into();
    }
    if let Some(kind) = update["kind"].as_str() {
        call.kind = match kind {
            "read" | "edit" | "execute" | "search" | "fetch" | "think" => kind,
            "delete" | "move" => "edit",
            _ => "other",
        }
        .into();
    }
    if ask::is_mcp(tool.as_deref().unwrap_or(&call.title)) {
        call.kind = "mcp".into();
    }
    if !update["rawInput"].is_null() {
        call.input = cut::json(update["rawInput"].clone(), cut::SANE);
    }
    if let Some(status) = update["status"].as_str() {
        call.status = match status {
            "in_progress" => "running",
            "completed" | "failed" => status,
            _ => "pending",
        }
        .into();
    }
    call
}

/// A call's output as text: its content blocks, else its raw output.
fn output(update: &Value) -> Option<String> {
    let blocks = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = blocks.iter().map(tool_content).filter(|text| !text.is_empty()).collect();
    if !texts.is_empty() {
        return Some(cut::text(&texts.join("\n"), cut::SANE));
    }
    match &update["rawOutput"] {
        Value::Null => None,
        Value::String(text) => Some(cut::text(text, cut::SANE)),
        other => Some(cut::text(&other.to_string(), cut::SANE)),
    }
}

fn tool_content(block: &Value) -> String {
    match block["type"].as_str() {
        Some("diff") => {
            let lines = |name: &str| block[name].as_str().map_or(0, |text| text.lines().count());
            format!("{}: {} lines, were {}", block["path"].as_str().unwrap_or("a file"), lines("newText"), lines("oldText"))
        }
        Some("terminal") => String::new(),
        _ => content(&block["content"]),
    }
}

/// A content block as text.
fn content(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") | None => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource") => block.pointer("/resource/text").and_then(Value::as_str).unwrap_or("[resource]").to_owned(),
        Some("resource_link") => block["uri"].as_str().unwrap_or("[link]").to_owned(),
        Some(other) => format!("[{other}]"),
    }
}

fn plan(entries: &Value) -> Item {
    let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = |entry: &Value| PlanEntry {
        text: cut::text(entry["content"].as_str().unwrap_or_default(), cut::LAST_TEXT),
        status: entry["status"].as_str().filter(|status| ["in_progress", "completed"].contains(status)).unwrap_or("pending").into(),
    };
    Item::Plan { entries: entries.iter().map(entry).collect() }
}

fn notice(update: &Value) -> Item {
    let level = update["severity"].as_str().filter(|level| ["warning", "error"].contains(level)).unwrap_or("info");
    let title = update["title"].as_str().unwrap_or_default();
    let text = match update["description"].as_str() {
        Some(more) => format!("{title}: {more}"),
        None => title.to_owned(),
    };
    Item::Notice { level: level.into(), text: cut::text(&text, cut::LAST_TEXT) }
}

/// When the usage limit ends that Claude's adapter says is reached.
fn claude_limit(info: &Value) -> Option<Option<Timestamp>> {
    let reached = info["status"] == "rejected" && info["isUsingOverage"] != true;
    reached.then(|| info["resetsAt"].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok()))
}

/// What Codex's adapter says of its thread, beside the title: that it tries again, that the turn has failed.
fn codex_news(news: &Value) -> Vec<Meaning> {
    let mut meanings = Vec::new();
    if let Some(message) = news["error"]["message"].as_str() {
        let details = news["error"]["additionalDetails"].as_str().map(|details| format!(": {details}")).unwrap_or_default();
        let text = cut::text(&format!("{message}{details}"), cut::LAST_TEXT);
        meanings.push(Meaning::Item(Item::Notice { level: "warning".into(), text }));
    }
    match news["threadStatus"]["type"].as_str() {
        Some("systemError") => meanings.push(Meaning::Broken(true)),
        Some("active") => meanings.push(Meaning::Broken(false)),
        _ => {}
    }
    meanings
}

fn cost(update: &Value) -> Option<f64> {
    let cost = &update["cost"];
    let dollars = cost["currency"].as_str().is_none_or(|currency| currency.eq_ignore_ascii_case("usd"));
    cost["amount"].as_f64().filter(|amount| dollars && amount.is_finite() && *amount >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(normaliser: &mut Normaliser, update: Value) -> Vec<Item> {
        let item = |meaning| match meaning {
            Meaning::Item(item) => Some(item),
            Meaning::Cost(_) | Meaning::Broken(_) | Meaning::Limited(_) => None,
        };
        normaliser.read(&update).into_iter().filter_map(item).collect()
    }

    fn text_id(normaliser: &mut Normaliser, update: Value) -> String {
        match items(normaliser, update).pop() {
            Some(Item::Text { message_id, .. } | Item::Thought { message_id, .. }) => message_id,
            other => panic!("{other:?}"),
        }
    }

    fn said(text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
    }

    #[test]
    fn deltas_share_an_id_until_something_else_happens() {
        let mut n = Normaliser::new("p".into());
        let first = text_id(&mut n, said("a"));
        assert_eq!(first, text_id(&mut n, said("b")));
        let thought = json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}});
        assert_ne!(first, text_id(&mut n, thought));
        let second = text_id(&mut n, said("c"));
        assert_ne!(first, second);
        items(&mut n, json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "x"}));
        assert_ne!(second, text_id(&mut n, said("d")));
    }

    #[test]
    fn the_agents_own_message_ids_separate_messages() {
        let mut n = Normaliser::new("p".into());
        let with = |id: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": "x"}});
        let one = text_id(&mut n, with("1"));
        assert_eq!(one, text_id(&mut n, with("1")));
        assert_ne!(one, text_id(&mut n, with("2")));
    }

    #[test]
    fn a_tool_call_is_announced_again_only_when_it_is_told_better() {
        let mut n = Normaliser::new("p".into());
        let start = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Terminal", "kind": "execute", "status": "pending"});
        assert!(matches!(&items(&mut n, start)[..], [Item::ToolCall { title, .. }] if title == "Terminal"));
        let better = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "title": "ls", "rawInput": {"command": "ls"}});
        assert!(matches!(&items(&mut n, better.clone())[..], [Item::ToolCall { title, .. }] if title == "ls"));
        assert_eq!(items(&mut n, better), []);
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "a.txt"}}]});
        let expected = Item::ToolUpdate { call_id: "1".into(), status: "completed".into(), output: Some("a.txt".into()) };
        assert_eq!(items(&mut n, done), [expected]);
    }

    #[test]
    fn unknown_and_malformed_updates_are_kept() {
        let mut n = Normaliser::new("p".into());
        for update in [json!({"sessionUpdate": "hologram", "x": 1}), json!({"sessionUpdate": "tool_call"}), json!({}), json!(7)] {
            assert_eq!(items(&mut n, update.clone()), [Item::Unknown { raw: update }]);
        }
        assert_eq!(items(&mut n, json!({"sessionUpdate": "plan", "entries": 3})), [Item::Plan { entries: Vec::new() }]);
    }

    #[test]
    fn memory_of_calls_is_bounded_and_fills_permission_requests() {
        let mut n = Normaliser::new("p".into());
        for id in 0..2 * REMEMBERED {
            items(&mut n, json!({"sessionUpdate": "tool_call", "toolCallId": id.to_string(), "title": "T", "kind": "edit"}));
        }
        assert_eq!(n.calls.len(), REMEMBERED);
        let mut params = json!({"toolCall": {"toolCallId": (2 * REMEMBERED - 1).to_string(), "title": null}});
        n.enrich(&mut params);
        assert_eq!((params["toolCall"]["title"].as_str(), params["toolCall"]["kind"].as_str()), (Some("T"), Some("edit")));
        let mut params = json!({"toolCall": {"toolCallId": (2 * REMEMBERED - 1).to_string(), "title": "of the request"}});
        n.enrich(&mut params);
        assert_eq!(
            (params["toolCall"]["title"].as_str(), params["toolCall"][ask::ANNOUNCED].as_str()),
            (Some("of the request"), Some("T"))
        );
    }

    #[test]
    fn only_dollars_count_as_cost() {
        let mut n = Normaliser::new("p".into());
        let of =
            |currency: &str| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": currency}});
        assert_eq!(n.read(&of("USD")), [Meaning::Cost(0.5)]);
        assert_eq!(n.read(&of("EUR")), []);
    }

    #[test]
    fn claude_tells_of_a_limit_beside_its_usage() {
        let mut n = Normaliser::new("p".into());
        let mut limit =
            |info: Value| n.read(&json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "_meta": {"_claude/rateLimit": info}}));
        let end = Timestamp::from_second(1_796_000_000).unwrap();
        assert_eq!(limit(json!({"status": "rejected", "resetsAt": 1_796_000_000})), [Meaning::Limited(Some(end))]);
        assert_eq!(limit(json!({"status": "rejected"})), [Meaning::Limited(None)]);
        assert_eq!(limit(json!({"status": "rejected", "isUsingOverage": true})), []);
        assert_eq!(limit(json!({"status": "allowed"})), []);
    }

    #[test]
    fn codex_tells_beside_the_title_that_it_tries_again_and_that_it_failed() {
        let mut n = Normaliser::new("p".into());
        let mut news = |codex: Value| n.read(&json!({"sessionUpdate": "session_info_update", "title": "t", "_meta": {"codex": codex}}));
        let again = json!({"error": {"message": "Reconnecting... 1/2", "additionalDetails": "429", "willRetry": true}});
        let notice = Item::Notice { level: "warning".into(), text: "Reconnecting... 1/2: 429".into() };
        assert_eq!(news(again), [Meaning::Item(notice)]);
        assert_eq!(news(json!({"threadStatus": {"type": "systemError"}})), [Meaning::Broken(true)]);
        assert_eq!(news(json!({"threadStatus": {"type": "active", "activeFlags": []}})), [Meaning::Broken(false)]);
        assert_eq!(news(Value::Null), []);
    }
}
