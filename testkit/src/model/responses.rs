//! `OpenAI`'s Responses: requests read, answers written.
//!
//! Codex groups MCP tools in namespaces and offers them only after a search for tools, which is no answer of its own: a
//! turn that only searched counts for nothing.

use super::asked::{Api, Asked, Tool, text_of};
use super::play::{Part, Reply};
use super::scenario::Stop;
use super::tools::{Call, Form};
use super::wire::{Sent, error, half, id, pieces};
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn parse(body: &Value) -> Asked {
    let mut asked = Asked::new(Api::Responses, body);
    asked.told(&text_of(&body["instructions"]));
    offer(&body["tools"], None, &mut asked);
    if let Some(text) = body["input"].as_str() {
        asked.user_said(text);
    }
    let mut answering = false;
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str()) {
            ("additional_tools", _) => offer(&item["tools"], None, &mut asked),
            ("message", Some("system" | "developer")) => asked.told(&text_of(&item["content"])),
            ("message", Some("user")) => {
                match item["content"].as_array() {
                    Some(parts) => parts.iter().for_each(|part| asked.user_said(&text_of(part))),
                    None => asked.user_said(&text_of(&item["content"])),
                }
                answering = false;
            }
            ("tool_search_call", _) => {
                asked.turns -= usize::from(answering);
                answering = true;
            }
            ("tool_search_output", _) => {
                offer(&item["tools"], None, &mut asked);
                answering = false;
            }
            (kind, _) if kind.ends_with("_output") => {
                asked.tool_gave(text_of(&item["output"]));
                answering = false;
            }
            _ => {
                asked.turns += usize::from(!answering);
                answering = true;
            }
        }
    }
    let format = &body["text"]["format"];
    asked.schema = (format["type"] == "json_schema").then(|| format["schema"].clone());
    asked
}

fn offer(tools: &Value, namespace: Option<&str>, asked: &mut Asked) {
    for tool in tools.as_array().into_iter().flatten() {
        if tool["type"] == "namespace" {
            offer(&tool["tools"], tool["name"].as_str(), asked);
            continue;
        }
        let body = if tool["function"].is_object() { &tool["function"] } else { tool };
        let name = body["name"].as_str().or(tool["type"].as_str()).unwrap_or_default().to_owned();
        let (free_form, schema) = (tool["type"] == "custom", body["parameters"].clone());
        asked.tools.push(Tool { name, namespace: namespace.map(str::to_owned), free_form, schema });
    }
}

fn text_item(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "id": id("msg_"), "type": "message", "role": "assistant", "status": "completed", "content": content })
}

fn thought_item(text: &str) -> Value {
    json!({
        "id": id("rs_"), "type": "reasoning", "encrypted_content": "c2NyaXB0ZWQ=",
        "summary": [{ "type": "summary_text", "text": text }],
    })
}

fn call_item(call: &Call) -> Value {
    match &call.form {
        Form::Search(arguments) => json!({
            "id": id("tsc_"), "type": "tool_search_call", "status": "completed", "call_id": call.id,
            "execution": "client", "arguments": arguments,
        }),
        Form::Text(text) => json!({
            "id": id("ctc_"), "type": "custom_tool_call", "status": "completed", "call_id": call.id, "name": call.tool, "input": text,
        }),
        Form::Arguments(arguments) => {
            let mut item = json!({
                "id": id("fc_"), "type": "function_call", "status": "completed", "call_id": call.id,
                "name": call.tool, "arguments": arguments.to_string(),
            });
            if let Some(namespace) = &call.namespace {
                item["namespace"] = namespace.clone().into();
            }
            item
        }
    }
}

fn item(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Break(text) => Some(text_item(text)),
        Part::Thought(text) => Some(thought_item(text)),
        Part::Call(call) => Some(call_item(call)),
        Part::Pause(_) | Part::Hang | Part::Error(_) => None,
    }
}

/// Events of one stream: numbered.
struct Events {
    sent: Vec<Sent>,
    number: u64,
}

impl Events {
    fn push(&mut self, kind: &str, mut body: Value) {
        self.number += 1;
        body["type"] = kind.into();
        body["sequence_number"] = self.number.into();
        self.sent.push(Sent::Event(Some(kind.to_owned()), body));
    }

    /// The events of an item from its beginning to its end.
    fn item(&mut self, at: usize, item: &Value, part: &Part) {
        let mut begun = item.clone();
        for (name, empty) in [("content", json!([])), ("summary", json!([])), ("input", json!("")), ("arguments", json!(""))] {
            if item["type"] != "tool_search_call" && item.get(name).is_some() {
                begun[name] = empty;
            }
        }
        self.push("response.output_item.added", json!({ "output_index": at, "item": begun }));
        let of = |mut body: Value| {
            body["item_id"] = item["id"].clone();
            body["output_index"] = at.into();
            body
        };
        match part {
            Part::Text(text) | Part::Break(text) => {
                let nothing = json!({ "type": "output_text", "text": "", "annotations": [] });
                self.push("response.content_part.added", of(json!({ "content_index": 0, "part": nothing })));
                let broken = matches!(part, Part::Break(_));
                for piece in if broken { half(text) } else { pieces(text) } {
                    self.push("response.output_text.delta", of(json!({ "content_index": 0, "delta": piece })));
                }
                if broken {
                    return self.sent.push(Sent::Break);
                }
                self.push("response.output_text.done", of(json!({ "content_index": 0, "text": text })));
                self.push("response.content_part.done", of(json!({ "content_index": 0, "part": item["content"][0] })));
            }
            Part::Thought(text) => {
                let nothing = json!({ "type": "summary_text", "text": "" });
                self.push("response.reasoning_summary_part.added", of(json!({ "summary_index": 0, "part": nothing })));
                for piece in pieces(text) {
                    self.push("response.reasoning_summary_text.delta", of(json!({ "summary_index": 0, "delta": piece })));
                }
                self.push("response.reasoning_summary_text.done", of(json!({ "summary_index": 0, "text": text })));
                self.push("response.reasoning_summary_part.done", of(json!({ "summary_index": 0, "part": item["summary"][0] })));
            }
            Part::Call(call) => {
                let (kind, name) = match call.form {
                    Form::Arguments(_) => ("response.function_call_arguments", "arguments"),
                    Form::Text(_) => ("response.custom_tool_call_input", "input"),
                    Form::Search(_) => ("", ""),
                };
                if !kind.is_empty() {
                    for piece in pieces(&call.text()) {
                        self.push(&format!("{kind}.delta"), of(json!({ "delta": piece })));
                    }
                    self.push(&format!("{kind}.done"), of(json!({ name: call.text() })));
                }
            }
            Part::Pause(_) | Part::Hang | Part::Error(_) => {}
        }
        self.push("response.output_item.done", json!({ "output_index": at, "item": item }));
    }
}

fn response(asked: &Asked, id: &str, status: &str, output: &[Value]) -> Value {
    json!({
        "id": id, "object": "response", "created_at": 1_767_225_600, "status": status, "model": asked.model, "output": output,
        "error": null, "incomplete_details": null, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "metadata": {},
    })
}

fn finished(asked: &Asked, reply: &Reply, id: &str, output: &[Value]) -> Value {
    let (status, why) = match reply.stop {
        Some(Stop::MaxTokens) => ("incomplete", json!({ "reason": "max_output_tokens" })),
        Some(Stop::Refusal) => ("incomplete", json!({ "reason": "content_filter" })),
        None => ("completed", Value::Null),
    };
    let mut body = response(asked, id, status, output);
    body["incomplete_details"] = why;
    body["usage"] = json!({
        "input_tokens": reply.tokens.input, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": reply.tokens.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": reply.tokens.input + reply.tokens.output,
    });
    body
}

/// Writes an answer as events.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<Sent> {
    let name = id("resp_");
    let mut events = Events { sent: Vec::new(), number: 0 };
    for kind in ["response.created", "response.in_progress"] {
        events.push(kind, json!({ "response": response(asked, &name, "in_progress", &[]) }));
    }
    let mut output: Vec<Value> = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Pause(ms) => events.sent.push(Sent::Pause(*ms)),
            Part::Hang => {
                events.sent.push(Sent::Hang);
                return events.sent;
            }
            Part::Error(failure) => {
                let mut body = response(asked, &name, "failed", &output);
                body["error"] = error(Api::Responses, failure)["error"].clone();
                events.push("response.failed", json!({ "response": body }));
                return events.sent;
            }
            part => {
                let Some(item) = item(part) else { continue };
                events.item(output.len(), &item, part);
                if matches!(part, Part::Break(_)) {
                    return events.sent;
                }
                output.push(item);
            }
        }
    }
    let body = finished(asked, reply, &name, &output);
    let kind = if body["status"] == "completed" { "response.completed" } else { "response.incomplete" };
    events.push(kind, json!({ "response": body }));
    events.sent
}

/// Writes an answer as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let output: Vec<Value> = reply.parts.iter().filter_map(item).collect();
    finished(asked, reply, &id("resp_"), &output)
}
