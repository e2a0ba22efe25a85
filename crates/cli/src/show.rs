//! Shows answers to a person, or as JSON. Knows no rule; missing fields show as a dash.

mod changes;
mod table;

use crate::fail::{Result, machine};
use crate::{terminal, words};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// As JSON, exactly as the server answered.
    pub json: bool,
}

impl Show {
    fn put(self, text: &str) -> Result<()> {
        self.bytes(&terminal::clean(text))
    }

    /// Exactly what programs are to read.
    fn json(self, answer: &Value) -> Result<()> {
        self.bytes(&format!("{answer:#}"))
    }

    fn bytes(self, text: &str) -> Result<()> {
        let line = format!("{}\n", text.trim_end_matches('\n'));
        terminal::write(&mut std::io::stdout().lock(), line.as_bytes()).map_err(|e| machine("writing standard output", e))
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
        self.put(&task_text(answer))
    }

    /// What a list sets and what is effective.
    pub fn config(self, answer: &Value) -> Result<()> {
        self.fields(answer)
    }

    /// What runs and what waits; `asking` are the tasks whose agents ask for an answer.
    pub fn queue(self, answer: &Value, names: &BTreeMap<String, String>, asking: &BTreeSet<String>) -> Result<()> {
        if self.json { self.json(answer) } else { self.put(&queue_text(answer, names, asking)) }
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

/// A task with what belongs to it.
fn task_text(answer: &Value) -> String {
    let short_id = plain(&answer["short_id"]);
    let mut text = format!("{short_id} {}\n", plain(&answer["title"]));
    for key in TASK_FIELDS {
        if !answer[key].is_null() {
            text += &format!("  {key:<13} {}\n", words::hint(&plain(&answer[key]), Some(&short_id)));
        }
    }
    if answer["open_questions"].as_array().is_some_and(|all| !all.is_empty()) {
        text += &format!("  its agent asks: `taskyard task answer {short_id}`\n");
    }
    if answer["merge_open"] == true {
        let folder = answer["merge_worktree_path"].as_str().map(|path| format!(" in {path}")).unwrap_or_default();
        text +=
            &format!("  a merge is open: resolve its conflicts{folder}, then `taskyard task merge {short_id} --continue` (or `--abort`)\n");
    }
    for key in ["worktree", "latest_run", "open_questions", "blocked_by", "blocked_reasons", "blocks", "children"] {
        if !answer[key].is_null() && answer[key] != Value::Array(Vec::new()) && answer[key]["count"] != 0 {
            text += &format!("  {key}\n");
            let mut below = String::new();
            lines(&answer[key], "    ", &mut below);
            text += &words::message(&below, Some(&short_id));
        }
    }
    if let Some(description) = answer["description"].as_str().filter(|d| !d.is_empty()) {
        text += &format!("\n{description}\n");
    }
    text
}

/// The fields of a task that are shown first, in this order.
const TASK_FIELDS: [&str; 12] = [
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
];

fn queue_text(answer: &Value, names: &BTreeMap<String, String>, asking: &BTreeSet<String>) -> String {
    let name = |id: &Value| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_else(|| plain(id));
    let rows = |key: &str| answer[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let in_use = rows("active_slots").iter().filter(|slot| slot["slot"] == "queue").count();
    let (effective, configured) = (plain(&answer["effective_slots"]), plain(&answer["configured_slots"]));
    let fewer = if effective == configured { String::new() } else { format!(" ({configured} are configured)") };
    let mut text = format!("{in_use} of {effective} slots in use{fewer}\n");
    for reason in rows("reasons") {
        text += &format!("  {}\n", plain(reason));
    }
    for slot in rows("active_slots") {
        text += &format!("runs ({}): {} since {}\n", plain(&slot["slot"]), name(&slot["task_id"]), plain(&slot["started_at"]));
    }
    for run in rows("without_slot") {
        let asks = run["task_id"].as_str().is_some_and(|task| asking.contains(task));
        let (what, how) = if asks {
            ("waits for an answer", format!(": `taskyard task answer {}`", plain(&run["short_id"])))
        } else {
            ("waits without a slot", String::new())
        };
        text += &format!("{what}: {} since {}{how}\n", name(&run["task_id"]), plain(&run["started_at"]));
    }
    for task in rows("waiting") {
        let until = task["until"].as_str().map(|_| format!(" until {}", plain(&task["until"]))).unwrap_or_default();
        text += &format!("waits ({}{until}): {}\n", plain(&task["reason"]), name(&task["task_id"]));
    }
    text
}

/// Fields of an object that fit on one line.
const WIDE: usize = 4;

/// A value as one word: a dash for nothing, text without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => seconds(text).map_or_else(|| text.clone(), |time| format!("{time}Z")),
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

/// A time to the second, without its `Z`; `None` for any other text.
fn seconds(text: &str) -> Option<&str> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (time, fraction) = text.strip_suffix('Z')?.split_once('.')?;
    let is_time = time.len() == 19
        && time.bytes().zip("0000-00-00T00:00:00".bytes()).all(|(b, form)| if form == b'0' { b.is_ascii_digit() } else { b == form });
    (is_time && digits(fraction)).then_some(time)
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

    #[test]
    fn times_are_told_to_the_second() {
        assert_eq!(plain(&json!("2026-11-30T10:55:51.123456Z")), "2026-11-30T10:55:51Z");
        for same in ["2026-11-30T10:55:51Z", "1.5Z", "2026-11-30T10:55:51.x Z", "at 2026-11-30T10:55:51.1Z"] {
            assert_eq!(plain(&json!(same)), same);
        }
    }

    #[test]
    fn an_open_merge_and_an_open_question_say_what_to_type() {
        let task = json!({
            "short_id": "TY-3", "title": "Third", "merge_open": true, "merge_worktree_path": "/m", "open_questions": [{ "title": "May I?" }],
            "failure": "no profile (set model with set_list_config)",
        });
        let text = task_text(&task);
        for line in [
            "  a merge is open: resolve its conflicts in /m, then `taskyard task merge TY-3 --continue` (or `--abort`)",
            "  its agent asks: `taskyard task answer TY-3`",
            "  failure       no profile (set model with `taskyard list set LIST`)",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} in {text}");
        }
    }

    #[test]
    fn the_queue_says_how_many_slots_are_in_use_and_who_asks() {
        let slot = |slot: &str, task: &str| json!({ "slot": slot, "task_id": task, "short_id": task, "started_at": "s" });
        let state = json!({
            "configured_slots": 5, "effective_slots": 3, "active_slots": [slot("queue", "TY-1"), slot("override", "TY-2")],
            "without_slot": [slot("", "TY-3"), slot("", "TY-4")],
        });
        let text = queue_text(&state, &BTreeMap::new(), &BTreeSet::from(["TY-3".to_owned()]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "1 of 3 slots in use (5 are configured)");
        assert_eq!(lines[3], "waits for an answer: TY-3 since s: `taskyard task answer TY-3`");
        assert_eq!(lines[4], "waits without a slot: TY-4 since s");
    }
}
