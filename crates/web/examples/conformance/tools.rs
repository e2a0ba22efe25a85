//! The tools of the fixture: their list, and what those answer that neither ask nor report.

use crate::content::{WAV, embedded, image, text};
use rmcp::model::Tool;
use serde_json::{Value, json};

/// Tools without arguments.
const PLAIN: &[(&str, &str)] = &[
    ("test_simple_text", "Answers a text"),
    ("test_image_content", "Answers a picture"),
    ("test_audio_content", "Answers a sound"),
    ("test_embedded_resource", "Answers a resource"),
    ("test_multiple_content_types", "Answers a text, a picture and a resource"),
    ("test_error_handling", "Always fails"),
    ("test_tool_with_logging", "Logs three messages"),
    ("test_logging_tool", "Logs if the caller wants it"),
    ("test_tool_with_progress", "Reports progress"),
    ("test_elicitation_sep1034_defaults", "Asks with default values"),
    ("test_elicitation_sep1330_enums", "Asks with choices"),
    ("test_missing_capability", "Needs sampling"),
    ("test_streaming_elicitation", "Asks for a name"),
    ("test_trigger_tool_change", "Says that the tools have changed"),
    ("test_trigger_prompt_change", "Says that the prompts have changed"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks the client's model"),
    ("test_input_required_result_list_roots", "Asks for the client's roots"),
    ("test_input_required_result_request_state", "Asks with a sealed state"),
    ("test_input_required_result_tampered_state", "Refuses a changed state"),
    ("test_input_required_result_multiple_inputs", "Asks three things at once"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_capabilities", "Asks only what the client can answer"),
];

/// Every tool, sorted by name.
pub fn list() -> Vec<Tool> {
    let mut tools: Vec<Value> = PLAIN
        .iter()
        .map(|(name, description)| json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": {} } }))
        .collect();
    tools.push(with_text("test_sampling", "Asks the client's model", "prompt", json!({})));
    tools.push(with_text("test_elicitation", "Asks the user", "message", json!({})));
    tools.push(with_text("test_header_parameter", "Has a parameter that travels as a header too", "region", json!("Region")));
    tools.push(json!({
        "name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features", "inputSchema": rich_schema(),
    }));
    let mut tools: Vec<Tool> = serde_json::from_value(Value::Array(tools)).expect("tools");
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// A tool with one text argument; `header` names the header that repeats it.
fn with_text(name: &str, description: &str, argument: &str, header: Value) -> Value {
    let mut property = json!({ "type": "string", "description": "A text" });
    if header.is_string() {
        property["x-mcp-header"] = header;
    }
    let schema = json!({ "type": "object", "properties": { argument: property }, "required": [argument] });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

/// The schema that has to arrive with every one of its keywords.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef", "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// The result of a tool that only answers.
pub fn answer(name: &str) -> Option<Value> {
    let content = match name {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![image()],
        "test_audio_content" => vec![json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })],
        "test_embedded_resource" => {
            vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            text("Multiple content types test:"),
            image(),
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        "test_error_handling" => {
            let content = [text("This tool intentionally returns an error for testing")];
            return Some(json!({ "content": content, "isError": true }));
        }
        "test_header_parameter" | "json_schema_2020_12_tool" => vec![text("ok")],
        _ => return None,
    };
    Some(json!({ "content": content }))
}

/// A form with a default value of every kind.
pub fn defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

/// A form with a choice of every kind.
pub fn choices() -> Value {
    let titled = |kind: &str, word: &str| {
        let choices: Vec<Value> = ["First", "Second", "Third"]
            .iter()
            .zip(1..)
            .map(|(title, number)| json!({ "const": format!("value{number}"), "title": format!("{title} {word}") }))
            .collect();
        json!({ kind: choices })
    };
    let plain = json!(["option1", "option2", "option3"]);
    let mut single = titled("oneOf", "Option");
    single["type"] = "string".into();
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": single,
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": titled("anyOf", "Choice") },
    } })
}
