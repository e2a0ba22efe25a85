//! Arguments against the published schemas: what a schema allows is taken, what it forbids is refused by name, and
//! nothing else than these two happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use taskyard_domain::{Class, Error};
use taskyard_mcp::tool::Tool;
use taskyard_mcp::{arguments, result, schema, tools};
use taskyard_testkit::property::{any_json, config};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/arguments.txt");

fn tool() -> impl Strategy<Value = &'static Tool> {
    prop::sample::select(tools::all().collect::<Vec<_>>())
}

/// The published properties of `tool`, with whether each is required.
fn published(tool: &Tool) -> Vec<(String, Value, bool)> {
    let schema = Value::Object(schema::input(tool));
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().unwrap().clone();
    properties.into_iter().map(|(name, of)| (name.clone(), of, required.contains(&name.into()))).collect()
}

/// A value that the published property `of` allows. Texts aren't blank: an empty one is a value only where it means something.
fn allowed(of: &Value, index: Index, text: &str, number: f64) -> Value {
    match of["type"].as_str().unwrap() {
        "string" => match of["enum"].as_array() {
            Some(words) => words[index.index(words.len())].clone(),
            None => json!(text),
        },
        "integer" => {
            let (least, most) = (of["minimum"].as_i64().unwrap_or(i64::MIN), of["maximum"].as_i64().unwrap_or(i64::MAX));
            json!([least, most, least.midpoint(most)][index.index(3)])
        }
        "number" => json!(number),
        "boolean" => json!(index.index(2) == 0),
        "object" => json!({ "a": text }),
        "array" => {
            let (least, most) = (of["minItems"].as_u64().unwrap_or(0), of["maxItems"].as_u64().unwrap_or(3));
            let count = [least, most.min(least + 2)][index.index(2)];
            let item = if of["items"]["type"] == "string" { json!(text) } else { json!({ "field": text }) };
            Value::Array(vec![item; usize::try_from(count).unwrap()])
        }
        other => panic!("the type {other}"),
    }
}

/// A value that the published property `of` forbids.
fn forbidden(of: &Value, index: Index) -> Value {
    let others = match of["type"].as_str().unwrap() {
        "string" if of["enum"].is_array() => vec![json!("no such word"), json!(7), json!(["a"]), json!("")],
        "string" => vec![json!(7), json!(true), json!(["a"]), json!({})],
        "integer" => {
            let mut values = vec![json!("7"), json!(7.5), json!(true), json!([7]), json!(1e300)];
            values.extend(of["minimum"].as_i64().and_then(|least| least.checked_sub(1)).map(Value::from));
            values.extend(of["maximum"].as_i64().and_then(|most| most.checked_add(1)).map(Value::from));
            values
        }
        "number" => vec![json!("7"), json!(true), json!({})],
        "boolean" => vec![json!("true"), json!(1), json!([])],
        "object" => vec![json!("a"), json!([]), json!(1)],
        "array" => {
            let wrong = if of["items"]["type"] == "string" { json!(7) } else { json!("a") };
            let mut values = vec![json!("a"), json!({}), json!([wrong])];
            let most = of["maxItems"].as_u64().and_then(|most| usize::try_from(most + 1).ok());
            let item = if of["items"]["type"] == "string" { json!("a") } else { json!({}) };
            values.extend(most.map(|count| Value::Array(vec![item; count])));
            values.extend(of["minItems"].as_u64().filter(|least| *least > 0).map(|_| json!([])));
            values
        }
        other => panic!("the type {other}"),
    };
    others[index.index(others.len())].clone()
}

fn valid(tool: &Tool, chosen: &[(bool, Index)], text: &str, number: f64) -> Map<String, Value> {
    let mut chosen = chosen.iter().cycle();
    let mut arguments = Map::new();
    for (name, of, required) in published(tool) {
        let (given, index) = chosen.next().unwrap();
        if required || *given {
            arguments.insert(name, allowed(&of, *index, text, number));
        }
    }
    arguments
}

/// `task_id` as `taskId`.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
}

/// A refusal names what it is about, and clients get it as a tool's result, never as a fault of the protocol.
fn check_refusal(error: Error, name: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(error.class, Class::InvalidArgument);
    let field = error.field.clone().unwrap_or_default();
    prop_assert!(field == name || field.starts_with(&format!("{name}[")), "{} is named instead of {}", field, name);
    prop_assert!(error.message.contains(name), "{}", error.message);
    let told = serde_json::to_value(result::result(Err(error))).unwrap();
    prop_assert_eq!(&told["isError"], &json!(true));
    prop_assert_eq!(&told["structuredContent"]["error"]["code"], &json!("INVALID_ARGUMENT"));
    prop_assert!(told["structuredContent"]["error"]["field"].is_string());
    Ok(())
}

proptest! {
    #![proptest_config(config(512, KEPT))]

    #[test]
    fn what_the_schema_allows_is_taken_in_either_spelling(
        tool in tool(), chosen in prop::collection::vec(any::<(bool, Index)>(), 8), text in "[a-zA-Z0-9é][ -~é]{0,20}", number in -1e9f64..1e9, camels in any::<bool>()
    ) {
        let arguments = valid(tool, &chosen, &text, number);
        let typed = if camels { arguments.iter().map(|(name, value)| (camel(name), value.clone())).collect() } else { arguments.clone() };
        let (checked, _) = arguments::check(tool, typed).map_err(|error| TestCaseError::fail(format!("{}: {error} in {arguments:?}", tool.name)))?;
        for (name, value) in &arguments {
            prop_assert_eq!(checked.get(name), Some(value), "{} of {}", name, tool.name);
        }
        prop_assert!(arguments::check(tool, checked).is_ok(), "what was checked passes again");
    }

    #[test]
    fn what_the_schema_forbids_is_refused_by_name(
        tool in tool(), chosen in prop::collection::vec(any::<(bool, Index)>(), 8), at in any::<Index>(), how in any::<Index>(), camels in any::<bool>()
    ) {
        let properties = published(tool);
        prop_assume!(!properties.is_empty());
        let (name, of, required) = &properties[at.index(properties.len())];
        let mut arguments = valid(tool, &chosen, "text", 1.0);
        arguments.remove(name);
        let typed = if camels { camel(name) } else { name.clone() };
        if *required && how.index(4) == 0 {
            let error = arguments::check(tool, arguments).unwrap_err();
            return check_refusal(error, name);
        }
        arguments.insert(typed.clone(), forbidden(of, how));
        match arguments::check(tool, arguments.clone()) {
            Err(error) => check_refusal(error, &typed)?,
            Ok(_) => prop_assert!(false, "{} took {:?}", tool.name, arguments),
        }
    }

    #[test]
    fn an_argument_that_nobody_knows_is_refused_by_name(tool in tool(), chosen in prop::collection::vec(any::<(bool, Index)>(), 8), name in "[a-zA-Z]{1,12}", value in any_json()) {
        let unknown = format!("x{name}x");
        let mut arguments = valid(tool, &chosen, "text", 1.0);
        arguments.insert(unknown.clone(), value);
        let error = arguments::check(tool, arguments).unwrap_err();
        prop_assert!(error.hint.is_some(), "the hint says what it takes");
        check_refusal(error, &unknown)?;
    }

    #[test]
    fn any_object_is_taken_or_refused(tool in tool(), fields in prop::collection::btree_map(".{0,12}", any_json(), 0..5), at in prop::collection::vec(any::<Index>(), 0..4), values in prop::collection::vec(any_json(), 4)) {
        let mut arguments: Map<String, Value> = fields.into_iter().collect();
        for (at, value) in at.iter().zip(values) {
            if !tool.params.is_empty() {
                arguments.insert(tool.params[at.index(tool.params.len())].name.to_owned(), value);
            }
        }
        if let Err(error) = arguments::check(tool, arguments) {
            prop_assert!(error.class == Class::InvalidArgument && error.field.is_some());
        }
    }
}
