//! Anthropic's Messages: requests read, answers written.

use super::asked::{Api, Asked, Tool, text_of};
use super::play::{Part, Reply};
use super::scenario::Stop;
use super::wire::{Sent, error, half, id, pieces};
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn parse(body: &Value) -> Asked {
    let mut asked = Asked::new(Api::Messages, body);
    asked.told(&text_of(&body["system"]));
    for tool in body["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().or(tool["type"].as_str()).unwrap_or_default().to_owned();
        asked.tools.push(Tool { name, namespace: None, free_form: false, schema: tool["input_schema"].clone() });
    }
    let mut last = "";
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        match role {
            "assistant" => {
                // Claude Code puts this in when it takes up a conversation that broke off.
                if text_of(&message["content"]).trim() == "No response requested." {
                    continue;
                }
                asked.turns += usize::from(last != "assistant");
            }
            "system" => {
                asked.told(&text_of(&message["content"]));
                continue;
            }
            _ => user(&message["content"], &mut asked),
        }
        last = role;
    }
    let format = [&body["output_config"]["format"], &body["output_format"]].into_iter().find(|format| format["schema"].is_object());
    asked.schema = format.map(|format| format["schema"].clone());
    asked.stops = body["stop_sequences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    asked
}

fn user(content: &Value, asked: &mut Asked) {
    if let Some(text) = content.as_str() {
        return asked.user_said(text);
    }
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_result") => asked.tool_gave(text_of(&block["content"])),
            Some("text") => asked.user_said(block["text"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        Some(Stop::MaxTokens) => "max_tokens",
        Some(Stop::Refusal) => "refusal",
        None if reply.stop_text.is_some() => "stop_sequence",
        None if reply.has_calls() => "tool_use",
        None => "end_turn",
    }
}

fn usage(reply: &Reply, output: u64) -> Value {
    json!({
        "input_tokens": reply.tokens.input, "output_tokens": output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

/// Writes an answer as events.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<Sent> {
    let event = |body: Value| Sent::Event(body["type"].as_str().map(str::to_owned), body);
    let message = json!({
        "id": id("msg_"), "type": "message", "role": "assistant", "model": asked.model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(reply, 1),
    });
    let mut sent = vec![event(json!({ "type": "message_start", "message": message })), event(json!({ "type": "ping" }))];
    for (index, part) in reply.parts.iter().enumerate() {
        let (block, deltas) = match part {
            Part::Text(text) => (json!({ "type": "text", "text": "" }), text_deltas(pieces(text))),
            Part::Break(text) => (json!({ "type": "text", "text": "" }), text_deltas(half(text))),
            Part::Thought(text) => {
                let thoughts = pieces(text).into_iter().map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
                let signed = [json!({ "type": "signature_delta", "signature": "c2NyaXB0ZWQ=" })];
                (json!({ "type": "thinking", "thinking": "", "signature": "" }), thoughts.chain(signed).collect())
            }
            Part::Call(call) => {
                let block = json!({ "type": "tool_use", "id": call.id, "name": call.tool, "input": {} });
                let deltas = pieces(&call.text()).into_iter().map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
                (block, deltas.collect())
            }
            Part::Pause(ms) => {
                sent.push(Sent::Pause(*ms));
                continue;
            }
            Part::Hang => {
                sent.push(Sent::Hang);
                return sent;
            }
            Part::Error(failure) => {
                sent.push(event(error(Api::Messages, failure)));
                return sent;
            }
        };
        sent.push(event(json!({ "type": "content_block_start", "index": index, "content_block": block })));
        sent.extend(deltas.into_iter().map(|delta| event(json!({ "type": "content_block_delta", "index": index, "delta": delta }))));
        if matches!(part, Part::Break(_)) {
            sent.push(Sent::Break);
            return sent;
        }
        sent.push(event(json!({ "type": "content_block_stop", "index": index })));
    }
    let delta = json!({ "stop_reason": stop(reply), "stop_sequence": reply.stop_text });
    sent.push(event(json!({ "type": "message_delta", "delta": delta, "usage": usage(reply, reply.tokens.output) })));
    sent.push(event(json!({ "type": "message_stop" })));
    sent
}

fn text_deltas(pieces: Vec<String>) -> Vec<Value> {
    pieces.into_iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect()
}

/// Writes an answer as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let content = reply.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Thought(text) => Some(json!({ "type": "thinking", "thinking": text, "signature": "c2NyaXB0ZWQ=" })),
        Part::Call(call) => {
            let input: Value = serde_json::from_str(&call.text()).unwrap_or_default();
            Some(json!({ "type": "tool_use", "id": call.id, "name": call.tool, "input": input }))
        }
        _ => None,
    });
    json!({
        "id": id("msg_"), "type": "message", "role": "assistant", "model": asked.model,
        "content": content.collect::<Vec<_>>(),
        "stop_reason": stop(reply), "stop_sequence": reply.stop_text, "usage": usage(reply, reply.tokens.output),
    })
}
