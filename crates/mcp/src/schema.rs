//! The JSON Schemas that clients see, written by hand from the registry.
//!
//! Plain on purpose: one object, no combinators, references, type lists or formats, because each of
//! these makes some client drop the tool or the whole list.

use crate::tool::{Kind, Output, Param, Preset, Tool, Type};
use rmcp::model::{self, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `tool` as it is listed, with `suffix` behind its name.
pub fn listed(tool: &Tool, suffix: &str) -> model::Tool {
    let annotations =
        ToolAnnotations::from_raw(None, Some(tool.read_only), Some(tool.destructive), Some(tool.idempotent || tool.read_only), Some(false));
    model::Tool::new(format!("{}{suffix}", tool.name), tool.description, Arc::new(input(tool)))
        .with_raw_output_schema(Arc::new(output(tool)))
        .with_annotations(annotations)
}

/// The schema of a tool's arguments.
pub fn input(tool: &Tool) -> Map<String, Value> {
    let properties: Map<String, Value> = tool.params.iter().map(|p| (p.name.to_owned(), Value::Object(property(p)))).collect();
    let required: Vec<&str> = tool.params.iter().filter(|p| p.required).map(|p| p.name).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema
}

fn property(param: &Param) -> Map<String, Value> {
    let mut schema = typed(param.kind);
    schema.insert("description".into(), param.doc.into());
    if let Some(words) = param.words {
        schema.insert("enum".into(), json!(words.allowed));
    }
    if let Some((min, max)) = param.bounds {
        let (least, most) = if is_list(param.kind) { ("minItems", "maxItems") } else { ("minimum", "maximum") };
        if !is_list(param.kind) || min > 0 {
            schema.insert(least.into(), min.into());
        }
        schema.insert(most.into(), max.into());
    }
    if let Some(preset) = param.preset {
        schema.insert("default".into(), value(preset));
    }
    schema
}

fn is_list(kind: Type) -> bool {
    matches!(kind, Type::Strings | Type::Objects)
}

fn typed(kind: Type) -> Map<String, Value> {
    let (name, items) = match kind {
        Type::String => ("string", None),
        Type::Integer => ("integer", None),
        Type::Number => ("number", None),
        Type::Boolean => ("boolean", None),
        Type::Object => ("object", None),
        Type::Strings => ("array", Some("string")),
        Type::Objects => ("array", Some("object")),
    };
    let mut schema = Map::new();
    schema.insert("type".into(), name.into());
    if let Some(items) = items {
        schema.insert("items".into(), json!({ "type": items }));
    }
    schema
}

/// The JSON value of a default.
pub(crate) fn value(preset: Preset) -> Value {
    match preset {
        Preset::Bool(flag) => flag.into(),
        Preset::Int(number) => number.into(),
        Preset::Text(text) => text.into(),
    }
}

/// The schema of a tool's answer: its top-level fields, and `error` for when it failed.
pub fn output(tool: &Tool) -> Map<String, Value> {
    let mut properties: Map<String, Value> = tool.outputs.iter().map(|(name, kind)| ((*name).to_owned(), field(*kind))).collect();
    properties.insert("error".into(), json!({ "type": "object" }));
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties));
    schema
}

fn field(kind: Kind) -> Value {
    match kind {
        Kind::String => json!({ "type": "string" }),
        Kind::Integer => json!({ "type": "integer" }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Object => json!({ "type": "object" }),
        Kind::Strings => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Objects => json!({ "type": "array", "items": { "type": "object" } }),
    }
}

/// The first way in which `answer` breaks the published schema of `tool`; clients would refuse it.
pub fn breach(tool: &Tool, answer: &Value) -> Option<String> {
    let Some(fields) = answer.as_object() else { return Some(format!("{}: the answer isn't an object", tool.name)) };
    tool.outputs.iter().find_map(|(name, kind): &Output| {
        let value = fields.get(*name)?;
        (!fits(*kind, value)).then(|| format!("{}: {name} isn't {kind:?}", tool.name))
    })
}

fn fits(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::String => value.is_string(),
        Kind::Integer => value.is_i64() || value.is_u64(),
        Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::Object => value.is_object(),
        Kind::Strings => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        Kind::Objects => value.as_array().is_some_and(|items| items.iter().all(Value::is_object)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    #[test]
    fn an_answer_is_held_against_its_schema() {
        let tool = tools::find("list_tasks").unwrap();
        assert_eq!(breach(tool, &json!({ "tasks": [{}], "next_cursor": null })), None);
        assert!(breach(tool, &json!({ "tasks": null })).unwrap().contains("tasks"));
        assert!(breach(tool, &json!([])).is_some());
    }

    #[test]
    fn a_tool_without_parameters_still_has_properties() {
        let schema = Value::Object(input(tools::find("get_queue_state").unwrap()));
        assert_eq!(schema, json!({ "type": "object", "properties": {} }));
    }
}
