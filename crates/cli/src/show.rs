//! Shows answers to a person, or as JSON. Knows no rule; missing fields show as a dash.

mod changes;
mod table;

use crate::fail::{Result, machine};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use table::Table;

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// As JSON, exactly as the server answered.
    pub json: bool,
}

impl Show {
    fn put(self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let text = text.trim_end_matches('\n');
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            // `taskyard … | head` closes the pipe early; that is no failure.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|e| machine("writing standard output", e)),
        }
    }

    fn json(self, answer: &Value) -> Result<()> {
        self.put(&format!("{answer:#}"))
    }

    /// Nothing for a person; the answer for a program.
    pub fn json_only(self, answer: &Value) -> Result<()> {
        if self.json { self.json(answer) } else { Ok(()) }
    }

    /// A sentence.
    pub fn done(self, answer: &Value, sentence: &str) -> Result<()> {
        if self.json { self.json(answer) } else { self.put(sentence) }
    }

    /// Every field on a line.
    pub fn fields(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let mut text = String::new();
        lines(answer, "", &mut text);
        self.put(&text)
    }

    /// The rows of `key` as a table; says when there is more.
    pub fn rows(self, answer: &Value, key: &str, columns: &[(&str, &str)]) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let rows = answer[key].as_array().map(Vec::as_slice).unwrap_or_default();
        if rows.is_empty() {
            return self.put(&format!("no {key}"));
        }
        let mut table = Table::new(columns.iter().map(|(_, title)| *title));
        for row in rows {
            table.row(columns.iter().map(|(field, _)| plain(&row[*field])));
        }
        let more = answer["next_cursor"].as_str().map(|cursor| format!("more with --cursor {cursor}\n")).unwrap_or_default();
        self.put(&format!("{table}{more}"))
    }

    /// Lists with their counts.
    pub fn lists(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let mut table = Table::new(["LIST", "NAME", "TASKS"]);
        for list in answer["lists"].as_array().into_iter().flatten() {
            let counts = list.get("counts").or_else(|| list.get("task_counts")).cloned().unwrap_or_default();
            let counts: Vec<String> = counts.as_object().into_iter().flatten().map(|(status, n)| format!("{n} {status}")).collect();
            table.row([plain(&list["id"]), plain(&list["name"]), counts.join(", ")]);
        }
        for list in answer["further"].as_array().into_iter().flatten() {
            table.row([plain(&list["id"]), plain(&list["name"]), "…".into()]);
        }
        let more = answer["not_shown"].as_u64().map(|more| format!("and {more} more lists\n")).unwrap_or_default();
        self.put(&format!("{table}{more}"))
    }

    /// Known agents, the installed and configured ones first.
    pub fn agents(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let mut table = Table::new(["AGENT", "DRIVER", "INSTALLED", "PROFILES", "LIMITED UNTIL"]);
        for agent in answer["agents"].as_array().into_iter().flatten() {
            let profiles: Vec<String> = agent["profiles"].as_array().into_iter().flatten().map(|p| plain(&p["name"])).collect();
            let installed = match (agent["installed"].as_bool(), agent["version"].as_str()) {
                (Some(true), Some(version)) => version.to_owned(),
                (Some(true), None) => "yes".into(),
                _ => "no".into(),
            };
            table.row([plain(&agent["name"]), plain(&agent["driver"]), installed, profiles.join(", "), plain(&agent["limited_until"])]);
        }
        self.put(&table.to_string())
    }

    /// A task with what belongs to it.
    pub fn task(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let mut text = format!("{} {}\n", plain(&answer["short_id"]), plain(&answer["title"]));
        for key in [
            "id",
            "status",
            "last_outcome",
            "failure",
            "priority",
            "list",
            "list_id",
            "parent_id",
            "due_at",
            "not_before",
            "created_at",
            "updated_at",
        ] {
            if !answer[key].is_null() {
                text += &format!("  {key:<13} {}\n", plain(&answer[key]));
            }
        }
        if answer["merge_open"] == true {
            text += "  a merge is open: `taskyard task merge --continue` or `--abort`\n";
        }
        for key in ["worktree", "latest_run", "open_questions", "blocked_by", "blocked_reasons", "blocks", "children"] {
            if !answer[key].is_null() && answer[key] != Value::Array(Vec::new()) && answer[key]["count"] != 0 {
                text += &format!("  {key}\n");
                lines(&answer[key], "    ", &mut text);
            }
        }
        if let Some(description) = answer["description"].as_str().filter(|d| !d.is_empty()) {
            text += &format!("\n{description}\n");
        }
        self.put(&text)
    }

    /// What a list sets and what is effective.
    pub fn config(self, answer: &Value) -> Result<()> {
        self.fields(answer)
    }

    /// What runs and what waits.
    pub fn queue(self, answer: &Value, names: &BTreeMap<String, String>) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let name = |id: &Value| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_else(|| plain(id));
        let mut text = format!("slots: {} of {}\n", plain(&answer["effective_slots"]), plain(&answer["configured_slots"]));
        for reason in answer["reasons"].as_array().into_iter().flatten() {
            text += &format!("  {}\n", plain(reason));
        }
        for slot in answer["active_slots"].as_array().into_iter().flatten() {
            text += &format!("runs ({}): {} since {}\n", plain(&slot["slot"]), name(&slot["task_id"]), plain(&slot["started_at"]));
        }
        for run in answer["without_slot"].as_array().into_iter().flatten() {
            text += &format!("waits for a person: {} since {}\n", name(&run["task_id"]), plain(&run["started_at"]));
        }
        for task in answer["waiting"].as_array().into_iter().flatten() {
            let until = task["until"].as_str().map(|at| format!(" until {at}")).unwrap_or_default();
            text += &format!("waits ({}{until}): {}\n", plain(&task["reason"]), name(&task["task_id"]));
        }
        self.put(&text)
    }

    /// Worktrees with what is unsaved in them.
    pub fn worktrees(self, answer: &Value) -> Result<()> {
        let columns = [
            ("short_id", "TASK"),
            ("state", "STATE"),
            ("branch", "BRANCH"),
            ("disk_bytes", "BYTES"),
            ("unsaved", "UNSAVED"),
            ("path", "PATH"),
        ];
        self.rows(answer, "worktrees", &columns)
    }

    /// Open permission requests and how to answer them.
    pub fn questions(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let all = answer["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if all.is_empty() {
            return self.put("nobody asks for anything");
        }
        let mut text = String::new();
        for question in all {
            text +=
                &format!("{}  {}  {}\n", plain(&question["question_bundle_id"]), plain(&question["short_id"]), plain(&question["title"]));
            let options = question["body"]["options"].as_array().or_else(|| question["options"].as_array());
            for option in options.into_iter().flatten() {
                text += &format!("    --option {:<20} {}\n", plain(&option["option_id"]), plain(&option["label"]));
            }
        }
        text += "answer with `taskyard task answer TASK --allow`, `--deny [REASON]` or `--option OPTION`\n";
        self.put(&text)
    }

    /// A run's log.
    pub fn log(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        if answer["available"] != true {
            return self.put("there is no log yet");
        }
        let cut = if answer["truncated"] == true { "[… more with --tail]\n" } else { "" };
        self.put(&format!("{cut}{}", answer["log"].as_str().unwrap_or_default()))
    }
}

/// Fields of an object that fit on one line.
const WIDE: usize = 4;

/// A value as one word: a dash for nothing, text without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "-".into(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        // A value with where it comes from.
        Value::Object(map) if map.len() == 2 && map.contains_key("source") && map.contains_key("value") => {
            format!("{} ({})", plain(&map["value"]), plain(&map["source"]))
        }
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| format!("{k}={}", plain(v))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn lines(value: &Value, indent: &str, text: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Object(inner) if inner.len() > WIDE || inner.values().any(|v| v.is_object() || v.is_array()) => {
                        *text += &format!("{indent}{key}\n");
                        lines(value, &format!("{indent}  "), text);
                    }
                    _ => *text += &format!("{indent}{key:<20} {}\n", plain(value)),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|v| *text += &format!("{indent}{}\n", plain(v))),
        other => *text += &format!("{indent}{}\n", plain(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_say_every_value_and_where_it_comes_from() {
        let mut text = String::new();
        let effective = json!({ "model": { "value": "opus", "source": "list" }, "max_turns": { "value": null, "source": "built_in" } });
        lines(&json!({ "effective": effective, "few": { "a": 1 }, "many": { "a": 1, "b": 2, "c": 3, "d": 4, "e": 5 } }), "", &mut text);
        for line in [
            "  model                opus (list)",
            "  max_turns            - (built_in)",
            "few                  a=1",
            "  e                    5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} in {text}");
        }
    }
}
