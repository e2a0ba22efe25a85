//! The rules of ARCHITECTURE.md that can be read off the source: edges between crates, module docs, and that
//! processes, git and SQL stay where they belong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says by panicking what is wrong")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each crate may depend on inside the workspace.
const ALLOWED: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("process", &[]),
    ("store", &["domain"]),
    ("git", &["domain", "process"]),
    ("agents", &["domain", "process"]),
    ("engine", &["domain", "process", "store", "git", "agents"]),
    ("mcp", &["domain", "engine"]),
    ("web", &["domain", "engine", "mcp"]),
    ("cli", &["domain", "process", "store", "git", "agents", "engine", "mcp", "web", "testkit"]),
    ("testkit", &["process"]),
    // It measures the binary from outside.
    ("bench", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn crate_dirs() -> Vec<(String, PathBuf)> {
    let mut dirs: Vec<(String, PathBuf)> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    dirs.extend(["testkit", "bench"].map(|name| (name.to_owned(), root().join(name))));
    dirs
}

/// All Rust files of the workspace, with their path from its root and whether they are tests.
fn sources() -> Vec<(String, bool, String)> {
    let mut found = Vec::new();
    for (_, dir) in crate_dirs() {
        walk(&dir, &mut found);
    }
    assert!(found.len() > 100, "the walk found only {} files", found.len());
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            let test = name.contains("/tests/") || name.ends_with("tests.rs");
            let text = std::fs::read_to_string(&path).unwrap();
            (name, test, text)
        })
        .collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != "target" {
            walk(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// The benchmark does without Taskyard's own helpers what it measures Taskyard against: bare git, spawns and SQL.
fn measures(name: &str) -> bool {
    name.starts_with("bench/")
}

/// A file's product code: without its test module and without comments.
fn product(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn arrows_between_crates_point_down() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (name, dir) in crate_dirs() {
        let manifest: toml::Table = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap().parse().unwrap();
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the table of this test"));
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for inner in dependencies.keys().filter_map(|key| key.strip_prefix("taskyard-")) {
            assert!(may.contains(&inner), "{name} must not depend on {inner}");
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = sources().into_iter().filter(|(_, _, text)| !text.starts_with("//! ")).map(|(name, _, _)| name).collect();
    assert!(silent.is_empty(), "no module doc on the first line: {silent:#?}");
}

#[test]
fn processes_start_in_one_place() {
    for (name, _, text) in sources() {
        // The scripted agent leaves processes behind on purpose, as real agents do.
        let exempt = ["crates/cli/tests/house.rs", "testkit/src/scripted/nasty.rs"];
        if measures(&name) || name.starts_with("crates/process/") || exempt.contains(&name.as_str()) {
            continue;
        }
        let spawns = ["process::Command::new", "std::process::Command", "tokio::process::Command", "posix_spawn", "libc::fork"];
        let hit = spawns.iter().find(|word| product(&text).contains(*word));
        // `taskyard_process::Command` is the helper itself.
        let foreign = hit.filter(|_| !product(&text).contains("taskyard_process::Command::new"));
        assert!(foreign.is_none(), "{name} starts a process by itself: {foreign:?}");
    }
}

#[test]
fn git_runs_in_one_place() {
    for (name, test, text) in sources() {
        let exempt = test || measures(&name) || name.starts_with("crates/git/") || name.starts_with("testkit/");
        assert!(exempt || !product(&text).contains("Command::new(\"git\""), "{name} runs git by itself");
    }
}

#[test]
fn sql_is_spoken_in_one_place() {
    let words = ["SELECT ", "INSERT INTO ", "UPDATE task", "DELETE FROM ", "sqlx::"];
    for (name, test, text) in sources() {
        // The testkit makes and drops the databases that the store's tests run on.
        let exempt = test || measures(&name) || name.starts_with("crates/store/") || name == "testkit/src/postgres.rs";
        let hit = words.iter().find(|word| product(&text).contains(*word));
        assert!(exempt || hit.is_none(), "{name} speaks SQL: {hit:?}");
    }
}

#[test]
fn clocks_and_ids_are_injected() {
    for (name, test, text) in sources() {
        // The id of a conversation of Claude's own is for Claude, not for our records.
        let exempt = ["crates/engine/src/system.rs", "crates/agents/src/claude/session.rs"].contains(&name.as_str());
        let exempt = exempt || test || name.starts_with("testkit/");
        let words = ["Timestamp::now()", "Uuid::now_v7()", "Uuid::new_v4()"];
        let hit = words.iter().find(|word| product(&text).contains(*word));
        assert!(exempt || hit.is_none(), "{name} takes time or ids by itself: {hit:?}");
    }
}
