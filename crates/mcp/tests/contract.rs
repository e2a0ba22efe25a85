//! Holds the registry against the contract, and its schemas against what clients in the field accept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use serde_json::{Map, Value};
use serde_yaml_ng::Value as Yaml;
use std::collections::{BTreeMap, BTreeSet};
use taskyard_mcp::tool::{Preset, Tool, Type};
use taskyard_mcp::{schema, tools, toolset};

/// Tools of the contract that aren't built. Building one means taking it off this list.
const ABSENT: &[&str] = &[
    "add_branch_to_task",
    "add_task_attachment",
    "archive_task",
    "ask_user_question",
    "batch_add_tasks",
    "batch_cancel_tasks",
    "batch_cleanup_task_worktrees",
    "batch_delete_tasks",
    "batch_get_tasks",
    "batch_set_my_day",
    "batch_update_task_status",
    "create_agent_profile",
    "create_child_task",
    "create_executor_profile",
    "create_task",
    "create_task_plan",
    "create_workflow",
    "create_workflow_step",
    "delete_agent_profile",
    "delete_executor_profile",
    "delete_task_plan",
    "delete_workflow",
    "delete_workflow_step",
    "get_daily_prep_candidates",
    "get_mcp_config",
    "get_message_status",
    "get_task_conversation",
    "get_task_document",
    "get_task_plan",
    "import_workflow",
    "list_agent_profiles",
    "list_executor_profiles",
    "list_executors",
    "list_related_tasks",
    "list_repositories",
    "list_task_attachments",
    "list_task_documents",
    "list_workflow_steps",
    "list_workflows",
    "message_task",
    "move_task",
    "remove_task_attachment",
    "reorder_workflow_steps",
    "set_my_day",
    "suggest_improvement",
    "update_agent",
    "update_agent_profile",
    "update_executor_profile",
    "update_mcp_config",
    "update_task_plan",
    "update_task_state",
    "update_workflow",
    "update_workflow_step",
    "write_task_document",
];

fn contract() -> Yaml {
    serde_yaml_ng::from_str(include_str!("contract/tools.yaml")).unwrap()
}

fn names(value: &Yaml) -> Vec<String> {
    value.as_sequence().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

#[test]
fn exactly_the_listed_tools_are_absent() {
    let contract = contract();
    let all: BTreeSet<&str> = contract["tools"].as_mapping().unwrap().keys().map(|k| k.as_str().unwrap()).collect();
    let built: BTreeSet<&str> = tools::all().map(|t| t.name).collect();
    assert_eq!(built.difference(&all).collect::<Vec<_>>(), Vec::<&&str>::new(), "not in the contract");
    let missing: Vec<&str> = all.difference(&built).copied().collect();
    assert_eq!(missing, ABSENT);
}

#[test]
fn every_tool_is_as_the_contract_says() {
    let contract = contract();
    for tool in tools::all() {
        let entry = &contract["tools"][tool.name];
        let flag = |name: &str| entry[name].as_bool().unwrap_or(false);
        assert_eq!((tool.read_only, tool.idempotent, tool.destructive), (flag("ro"), flag("idem"), flag("destr")), "{}", tool.name);
        let expected: BTreeMap<String, String> = entry["params"]
            .as_mapping()
            .unwrap()
            .iter()
            .map(|(name, spec)| (name.as_str().unwrap().to_owned(), spec.as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(described(tool), expected, "{}", tool.name);
    }
}

/// The parameters of `tool` in the contract's notation.
fn described(tool: &Tool) -> BTreeMap<String, String> {
    let describe = |param: &taskyard_mcp::tool::Param| {
        let mut text = match param.kind {
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Object => "object",
            Type::Strings => "strings",
            Type::Objects => "objects",
        }
        .to_owned();
        if let Some(words) = param.words {
            text += &format!("{{{}}}", words.allowed.join("|"));
        }
        match param.preset {
            None => {}
            Some(Preset::Bool(value)) => text += &format!("={value}"),
            Some(Preset::Int(value)) => text += &format!("={value}"),
            Some(Preset::Text(value)) => text += &format!("={value}"),
        }
        if param.required {
            text.push('!');
        }
        text
    };
    tool.params.iter().map(|param| (param.name.to_owned(), describe(param))).collect()
}

#[test]
fn sets_and_modes_are_the_contracts_without_what_is_absent() {
    let contract = contract();
    let built = |names: Vec<String>| names.into_iter().filter(|name| tools::find(name).is_some()).collect::<BTreeSet<_>>();
    for (name, _) in toolset::TOOLSETS {
        let here: BTreeSet<String> = toolset::expand(name).unwrap().into_iter().map(str::to_owned).collect();
        assert_eq!(here, built(names(&contract["toolsets"][*name])), "toolset {name}");
    }
    let sets = contract["toolsets"].as_mapping().unwrap();
    for (name, _) in toolset::MODES {
        let members = names(&contract["modes"][*name]);
        let all = members.into_iter().flat_map(|member| sets.get(member.as_str()).map_or_else(|| vec![member], names));
        let here: BTreeSet<String> = toolset::expand(name).unwrap().into_iter().map(str::to_owned).collect();
        assert_eq!(here, built(all.collect()), "mode {name}");
    }
}

#[test]
fn every_built_tool_is_in_the_widest_mode() {
    let external = toolset::expand("external").unwrap();
    let outside: Vec<&str> = tools::all().map(|t| t.name).filter(|name| !external.contains(name)).collect();
    assert_eq!(outside, Vec::<&str>::new());
}

fn size(mode: &str) -> usize {
    let tools: Vec<_> = toolset::Selection::mode(mode).unwrap().tools().into_iter().map(|tool| schema::listed(tool, "")).collect();
    serde_json::to_string(&serde_json::json!({ "tools": tools })).unwrap().len()
}

#[test]
fn catalogues_are_small() {
    for (mode, most) in [("core", 16 << 10), ("claims", 6 << 10), ("external", 72 << 10)] {
        let size = size(mode);
        println!("{mode}: {size} bytes");
        assert!(size <= most, "{mode} is {size} bytes; {most} are allowed");
    }
}

/// G4: what a client passes on to its model (name, description, parameters) is at most about 10,000 tokens, whatever
/// the mode; four bytes make a token.
#[test]
fn catalogues_are_small_as_a_model_reads_them() {
    for (mode, _) in toolset::MODES {
        let tools = toolset::Selection::mode(mode).unwrap().tools();
        let read = |tool: &&'static Tool| {
            let listed = serde_json::to_value(schema::listed(tool, "")).unwrap();
            serde_json::json!({ "name": listed["name"], "description": listed["description"], "input_schema": listed["inputSchema"] })
                .to_string()
                .len()
        };
        let size: usize = tools.iter().map(read).sum();
        println!("{mode}: {size} bytes");
        assert!(size <= 40_000, "{mode} is {size} bytes");
    }
}

const ALLOWED: [&str; 11] =
    ["type", "properties", "required", "items", "description", "default", "enum", "minimum", "maximum", "minItems", "maxItems"];

fn lint(path: &str, node: &Map<String, Value>) {
    for key in node.keys() {
        assert!(ALLOWED.contains(&key.as_str()), "{path} has {key}");
    }
    if let Some(kind) = node.get("type") {
        assert!(kind.is_string(), "{path} has a type list");
        assert_eq!(kind == "array", node.contains_key("items"), "{path}: items");
    }
    if let Some(description) = node.get("description") {
        assert!(!description.as_str().unwrap().contains('\n'), "{path} has a description of several lines");
    }
    for (name, property) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        lint(&format!("{path}.{name}"), property.as_object().unwrap());
    }
    if let Some(items) = node.get("items") {
        lint(&format!("{path}[]"), items.as_object().unwrap());
    }
}

#[test]
fn schemas_have_nothing_that_a_client_trips_over() {
    for tool in tools::all() {
        let listed = serde_json::to_value(schema::listed(tool, "_kandev")).unwrap();
        assert!(listed["name"].as_str().unwrap().len() <= 40, "{}", tool.name);
        assert!((20..=160).contains(&tool.description.len()), "{}: {}", tool.name, tool.description.len());
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(listed["annotations"][hint].is_boolean(), "{} has no {hint}", tool.name);
        }
        for side in ["inputSchema", "outputSchema"] {
            let root = listed[side].as_object().unwrap();
            assert_eq!((root["type"].as_str(), root["properties"].is_object()), (Some("object"), true), "{} {side}", tool.name);
            lint(&format!("{} {side}", tool.name), root);
        }
        for property in listed["inputSchema"]["properties"].as_object().unwrap().values() {
            assert!(!property["description"].as_str().unwrap().is_empty(), "{}", tool.name);
        }
        let output = &listed["outputSchema"];
        assert!(output.get("required").is_none() && output["properties"]["error"]["type"] == "object", "{}", tool.name);
    }
}
