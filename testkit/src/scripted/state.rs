//! Sessions on disk: one file each, a line per thing that happened, so that nothing is lost in a kill.

use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// One session's file.
#[derive(Debug)]
pub(super) struct Journal {
    file: Option<File>,
}

/// What a session's file holds.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Turns that began.
    pub turns: usize,
    /// Updates that were sent.
    pub updates: Vec<Value>,
}

fn path(id: &str) -> PathBuf {
    let folder = std::env::var_os(super::STATE).map_or_else(|| std::env::temp_dir().join("taskyard-scripted"), PathBuf::from);
    let name: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    folder.join(format!("{name}.jsonl"))
}

impl Journal {
    /// Opens (or begins) the file of session `id`. A folder that can't be written only costs the memory.
    pub fn open(id: &str) -> Self {
        let path = path(id);
        let file =
            path.parent().map(std::fs::create_dir_all).transpose().and_then(|_| File::options().create(true).append(true).open(path));
        Self { file: file.ok() }
    }

    /// A turn begins.
    pub fn turn(&mut self) {
        self.line(&json!({ "turn": true }));
    }

    /// An update was sent.
    pub fn update(&mut self, update: &Value) {
        self.line(&json!({ "update": update }));
    }

    fn line(&mut self, value: &Value) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(format!("{value}\n").as_bytes());
        }
    }
}

/// What happened in session `id` before, if there is such a session.
pub(super) fn past(id: &str) -> Option<Past> {
    let text = std::fs::read_to_string(path(id)).ok()?;
    let mut past = Past::default();
    // A line that a kill cut short is left out.
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        past.turns += usize::from(line["turn"] == true);
        if let Some(update) = line.get("update") {
            past.updates.push(update.clone());
        }
    }
    Some(past)
}
