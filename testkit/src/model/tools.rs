//! From steps to calls: which of the tools that the agent offers does what a step wants, and how it wants its arguments.

use super::asked::{Asked, Tool};
use serde_json::{Value, json};

/// A tool's call in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub id: String,
    pub tool: String,
    pub namespace: Option<String>,
    pub form: Form,
}

/// What a call carries.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Arguments(Value),
    Text(String),
    /// A search for tools that aren't offered yet; the agent does it and asks again.
    Search(Value),
}

impl Call {
    fn of(tool: &Tool, form: Form) -> Self {
        Self { id: String::new(), tool: tool.name.clone(), namespace: tool.namespace.clone(), form }
    }

    /// The arguments as JSON text, or the text as it is.
    pub fn text(&self) -> String {
        match &self.form {
            Form::Arguments(arguments) | Form::Search(arguments) => arguments.to_string(),
            Form::Text(text) => text.clone(),
        }
    }
}

/// Runs `command`. The names differ as do the arguments, of which each tool gets those that its schema knows.
pub(super) fn run(asked: &Asked, command: &str) -> Option<Call> {
    const NAMES: &[&str] =
        &["Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_commands", "execute_command", "terminal"];
    let tool = NAMES.iter().find_map(|name| asked.tool(name))?;
    let command_words = json!(["bash", "-lc", command]);
    let takes_words = tool.schema["properties"]["command"]["type"] == "array";
    let arguments = json!({
        "command": if takes_words { command_words } else { command.into() },
        "cmd": command,
        "commands": [command],
        "description": "A scripted command",
        "is_background": false,
        "requires_approval": false,
    });
    Some(Call::of(tool, Form::Arguments(known(arguments, tool))))
}

/// Writes `content` to `path`, by a patch or the command line where there is no tool for whole files.
pub(super) fn write(asked: &Asked, path: &str, content: &str) -> Option<Call> {
    const NAMES: &[&str] = &["Write", "write", "write_file", "create", "apply_patch", "editor", "write_to_file", "create_file"];
    let Some(tool) = NAMES.iter().find_map(|name| asked.tool(name)) else {
        return run(asked, &format!("mkdir -p \"$(dirname '{path}')\" && printf %s '{}' > '{path}'", content.replace('\'', r"'\''")));
    };
    if tool.name != "apply_patch" {
        let arguments = json!({
            "file_path": path, "filePath": path, "path": path,
            "content": content, "file_text": content, "new_text": content,
        });
        return Some(Call::of(tool, Form::Arguments(known(arguments, tool))));
    }
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n");
    if tool.free_form {
        return Some(Call::of(tool, Form::Text(patch)));
    }
    let names = tool.schema["properties"].as_object().map(|properties| properties.keys().cloned().collect::<Vec<_>>());
    let name = names.into_iter().flatten().next().unwrap_or_else(|| "input".into());
    Some(Call::of(tool, Form::Arguments(json!({ name: patch }))))
}

/// Calls an MCP server's tool. One that isn't offered is searched for by Codex's way, else called by the name that agents
/// give it, which finds it in other agents that have a search too.
pub(super) fn mcp(asked: &Asked, server: &str, tool: &str, arguments: Value) -> Call {
    let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let (server_name, tool_name) = (plain(server), plain(tool));
    let fit = |offered: &Tool| {
        let full = plain(&format!("{}__{}", offered.namespace.as_deref().unwrap_or_default(), offered.name));
        let named = full.ends_with(&tool_name) && full[..full.len() - tool_name.len()].chars().last().is_none_or(|c| c == '_');
        u8::from(named) * (1 + u8::from(full.contains(&server_name)))
    };
    if let Some(best) = asked.tools.iter().max_by_key(|offered| fit(offered)).filter(|best| fit(best) > 0) {
        return Call::of(best, Form::Arguments(arguments));
    }
    let call = |tool: String, namespace: Option<String>, form: Form| Call { id: String::new(), tool, namespace, form };
    if asked.api == super::asked::Api::Responses {
        if asked.tool("tool_search").is_some() {
            return call("tool_search".into(), None, Form::Search(json!({ "query": format!("{server} {tool}") })));
        }
        return call(tool.into(), Some(format!("mcp__{server}")), Form::Arguments(arguments));
    }
    call(format!("mcp__{server}__{tool}"), None, Form::Arguments(arguments))
}

/// A call of exactly this tool, offered or not.
pub(super) fn exactly(asked: &Asked, tool: &str, arguments: Value) -> Call {
    let namespace = asked.tool(tool).and_then(|tool| tool.namespace.clone());
    let form = match arguments {
        Value::String(text) => Form::Text(text),
        arguments => Form::Arguments(arguments),
    };
    Call { id: String::new(), tool: tool.into(), namespace, form }
}

/// The arguments that the tool's schema names; all of them when it names none.
fn known(mut arguments: Value, tool: &Tool) -> Value {
    if let (Some(arguments), Some(properties)) = (arguments.as_object_mut(), tool.schema["properties"].as_object()) {
        arguments.retain(|name, _| properties.contains_key(name));
    }
    arguments
}

/// A small value that fits `schema`, for side requests that want one.
pub(super) fn instance(schema: &Value, depth: u8) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    if let Some(one) = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema[*key].get(0)) {
        return if depth == 0 { Value::Null } else { instance(one, depth - 1) };
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let kind = kind.unwrap_or(if schema["properties"].is_object() { "object" } else { "string" }).to_lowercase();
    match kind.as_str() {
        "object" if depth > 0 => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let required = schema["required"].as_array();
            let wanted = |name: &String| required.is_none_or(|required| required.iter().any(|one| one.as_str() == Some(name)));
            properties.iter().filter(|(name, _)| wanted(name)).map(|(name, schema)| (name.clone(), instance(schema, depth - 1))).collect()
        }
        "object" => json!({}),
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or_default().min(3);
            (0..least).map(|_| instance(&schema["items"], depth.saturating_sub(1))).collect()
        }
        "integer" | "number" => 1.into(),
        "boolean" => false.into(),
        "null" => Value::Null,
        _ => "ok".into(),
    }
}
