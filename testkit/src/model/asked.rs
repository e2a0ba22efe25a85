//! A request to a model, the same for every API: what an answer depends on.

use serde_json::Value;

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages.
    Messages,
    /// `OpenAI`'s Responses.
    Responses,
    /// `OpenAI`'s Chat Completions.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

/// A tool that the agent offers.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub name: String,
    /// The group it is in, where the API has groups.
    pub namespace: Option<String>,
    /// Takes text instead of arguments.
    pub free_form: bool,
    /// The schema of its arguments.
    pub schema: Value,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub api: Api,
    pub model: String,
    /// Whether the answer is to be streamed.
    pub streams: bool,
    pub tools: Vec<Tool>,
    /// Answers that the history holds.
    pub turns: usize,
    /// What the person said last.
    pub user: String,
    /// The last tool's result.
    pub result: String,
    /// All tools' results.
    pub results: String,
    /// Everything that was said, to look for facts in.
    pub said: String,
    /// The schema of the answer that is wanted, if one is.
    pub schema: Option<Value>,
    /// Texts at which the answer ends.
    pub stops: Vec<String>,
}

impl Asked {
    pub fn new(api: Api, body: &Value) -> Self {
        Self {
            api,
            model: body["model"].as_str().unwrap_or("model").to_owned(),
            streams: body["stream"] == true,
            tools: Vec::new(),
            turns: 0,
            user: String::new(),
            result: String::new(),
            results: String::new(),
            said: String::new(),
            schema: None,
            stops: Vec::new(),
        }
    }

    /// Notes what system and developer texts say.
    pub fn told(&mut self, text: &str) {
        self.said.push_str(text);
        self.said.push('\n');
    }

    /// Notes a text in the person's name; what agents put around it is taken off.
    pub fn user_said(&mut self, text: &str) {
        self.told(text);
        let own = without_tags(text);
        if !own.is_empty() && !own.starts_with("# AGENTS.md") && !own.starts_with("[SYSTEM]") {
            self.user = own;
        }
    }

    /// Notes a tool's result.
    pub fn tool_gave(&mut self, result: String) {
        self.results.push_str(&result);
        self.results.push('\n');
        self.result = result;
    }

    /// The UUID that stands behind the last `name` in a tool's result.
    pub fn uuid_behind(&self, name: &str) -> Option<&str> {
        let behind = &self.results[self.results.rfind(name)? + name.len()..];
        let start = behind.find(|c: char| c.is_ascii_hexdigit())?;
        behind.get(start..start + 36).filter(|uuid| uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
    }

    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The folder the agent works in, as it told the model.
    pub fn cwd(&self) -> Option<String> {
        const MARKS: &[&str] = &[
            "primary working directory:",
            "current working directory:",
            "working directory is:",
            "working directory:",
            "<cwd>",
            "working in the directory:",
            "workspace directories:",
            "workspace directories:**",
            "cwd:",
            "\"cwd\":",
            "workspace root folder:",
        ];
        let lower = self.said.to_ascii_lowercase();
        MARKS.iter().find_map(|mark| {
            lower.match_indices(mark).find_map(|(at, mark)| {
                let behind = self.said[at + mark.len()..].trim_start_matches([' ', '\n', '*', '-', '`', '"', '\'', '(', ':']);
                let path = behind.split(['\n', '`', '"', '<', '\'', ')', '\\']).next().unwrap_or_default().trim_end();
                path.starts_with('/').then(|| path.trim_end_matches(['.', ',']).to_owned())
            })
        })
    }

    /// Whether this is no part of the work: a title, a summary, a verdict on a call, a guess at the next prompt.
    pub fn is_side(&self) -> bool {
        const BEGINNINGS: &[&str] =
            &["The following is the Codex agent history", "## Pending tool call to classify", "[SUGGESTION MODE", "Managed memory has "];
        self.tools.is_empty() || self.said.contains("<guardian_") || BEGINNINGS.iter().any(|beginning| self.user.starts_with(beginning))
    }
}

/// The text without elements such as `<system-reminder>…</system-reminder>` at its beginning and end.
fn without_tags(text: &str) -> String {
    let mut text = text.trim();
    loop {
        let before = text;
        if let Some(name) = tag(text)
            && let Some(end) = text.find(&format!("</{name}>"))
        {
            text = text[end + name.len() + 3..].trim();
        }
        if text.ends_with('>')
            && let Some(at) = text.rfind("</")
            && let name = &text[at + 2..text.len() - 1]
            && let Some(start) = text.find(&format!("<{name}"))
        {
            text = text[..start].trim();
        }
        if text == before {
            return text.to_owned();
        }
    }
}

fn tag(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('<')?;
    let name = rest.split(['>', ' ', '\n']).next()?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    plain.then_some(name)
}

/// All texts of a content: a string, or parts with texts in them.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(text_of).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        Value::Object(part) => ["text", "output", "content"].iter().find_map(|key| part.get(*key)).map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_put_around_a_prompt_is_taken_off() {
        let cases = [
            ("Do it", "Do it"),
            ("<system-reminder>\nnever\n</system-reminder>\nDo it\n<budget a=\"1\">x</budget>", "Do it"),
            ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_tags(text), expected);
        }
    }

    #[test]
    fn the_folder_is_found_in_what_agents_say() {
        let cases = [
            "Working directory: /tmp/a b/c\nIs a git repository: yes",
            "x\n - Primary working directory: `/tmp/a b/c`",
            "<cwd>/tmp/a b/c</cwd>",
            "Workspace Directories:**\n  - /tmp/a b/c\nmore",
            "I'm currently working in the directory: /tmp/a b/c",
            r#"{"cwd": "/tmp/a b/c"}"#,
        ];
        for case in cases {
            let mut asked = Asked::new(Api::Chat, &Value::Null);
            asked.told(case);
            assert_eq!(asked.cwd().as_deref(), Some("/tmp/a b/c"), "{case}");
        }
    }
}
