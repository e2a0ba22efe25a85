//! The file of rounds that were played: one line each, so that a campaign that was stopped goes on where it was.
//!
//! A line is `SEED BUILD clean|wrong FIGURES`, the figures as JSON. Only ever appended to; several campaigns may share it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

/// The file, as it was when the campaign began.
pub struct State {
    path: PathBuf,
    build: String,
    clean: BTreeSet<u64>,
}

impl State {
    /// Reads the file, if it is there. `build` names what is tested; rounds of other builds don't count.
    pub fn open(path: PathBuf, build: String) -> Self {
        let build = if build.is_empty() { "unnamed".into() } else { build };
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let seed = |line: &str| {
            let mut words = line.split(' ');
            let seed = words.next()?.parse().ok()?;
            (words.next()? == build && words.next()? == "clean").then_some(seed)
        };
        let clean = text.lines().filter_map(seed).collect();
        Self { path, build, clean }
    }

    /// Whether the round of `seed` was clean with this build.
    pub fn is_clean(&self, seed: u64) -> bool {
        self.clean.contains(&seed)
    }

    /// Writes a round down.
    pub fn write(&self, seed: u64, clean: bool, figures: &BTreeMap<String, usize>) {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).unwrap();
        }
        let mut file = std::fs::File::options().create(true).append(true).open(&self.path).unwrap();
        let line = format!("{seed} {} {} {}\n", self.build, if clean { "clean" } else { "wrong" }, serde_json::to_string(figures).unwrap());
        file.write_all(line.as_bytes()).unwrap();
    }
}
