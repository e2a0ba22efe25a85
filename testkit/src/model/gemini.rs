//! Google's `generateContent`: requests read, answers written.

use super::asked::{Api, Asked, Tool, text_of};
use super::play::{Part, Reply};
use super::scenario::Stop;
use super::wire::{Sent, error, half, id, pieces};
use serde_json::{Value, json};

/// Reads a request to `model`.
pub(super) fn parse(body: &Value, model: &str, streams: bool) -> Asked {
    let mut asked = Asked::new(Api::Gemini, body);
    (asked.model, asked.streams) = (model.to_owned(), streams);
    asked.told(&text_of(&body["systemInstruction"]["parts"]));
    for group in body["tools"].as_array().into_iter().flatten() {
        for tool in group["functionDeclarations"].as_array().into_iter().flatten() {
            let name = tool["name"].as_str().unwrap_or_default().to_owned();
            let schema = [&tool["parametersJsonSchema"], &tool["parameters"]].into_iter().find(|schema| schema.is_object());
            asked.tools.push(Tool { name, namespace: None, free_form: false, schema: schema.cloned().unwrap_or_default() });
        }
    }
    let mut last = "";
    for content in body["contents"].as_array().into_iter().flatten() {
        let role = content["role"].as_str().unwrap_or_default();
        if role == "model" {
            asked.turns += usize::from(last != "model");
        } else {
            for part in content["parts"].as_array().into_iter().flatten() {
                if let Some(text) = part["text"].as_str() {
                    asked.user_said(text);
                }
                let result = &part["functionResponse"]["response"];
                if !result.is_null() {
                    let text = text_of(result);
                    asked.tool_gave(if text.is_empty() { result.to_string() } else { text });
                }
            }
        }
        last = role;
    }
    let wanted = &body["generationConfig"];
    let schema = [&wanted["responseJsonSchema"], &wanted["responseSchema"]].into_iter().find(|schema| schema.is_object());
    asked.schema = schema.cloned();
    asked
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        Some(Stop::MaxTokens) => "MAX_TOKENS",
        Some(Stop::Refusal) => "SAFETY",
        None => "STOP",
    }
}

fn chunk(asked: &Asked, name: &str, parts: &[Value]) -> Value {
    let candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    json!({ "candidates": [candidate], "modelVersion": asked.model, "responseId": name })
}

fn last(asked: &Asked, reply: &Reply, name: &str, parts: &[Value]) -> Value {
    let mut body = chunk(asked, name, parts);
    body["candidates"][0]["finishReason"] = stop(reply).into();
    let (input, output) = (reply.tokens.input, reply.tokens.output);
    body["usageMetadata"] = json!({ "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output });
    body
}

fn call(call: &super::tools::Call) -> Value {
    let arguments: Value = serde_json::from_str(&call.text()).unwrap_or_default();
    json!({ "functionCall": { "id": call.id, "name": call.tool, "args": arguments }, "thoughtSignature": "c2NyaXB0ZWQ=" })
}

/// Writes an answer as chunks.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<Sent> {
    let name = id("answer-");
    let one = |part: Value| Sent::Event(None, chunk(asked, &name, &[part]));
    let mut sent = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Text(text) => sent.extend(pieces(text).iter().map(|piece| one(json!({ "text": piece })))),
            Part::Thought(text) => sent.extend(pieces(text).iter().map(|piece| one(json!({ "text": piece, "thought": true })))),
            Part::Call(wanted) => sent.push(one(call(wanted))),
            Part::Pause(ms) => sent.push(Sent::Pause(*ms)),
            Part::Break(text) => {
                sent.extend(half(text).iter().map(|piece| one(json!({ "text": piece }))));
                sent.push(Sent::Break);
                return sent;
            }
            Part::Hang => {
                sent.push(Sent::Hang);
                return sent;
            }
            Part::Error(failure) => {
                sent.push(Sent::Event(None, error(Api::Gemini, failure)));
                return sent;
            }
        }
    }
    sent.push(Sent::Event(None, last(asked, reply, &name, &[json!({ "text": "" })])));
    sent
}

/// Writes an answer as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let parts = reply.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(json!({ "text": text })),
        Part::Thought(text) => Some(json!({ "text": text, "thought": true })),
        Part::Call(wanted) => Some(call(wanted)),
        _ => None,
    });
    last(asked, reply, &id("answer-"), &parts.collect::<Vec<_>>())
}
