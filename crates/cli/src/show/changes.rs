//! Diffs and previews.

use super::{Show, plain};
use crate::fail::Result;
use serde_json::Value;
use std::collections::BTreeMap;

impl Show {
    /// One page of a task's changes.
    pub fn diff(self, page: &Value, stat: bool) -> Result<()> {
        if self.json {
            return self.json(page);
        }
        let mut text = String::new();
        for file in page["files"].as_array().into_iter().flatten() {
            let old = file["old_path"].as_str().map(|old| format!("{old} → ")).unwrap_or_default();
            let counts = format!("+{} -{}", plain(&file["additions"]), plain(&file["deletions"]));
            text += &format!("{:<13} {counts:<12} {old}{}\n", plain(&file["status"]), plain(&file["path"]));
            if let (false, Some(patch)) = (stat, file["patch"].as_str()) {
                text += patch;
                text += "\n";
            }
        }
        if text.is_empty() {
            text = "no changes".into();
        }
        self.put(&text)
    }

    /// What merging one task would do.
    pub fn preview(self, answer: &Value) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let mut text = format!(
            "{}: {} changed files, {} behind\n",
            plain(&answer["result"]),
            plain(&answer["changed_file_count"]),
            plain(&answer["behind"])
        );
        for file in answer["conflict_files"].as_array().into_iter().flatten() {
            text += &format!("  conflict in {}\n", plain(file));
        }
        self.put(&text)
    }

    /// What merging a set one after another would do.
    pub fn preview_set(self, answer: &Value, names: &BTreeMap<String, String>) -> Result<()> {
        if self.json {
            return self.json(answer);
        }
        let name = |id: &Value| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_else(|| plain(id));
        let all = |value: &Value| value.as_array().into_iter().flatten().map(name).collect::<Vec<_>>().join(", ");
        let mut text = String::new();
        for id in answer["order_ok"].as_array().into_iter().flatten() {
            text += &format!("merges: {}\n", name(id));
        }
        for left in answer["left_out"].as_array().into_iter().flatten() {
            text += &format!(
                "left out: {} (conflicts with {} in {})\n",
                name(&left["task_id"]),
                all(&left["conflicts_with"]),
                plain(&left["files"])
            );
        }
        for task in answer["tasks"].as_array().into_iter().flatten().filter(|t| !t["error"].is_null()) {
            text += &format!("no preview: {}: {}\n", name(&task["task_id"]), plain(&task["error"]["message"]));
        }
        self.put(&text)
    }
}
