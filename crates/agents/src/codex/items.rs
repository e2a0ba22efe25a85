//! Codex's notifications, as transcript items.

use super::shell;
use crate::cut;
use crate::dialogue::Out;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use taskyard_domain::transcript::{Item, PlanEntry};
use tokio::time::Instant;

/// A sign of life of a running command at most this often.
const SIGN: Duration = Duration::from_secs(5);

/// Turns what Codex does into items; remembers which messages came in deltas.
#[derive(Debug, Default)]
pub(super) struct Items {
    streamed: BTreeSet<String>,
    last_sign: Option<Instant>,
}

impl Items {
    /// What a notification of an item adds to the transcript; `false` when it isn't one of these.
    pub fn notification(&mut self, method: &str, params: &Value, out: &mut Out) -> bool {
        let item = &params["item"];
        match method {
            "item/started" => out.events.extend(started(item).map(crate::Event::Item)),
            "item/completed" => self.completed(item, out),
            "item/agentMessage/delta" => self.delta(params, out, |message_id, text| Item::Text { message_id, text }),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.delta(params, out, |message_id, text| Item::Thought { message_id, text });
            }
            "item/reasoning/summaryPartAdded" if params["summaryIndex"].as_i64().unwrap_or_default() > 0 => {
                let message_id = text(params, "itemId");
                out.item(Item::Thought { message_id, text: "\n\n".into() });
            }
            "item/reasoning/summaryPartAdded" => {}
            "item/commandExecution/outputDelta" | "item/mcpToolCall/progress" | "item/fileChange/outputDelta" => self.sign(params, out),
            "turn/plan/updated" => out.item(plan(&params["plan"])),
            _ => return false,
        }
        true
    }

    fn delta(&mut self, params: &Value, out: &mut Out, make: impl Fn(String, String) -> Item) {
        let id = text(params, "itemId");
        self.streamed.insert(id.clone());
        out.item(make(id, text(params, "delta")));
    }

    fn sign(&mut self, params: &Value, out: &mut Out) {
        let now = Instant::now();
        if self.last_sign.is_none_or(|last| now.duration_since(last) >= SIGN) {
            self.last_sign = Some(now);
            out.item(Item::ToolUpdate { call_id: text(params, "itemId"), status: "running".into(), output: None });
        }
    }

    fn completed(&mut self, item: &Value, out: &mut Out) {
        let id = text(item, "id");
        let streamed = self.streamed.remove(&id);
        let whole = |value: &Value| -> String {
            let parts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            parts.collect::<Vec<_>>().join("\n\n")
        };
        match item["type"].as_str().unwrap_or_default() {
            "agentMessage" if !streamed => out.item(Item::Text { message_id: id, text: text(item, "text") }),
            "reasoning" if !streamed => {
                let said = [whole(&item["summary"]), whole(&item["content"])].into_iter().find(|text| !text.is_empty());
                out.events.extend(said.map(|text| crate::Event::Item(Item::Thought { message_id: id, text })));
            }
            "contextCompaction" => out.notice("info", "Codex shortened the conversation to make room"),
            _ => out.events.extend(finished(id, item).map(crate::Event::Item)),
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The call an item that began is, with its kind and title.
fn started(item: &Value) -> Option<Item> {
    let (kind, title, input) = match item["type"].as_str()? {
        "commandExecution" => {
            let command = shell::unwrapped(item["command"].as_str().unwrap_or_default());
            ("execute", command.clone(), serde_json::json!({ "command": command, "cwd": item["cwd"] }))
        }
        "fileChange" => ("edit", change_title(&item["changes"]), item["changes"].clone()),
        "mcpToolCall" => ("mcp", format!("{}: {}", text(item, "server"), text(item, "tool")), item["arguments"].clone()),
        "dynamicToolCall" => ("other", text(item, "tool"), item["arguments"].clone()),
        "webSearch" => ("fetch", format!("Search the web: {}", text(item, "query")), item["action"].clone()),
        "imageView" => ("read", format!("Look at {}", text(item, "path")), Value::Null),
        "collabAgentToolCall" => ("think", format!("Sub-agent: {}", text(item, "tool")), item["prompt"].clone()),
        "imageGeneration" => ("other", "Make an image".to_owned(), Value::Null),
        _ => return None,
    };
    Some(Item::ToolCall { call_id: text(item, "id"), title: cut::text(&title, 200), kind: kind.into(), input: cut::json(input, cut::SANE) })
}

fn change_title(changes: &Value) -> String {
    let paths: Vec<&str> = changes.as_array().into_iter().flatten().filter_map(|change| change["path"].as_str()).collect();
    format!("Change {}", paths.join(", "))
}

fn finished(call_id: String, item: &Value) -> Option<Item> {
    started(item)?;
    let failed = matches!(item["status"].as_str(), Some("failed" | "declined"))
        || item["exitCode"].as_i64().is_some_and(|code| code != 0)
        || item["success"] == false;
    let status = if failed { "failed" } else { "completed" };
    Some(Item::ToolUpdate { call_id, status: status.into(), output: output(item).map(|text| cut::text(&text, cut::SANE)) })
}

fn output(item: &Value) -> Option<String> {
    let texts = |content: &Value| -> Option<String> {
        let texts: Vec<&str> = content.as_array()?.iter().filter_map(|block| block["text"].as_str()).collect();
        Some(texts.join("\n"))
    };
    let declined = (item["status"] == "declined").then(|| "It was not allowed.".to_owned());
    let output = item["aggregatedOutput"].as_str().map(str::to_owned);
    let exit = item["exitCode"].as_i64().filter(|code| *code != 0).map(|code| format!("exit code {code}"));
    let command = match (output, exit) {
        (Some(output), Some(exit)) => Some(format!("{output}\n({exit})")),
        (output, exit) => output.or(exit),
    };
    let error = item["error"]["message"].as_str().map(str::to_owned);
    declined.or(command).or(error).or_else(|| texts(&item["result"]["content"])).or_else(|| texts(&item["contentItems"]))
}

fn plan(plan: &Value) -> Item {
    let entry = |step: &Value| {
        let status = match step["status"].as_str() {
            Some("inProgress" | "in_progress") => "in_progress",
            Some("completed") => "completed",
            _ => "pending",
        };
        PlanEntry { text: text(step, "step"), status: status.into() }
    };
    Item::Plan { entries: plan.as_array().into_iter().flatten().map(entry).collect() }
}
