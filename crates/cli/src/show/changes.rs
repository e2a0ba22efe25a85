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
            let patch = file["patch"].as_str().filter(|_| !stat);
            // The first part of a patch has its header; others go on where the part before them ended.
            if patch.is_none_or(|patch| patch.is_empty() || patch.starts_with("diff ")) {
                text += &format!("{:<13} {counts:<12} {old}{}\n", plain(&file["status"]), plain(&file["path"]));
            }
            text += patch.unwrap_or_default();
            let (is_cut, goes_on) = (file["patch_truncated"] == true, !page["next_cursor"].is_null() && page["total_files"] == 1);
            if patch.is_some() && is_cut && !goes_on {
                text += &format!("… cut here; --path '{}' shows all of it\n", plain(&file["path"]));
            }
            if patch.is_some() && !goes_on {
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
        self.put(&preview_text(answer))
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
        if let Some(hint) = answer["hint"].as_str() {
            text += &format!("there is more: {hint}\n");
        }
        for task in answer["tasks"].as_array().into_iter().flatten().filter(|t| !t["error"].is_null()) {
            text += &format!("no preview: {}: {}\n", name(&task["task_id"]), plain(&task["error"]["message"]));
        }
        self.put(&text)
    }
}

fn preview_text(answer: &Value) -> String {
    let count = |key: &str| answer[key].as_u64().unwrap_or_default();
    let mut text = if answer["nothing_to_merge"] == true {
        format!("nothing to merge: {} has it all\n", plain(&answer["target"]))
    } else {
        format!(
            "{}: {} changed files, {} behind {}\n",
            plain(&answer["result"]),
            count("changed_file_count"),
            count("behind"),
            plain(&answer["target"])
        )
    };
    let shown = answer["conflict_files"].as_array().map(Vec::as_slice).unwrap_or_default();
    for file in shown {
        text += &format!("  conflict in {}\n", plain(file));
    }
    let more = count("conflict_file_count").saturating_sub(shown.len() as u64);
    if more > 0 {
        text += &format!("  and in {more} more files\n");
    }
    if count("uncommitted_file_count") > 0 {
        text += &format!("  {} uncommitted files are in the way of a merge\n", count("uncommitted_file_count"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_preview_says_what_it_leaves_out() {
        let conflict = json!({
            "result": "conflict", "changed_file_count": 3, "behind": 1, "target": "main", "conflict_files": ["a"], "conflict_file_count": 4,
            "uncommitted_file_count": 2,
        });
        let told = "conflict: 3 changed files, 1 behind main\n  conflict in a\n  and in 3 more files\n  2 uncommitted files are in the way of a merge\n";
        assert_eq!(preview_text(&conflict), told);
        let nothing = json!({ "result": "clean", "nothing_to_merge": true, "target": "main", "conflict_files": [] });
        assert_eq!(preview_text(&nothing), "nothing to merge: main has it all\n");
    }
}
