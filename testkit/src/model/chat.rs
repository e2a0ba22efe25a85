//! `OpenAI`'s Chat Completions: requests read, answers written.

use super::asked::{Api, Asked, Tool, text_of};
use super::play::{Part, Reply};
use super::scenario::Stop;
use super::wire::{Sent, error, half, id, pieces};
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn parse(body: &Value) -> Asked {
    let mut asked = Asked::new(Api::Chat, body);
    for tool in body["tools"].as_array().into_iter().flatten() {
        let free_form = tool["type"] == "custom";
        let body = if free_form { &tool["custom"] } else { &tool["function"] };
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        asked.tools.push(Tool { name, namespace: None, free_form, schema: body["parameters"].clone() });
    }
    let mut last = "";
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        match role {
            "system" | "developer" => {
                asked.told(&text_of(&message["content"]));
                continue;
            }
            "assistant" => asked.turns += usize::from(last != "assistant"),
            "tool" => asked.tool_gave(text_of(&message["content"])),
            _ => match message["content"].as_array() {
                Some(parts) => parts.iter().for_each(|part| asked.user_said(&text_of(part))),
                None => asked.user_said(&text_of(&message["content"])),
            },
        }
        last = role;
    }
    let format = &body["response_format"];
    asked.schema = (format["type"] == "json_schema").then(|| format["json_schema"]["schema"].clone());
    asked
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        Some(Stop::MaxTokens) => "length",
        Some(Stop::Refusal) => "content_filter",
        None if reply.has_calls() => "tool_calls",
        None => "stop",
    }
}

fn usage(reply: &Reply) -> Value {
    let (input, output) = (reply.tokens.input, reply.tokens.output);
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

/// Writes an answer as chunks.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<Sent> {
    let name = id("chatcmpl-");
    let with = |choices: Value| json!({ "id": name, "object": "chat.completion.chunk", "created": 1_767_225_600, "model": asked.model, "choices": choices });
    let chunk = |delta: Value| Sent::Event(None, with(json!([{ "index": 0, "delta": delta, "finish_reason": null }])));
    let mut sent = vec![chunk(json!({ "role": "assistant", "content": "" }))];
    let mut calls = 0;
    for part in &reply.parts {
        match part {
            Part::Text(text) => sent.extend(pieces(text).iter().map(|piece| chunk(json!({ "content": piece })))),
            Part::Thought(text) => sent.extend(pieces(text).iter().map(|piece| chunk(json!({ "reasoning_content": piece })))),
            Part::Call(call) => {
                let function = json!({ "name": call.tool, "arguments": "" });
                sent.push(chunk(json!({ "tool_calls": [{ "index": calls, "id": call.id, "type": "function", "function": function }] })));
                let more = |piece: &String| chunk(json!({ "tool_calls": [{ "index": calls, "function": { "arguments": piece } }] }));
                sent.extend(pieces(&call.text()).iter().map(more));
                calls += 1;
            }
            Part::Pause(ms) => sent.push(Sent::Pause(*ms)),
            Part::Break(text) => {
                sent.extend(half(text).iter().map(|piece| chunk(json!({ "content": piece }))));
                sent.push(Sent::Break);
                return sent;
            }
            Part::Hang => {
                sent.push(Sent::Hang);
                return sent;
            }
            Part::Error(failure) => {
                sent.push(Sent::Event(None, error(Api::Chat, failure)));
                return sent;
            }
        }
    }
    sent.push(Sent::Event(None, with(json!([{ "index": 0, "delta": {}, "finish_reason": stop(reply) }]))));
    let mut last = with(json!([]));
    last["usage"] = usage(reply);
    sent.extend([Sent::Event(None, last), Sent::Done]);
    sent
}

/// Writes an answer as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let texts: String =
        reply.parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect();
    let calls: Vec<Value> = reply
        .parts
        .iter()
        .filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None })
        .map(|call| json!({ "id": call.id, "type": "function", "function": { "name": call.tool, "arguments": call.text() } }))
        .collect();
    let mut message = json!({ "role": "assistant", "content": texts });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": id("chatcmpl-"), "object": "chat.completion", "created": 1_767_225_600, "model": asked.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": stop(reply) }], "usage": usage(reply),
    })
}
