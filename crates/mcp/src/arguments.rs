//! Validation of a call's arguments against the registry, before anything happens.
//!
//! What comes out has the contract's names, every default filled in and every closed word in its
//! advertised spelling. Values never appear in errors: they may be secret.

use crate::schema;
use crate::tool::{Param, Tool, Type};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use taskyard_domain::{Error, Result};

/// Arguments that known clients add by themselves; they are dropped.
const EXTRAS: [&str; 2] = ["wait_for_previous", "_meta"];
/// Whole numbers beyond this don't survive the way through a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// How the caller spelled the arguments whose names differ from the contract's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spelling(HashMap<String, String>);

impl Spelling {
    /// `name` as the caller typed it.
    fn typed<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }

    /// `error` with the caller's own names for its arguments.
    pub fn restore(&self, mut error: Error) -> Error {
        if self.0.is_empty() {
            return error;
        }
        if let Some(field) = &mut error.field {
            *field = self.words(field);
        }
        error.message = self.words(&error.message);
        error.hint = error.hint.map(|hint| self.words(&hint));
        error
    }

    /// `text` with every whole word that is a renamed argument put back.
    fn words(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars() {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
            } else {
                out.push_str(self.typed(&word));
                word.clear();
                out.push(c);
            }
        }
        out.push_str(self.typed(&word));
        out
    }
}

/// Checks `typed` against `tool`.
///
/// # Errors
/// `INVALID_ARGUMENT` naming the argument as the caller typed it: unknown, given twice, of the wrong
/// type, out of range, empty or missing.
pub fn check(tool: &Tool, typed: Map<String, Value>) -> Result<(Map<String, Value>, Spelling)> {
    let mut given: HashMap<&'static str, (String, Value)> = HashMap::new();
    let mut spelling = Spelling::default();
    for (name, value) in typed {
        let Some(param) = lookup(tool, &name) else {
            if EXTRAS.contains(&name.as_str()) || EXTRAS.contains(&snake(&name).as_str()) {
                continue;
            }
            return Err(unknown(tool, &name));
        };
        if let Some((first, _)) = given.get(param.name) {
            return Err(Error::invalid(&name, format!("{first} and {name} are the same argument; pass one of them")));
        }
        if name != param.name {
            spelling.0.insert(param.name.to_owned(), name.clone());
        }
        given.insert(param.name, (name, value));
    }
    let mut values = Map::new();
    for param in tool.params {
        let (name, value) = given.remove(param.name).unwrap_or_else(|| (param.name.to_owned(), Value::Null));
        if let Some(value) = read(param, &name, value)? {
            values.insert(param.name.to_owned(), value);
        }
    }
    Ok((values, spelling))
}

fn lookup(tool: &Tool, name: &str) -> Option<&'static Param> {
    tool.param(name).or_else(|| if name.contains(['_', '-']) { None } else { tool.param(&snake(name)) })
}

/// `taskId`, `TaskID` → `task_id`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut after_small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_small {
            out.push('_');
        }
        after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn unknown(tool: &Tool, name: &str) -> Error {
    let shown: String = name.chars().take(64).collect();
    let takes = match tool.params {
        [] => "no arguments".to_owned(),
        params => params.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
    };
    Error::invalid(&shown, format!("unknown argument {shown}")).with_hint(format!("{} takes {takes}", tool.name))
}

/// The value of `param`; `None` when it is left out and has no default.
fn read(param: &Param, name: &str, value: Value) -> Result<Option<Value>> {
    let left_out = value.is_null() || (param.name == "cursor" && value.as_str() == Some(""));
    if left_out {
        return match (param.required, param.preset) {
            (true, _) => Err(Error::invalid(name, format!("{name} is required")).with_hint(format!("{name}: {}", param.doc))),
            (false, preset) => Ok(preset.map(schema::value)),
        };
    }
    let value = match param.kind {
        Type::String => text(param, name, value)?,
        Type::Integer => integer(param, name, &value)?,
        Type::Number if value.is_number() => value,
        Type::Boolean if value.is_boolean() => value,
        Type::Object if value.is_object() => value,
        Type::Strings => strings(param, name, value)?,
        Type::Objects => objects(param, name, value)?,
        Type::Number | Type::Boolean | Type::Object => return Err(mistyped(param.kind, name, &value)),
    };
    Ok(Some(value))
}

fn text(param: &Param, name: &str, value: Value) -> Result<Value> {
    let Value::String(text) = value else { return Err(mistyped(param.kind, name, &value)) };
    if let Some(words) = param.words {
        return match (words.read)(&text) {
            Some(word) if words.allowed.contains(&word) => Ok(word.into()),
            _ => Err(Error::invalid(name, format!("{name} can be {}", either(words.allowed)))),
        };
    }
    if text.trim().is_empty() && !param.blank {
        let error = Error::invalid(name, format!("{name} is empty"));
        return Err(if param.required { error } else { error.with_hint(format!("leave {name} out instead")) });
    }
    Ok(Value::String(text))
}

fn integer(param: &Param, name: &str, value: &Value) -> Result<Value> {
    let Some(number) = value.as_number() else { return Err(mistyped(param.kind, name, value)) };
    let whole = whole(number).map_err(|huge| if huge { out_of_range(param, name) } else { mistyped(param.kind, name, value) })?;
    match param.bounds {
        Some((min, max)) if whole < min || whole > max => Err(out_of_range(param, name)),
        _ => Ok(whole.into()),
    }
}

/// `number` as a whole one; `Err(true)` when it is whole but too large.
fn whole(number: &Number) -> std::result::Result<i64, bool> {
    if let Some(whole) = number.as_i64() {
        return Ok(whole);
    }
    match number.as_f64() {
        #[allow(clippy::cast_possible_truncation, reason = "whole and within ±2^53")]
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT => Ok(float as i64),
        Some(float) => Err(float.fract() == 0.0),
        None => Err(true),
    }
}

fn strings(param: &Param, name: &str, value: Value) -> Result<Value> {
    let Value::Array(items) = value else { return Err(mistyped(param.kind, name, &value)) };
    counted(param, name, items.len())?;
    for (at, item) in items.iter().enumerate() {
        match item.as_str() {
            None => return Err(mistyped(Type::String, &format!("{name}[{at}]"), item)),
            Some(text) if text.trim().is_empty() => return Err(Error::invalid(format!("{name}[{at}]"), format!("{name}[{at}] is empty"))),
            Some(_) => {}
        }
    }
    Ok(Value::Array(items))
}

fn objects(param: &Param, name: &str, value: Value) -> Result<Value> {
    let Value::Array(items) = value else { return Err(mistyped(param.kind, name, &value)) };
    counted(param, name, items.len())?;
    let items = items.into_iter().enumerate().map(|(at, item)| match item {
        Value::Object(fields) => snaked(&format!("{name}[{at}]"), fields),
        other => Err(mistyped(Type::Object, &format!("{name}[{at}]"), &other)),
    });
    Ok(Value::Array(items.collect::<Result<_>>()?))
}

/// The fields of one item, by their `snake_case` names.
fn snaked(path: &str, fields: Map<String, Value>) -> Result<Value> {
    let mut out = Map::new();
    for (name, value) in fields {
        let known = if name.contains(['_', '-']) { name.clone() } else { snake(&name) };
        if out.insert(known.clone(), value).is_some() {
            let field = format!("{path}.{name}");
            return Err(Error::invalid(&field, format!("{field} is there twice, once as {known}; pass one of them")));
        }
    }
    Ok(Value::Object(out))
}

fn counted(param: &Param, name: &str, count: usize) -> Result<()> {
    match param.bounds {
        Some((min, max)) if i64::try_from(count).map_or(true, |n| n < min || n > max) => Err(out_of_range(param, name)),
        _ => Ok(()),
    }
}

fn out_of_range(param: &Param, name: &str) -> Error {
    let (min, max) = param.bounds.unwrap_or((i64::MIN, i64::MAX));
    let what = if matches!(param.kind, Type::Strings | Type::Objects) { "takes" } else { "can be" };
    let items = if what == "takes" { " items" } else { "" };
    Error::invalid(name, format!("{name} {what} {min} to {max}{items}"))
}

fn mistyped(wanted: Type, name: &str, got: &Value) -> Error {
    let wanted = match wanted {
        Type::String => "text",
        Type::Integer => "a whole number",
        Type::Number => "a number",
        Type::Boolean => "true or false",
        Type::Object => "an object",
        Type::Strings => "a list of texts",
        Type::Objects => "a list of objects",
    };
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Error::invalid(name, format!("{name} has to be {wanted}; it is {got}"))
}

fn either(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn run(tool: &str, arguments: Value) -> Result<(Map<String, Value>, Spelling)> {
        let Value::Object(arguments) = arguments else { panic!("an object is needed") };
        check(tools::find(tool).unwrap(), arguments)
    }
    fn refused(tool: &str, arguments: Value) -> (String, String) {
        let error = run(tool, arguments).unwrap_err();
        assert_eq!(error.class, taskyard_domain::Class::InvalidArgument);
        (error.field.unwrap(), error.message)
    }

    #[test]
    fn defaults_are_filled_in() {
        let (values, _) = run("list_tasks", json!({})).unwrap();
        assert_eq!(Value::Object(values), json!({ "include_archived": false, "limit": 50 }));
    }

    #[test]
    fn camel_case_is_accepted_and_remembered() {
        let (values, spelling) = run("get_task", json!({ "taskId": "TY-1" })).unwrap();
        assert_eq!(values["task_id"], "TY-1");
        let error = spelling.restore(Error::invalid("task_id", "task_id: no such task").with_hint("see task_ids"));
        assert_eq!((error.field.as_deref(), error.message.as_str()), (Some("taskId"), "taskId: no such task"));
        assert_eq!(error.hint.as_deref(), Some("see task_ids"));
        assert_eq!(spelling.restore(Error::invalid("task_id[2]", "x")).field.as_deref(), Some("taskId[2]"));
    }

    #[test]
    fn both_spellings_at_once_are_refused() {
        let (_, message) = refused("get_task", json!({ "taskId": "TY-1", "task_id": "TY-1" }));
        assert!(message.contains("the same argument"), "{message}");
    }

    #[test]
    fn errors_name_the_argument_as_typed_and_never_its_value() {
        for (arguments, field) in [
            (json!({ "taskId": 7 }), "taskId"),
            (json!({ "task_id": "" }), "task_id"),
            (json!({ "task_id": null }), "task_id"),
            (json!({}), "task_id"),
            (json!({ "task_id": "TY-1", "secretWord": "hunter2" }), "secretWord"),
            (json!({ "task_id": "TY-1", "full": "hunter2" }), "full"),
        ] {
            let (named, message) = refused("get_task", arguments);
            assert_eq!(named, field);
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let limit = |value: Value| run("list_tasks", json!({ "limit": value })).map(|(v, _)| v["limit"].clone());
        assert_eq!(limit(json!(3.0)).unwrap(), json!(3));
        for bad in [json!("3"), json!(3.5), json!(0), json!(201), json!(-1), json!(1e300), json!(u64::MAX), json!(true)] {
            assert!(limit(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn closed_words_take_every_accepted_spelling() {
        let status = |text: &str| run("update_task_status", json!({ "task_id": "TY-1", "status": text })).map(|(v, _)| v["status"].clone());
        assert_eq!(status("Idle").unwrap(), "ready");
        assert_eq!(status("canceled").unwrap(), "cancelled");
        assert!(status("failed").unwrap_err().message.contains("ready, queued, cancelled or done"));
        assert!(status("").is_err());
        let (values, _) = run("add_task", json!({ "list_id": "x", "title": "y", "priority": "P1" })).unwrap();
        assert_eq!(values["priority"], "high");
        let (values, _) = run("review_task", json!({ "task_id": "TY-1", "decision": "rejectRerun" })).unwrap();
        assert_eq!((&values["decision"], &values["strategy"]), (&json!("reject_rerun"), &json!("merge")));
    }

    #[test]
    fn lists_are_counted_and_their_items_checked() {
        assert_eq!(refused("preview_merge_set", json!({ "taskIds": [] })).0, "taskIds");
        assert_eq!(refused("preview_merge_set", json!({ "task_ids": ["TY-1", ""] })).0, "task_ids[1]");
        assert_eq!(refused("preview_merge_set", json!({ "task_ids": vec!["x"; 101] })).0, "task_ids");
        assert_eq!(refused("answer_question", json!({ "question_bundle_id": "x", "answers": [1] })).0, "answers[0]");
        let (values, _) = run("answer_question", json!({ "question_bundle_id": "x", "answers": [{ "customText": "y" }] })).unwrap();
        assert_eq!(values["answers"], json!([{ "custom_text": "y" }]));
        assert!(run("answer_question", json!({ "question_bundle_id": "x", "answers": [{ "aB": 1, "a_b": 2 }] })).is_err());
    }

    #[test]
    fn what_clients_add_by_themselves_is_dropped() {
        let (values, _) = run("get_queue_state", json!({ "wait_for_previous": true, "waitForPrevious": true })).unwrap();
        assert!(values.is_empty());
    }

    #[test]
    fn blank_is_a_value_where_it_means_something() {
        let (values, _) = run("wait_for_task_change", json!({ "task_ids": ["TY-1"], "cursor": "" })).unwrap();
        assert!(!values.contains_key("cursor"));
        assert!(run("set_task_config", json!({ "task_id": "TY-1", "model": "" })).is_ok());
        assert!(run("set_task_config", json!({ "task_id": "TY-1", "target_branch": " " })).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z_]{1,10}", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_arguments_are_accepted_or_refused_with_a_field(
            at in 0usize..200,
            values in prop::collection::vec(any_json(), 0..6),
            odd in prop::collection::btree_map("[a-zA-Z_]{1,12}", any_json(), 0..2),
        ) {
            let all: Vec<_> = tools::all().collect();
            let tool = all[at % all.len()];
            let mut arguments: Map<String, Value> = odd.into_iter().collect();
            for (param, value) in tool.params.iter().zip(values) {
                arguments.insert(param.name.to_owned(), value);
            }
            match check(tool, arguments) {
                Ok((values, _)) => {
                    for param in tool.params.iter().filter(|p| p.required || p.preset.is_some()) {
                        prop_assert!(values.contains_key(param.name));
                    }
                    prop_assert!(check(tool, values).is_ok(), "checked arguments pass again");
                }
                Err(error) => prop_assert!(error.field.is_some()),
            }
        }
    }
}
