//! What a profile's policy says to a permission request: allow it, or ask a person.
//!
//! Never refuses: what isn't plainly allowed is asked. Decides on names and paths alone; a command is judged
//! by the paths it names, not by what it will do. Looks at the file system only to follow links.

mod command;
mod inside;

use crate::contract::Permission;
use serde_json::Value;
use std::path::{Path, PathBuf};
use taskyard_domain::agent::PermissionPolicy;

/// The name Taskyard's own MCP server has for agents.
pub const OWN_SERVER: &str = "taskyard";

/// What happens with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is answered with yes at once.
    Allow,
    /// A person decides.
    Ask,
}

/// Decides on `request` of an agent that works in `worktree`.
///
/// Entries of `allowed_tools` are a kind (`edit`), a tool's name (`WebSearch`, `mcp__github__*`) or either with
/// a pattern for its argument (`Bash(git *)`, `execute(cargo test:*)`, `Edit(docs/*)`). `*` stands for anything.
pub fn decide(policy: PermissionPolicy, allowed_tools: &[String], worktree: &Path, request: &Permission) -> Decision {
    let allowed = match policy {
        PermissionPolicy::Ask => false,
        PermissionPolicy::Listed => allowed_tools.iter().any(|entry| listed(entry, worktree, request)),
        PermissionPolicy::Worktree => stays_inside(worktree, request),
    };
    if allowed { Decision::Allow } else { Decision::Ask }
}

fn listed(entry: &str, worktree: &Path, request: &Permission) -> bool {
    let entry = entry.trim();
    let (name, pattern) = match entry.strip_suffix(')').and_then(|entry| entry.split_once('(')) {
        Some((name, pattern)) => (name.trim(), Some(pattern.trim())),
        None => (entry, None),
    };
    let named = name.eq_ignore_ascii_case(&request.kind) || request.tool.as_deref().is_some_and(|tool| command::glob(name, tool));
    !name.is_empty() && named && pattern.is_none_or(|pattern| argument_fits(pattern, worktree, request))
}

fn argument_fits(pattern: &str, worktree: &Path, request: &Permission) -> bool {
    if let Some(command) = command_of(request) {
        return command::fits(pattern, &command);
    }
    let paths = named_paths(request);
    let fits = |path: &PathBuf| {
        let relative = inside::relative(worktree, path);
        relative.is_some_and(|path| command::glob(pattern.trim_start_matches("./"), &path.to_string_lossy()))
    };
    !paths.is_empty() && paths.iter().all(fits)
}

fn stays_inside(worktree: &Path, request: &Permission) -> bool {
    if is_own_tool(request) {
        return true;
    }
    let paths = named_paths(request);
    let inside = || paths.iter().all(|path| inside::relative(worktree, path).is_some());
    // Git's own files decide which repository the worktree belongs to and what hooks run.
    let is_git = |path: &PathBuf| inside::relative(worktree, path).is_none_or(|path| path.starts_with(".git"));
    match request.kind.as_str() {
        "read" | "search" | "think" => inside(),
        "edit" | "delete" | "move" => !paths.is_empty() && !paths.iter().any(is_git),
        "execute" => inside() && command_of(request).is_some_and(|command| command::stays_inside(&command, worktree)),
        _ => false,
    }
}

/// Whether it is a call of Taskyard's own MCP server, which checks the run's token itself.
fn is_own_tool(request: &Permission) -> bool {
    let Some(tool) = request.tool.as_deref() else { return false };
    let name = tool.strip_prefix("mcp__").unwrap_or(tool);
    let own = name.strip_prefix(OWN_SERVER).is_some_and(|rest| ["__", ".", "/", ":"].iter().any(|mark| rest.starts_with(mark)));
    own && matches!(request.kind.as_str(), "mcp" | "other")
}

/// The command line it wants to run: a string, words whose shell wrapper is left out, or several lines (`commands`).
fn command_of(request: &Permission) -> Option<String> {
    let Some(command) = ["command", "cmd"].iter().find_map(|key| request.input.get(key)) else {
        let lines = request.input.get("commands")?.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
        return Some(lines.join("\n")).filter(|lines| !lines.is_empty());
    };
    if let Some(line) = command.as_str() {
        return Some(line.to_owned());
    }
    let words: Vec<&str> = command.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words.as_slice() {
        [shell, flags, script] if shell.ends_with("sh") && flags.starts_with('-') && flags.ends_with('c') => Some((*script).to_owned()),
        words => Some(words.join(" ")),
    }
}

/// The paths the agent named, and those in arguments whose names say that they are paths.
fn named_paths(request: &Permission) -> Vec<PathBuf> {
    const KEYS: &[&str] =
        &["file_path", "filePath", "path", "notebook_path", "absolute_path", "directory", "dir", "cwd", "workdir", "destination"];
    let arguments = KEYS.iter().filter_map(|key| request.input.get(key)).filter_map(Value::as_str).map(PathBuf::from);
    request.paths.iter().cloned().chain(arguments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::{Allow, Ask};
    use serde_json::json;

    struct Place {
        root: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(root.path().join("wt/src")).unwrap();
            std::fs::create_dir_all(root.path().join("other")).unwrap();
            std::os::unix::fs::symlink(root.path().join("other"), root.path().join("wt/link")).unwrap();
            std::os::unix::fs::symlink(root.path().join("nowhere"), root.path().join("wt/dangling")).unwrap();
            std::os::unix::fs::symlink("src", root.path().join("wt/fine")).unwrap();
            Self { root }
        }

        fn wt(&self) -> PathBuf {
            self.root.path().join("wt")
        }

        fn worktree(&self, request: &Permission) -> Decision {
            decide(PermissionPolicy::Worktree, &[], &self.wt(), request)
        }
    }

    fn request(kind: &str, tool: &str, input: Value) -> Permission {
        let (request_id, title, options, paths) = ("1".into(), tool.into(), vec![], vec![]);
        Permission { request_id, title, kind: kind.into(), tool: Some(tool.into()), input, paths, options }
    }

    fn run(command: &str) -> Permission {
        request("execute", "Bash", json!({ "command": command }))
    }

    fn edit(path: impl AsRef<Path>) -> Permission {
        request("edit", "Edit", json!({ "file_path": path.as_ref() }))
    }

    #[test]
    fn ask_asks_for_everything() {
        let all = ["read".to_owned(), "Bash".to_owned(), "*".to_owned()];
        for request in [run("ls"), request("read", "Read", json!({})), request("mcp", "mcp__taskyard__ask", json!({}))] {
            assert_eq!(decide(PermissionPolicy::Ask, &all, Path::new("/wt"), &request), Ask);
        }
    }

    #[test]
    fn listed_allows_what_is_listed() {
        let place = Place::new();
        let cases = [
            ("edit", edit("src/a.rs"), Allow),
            ("Edit", edit("/etc/passwd"), Allow),
            ("Write", edit("src/a.rs"), Ask),
            ("Edit(src/*)", edit("src/a.rs"), Allow),
            ("Edit(src/*)", edit(place.wt().join("src/a.rs")), Allow),
            ("Edit(src/*)", edit("src/../secret"), Ask),
            ("Edit(*)", edit("../other/x"), Ask),
            ("Bash", run("rm -rf /"), Allow),
            ("Bash(git *)", run("git status"), Allow),
            ("Bash(git *)", run("gitty up"), Ask),
            ("Bash(git *)", run("git add -A && git commit -qm 'one; two'"), Ask),
            ("Bash(git *)", run("git add -A && git commit -qm x"), Allow),
            ("Bash(git *)", run("git log; rm -rf x"), Ask),
            ("Bash(git *)", run("git log $(rm -rf x)"), Ask),
            ("Bash(git *)", run("git log `rm x`"), Ask),
            ("Bash(git *)", run("git log > /etc/x"), Ask),
            ("Bash(git *)", run("git log & rm x"), Ask),
            ("Bash(git *)", run("git log\nrm x"), Ask),
            ("Bash(git:*)", run("git push"), Allow),
            ("execute(git *)", run("git push"), Allow),
            ("execute(git *)", request("execute", "shell", json!({ "command": ["bash", "-lc", "git push"] })), Allow),
            ("execute(git *)", request("execute", "shell", json!({ "command": ["bash", "-lc", "rm x"] })), Ask),
            ("execute(git *)", request("execute", "run_commands", json!({ "commands": ["git add -A", "git push"] })), Allow),
            ("execute(git *)", request("execute", "run_commands", json!({ "commands": ["git add -A", "rm x"] })), Ask),
            ("mcp__github__*", request("mcp", "mcp__github__search", json!({})), Allow),
            ("mcp__github__*", request("mcp", "mcp__gitlab__search", json!({})), Ask),
            ("", request("", "", json!({})), Ask),
        ];
        for (entry, request, expected) in cases {
            let decision = decide(PermissionPolicy::Listed, &[entry.to_owned()], &place.wt(), &request);
            assert_eq!(decision, expected, "{entry} on {}", request.input);
        }
        assert_eq!(decide(PermissionPolicy::Listed, &[], &place.wt(), &run("ls")), Ask);
    }

    #[test]
    fn worktree_allows_what_stays_inside() {
        let place = Place::new();
        let outside = place.root.path().join("other/x");
        let cases = [
            (edit("src/new.rs"), Allow),
            (edit(place.wt().join("src/new/deep.rs")), Allow),
            (edit("fine/new.rs"), Allow),
            (edit(&outside), Ask),
            (edit("../other/x"), Ask),
            (edit("src/../../other/x"), Ask),
            (edit("link/x"), Ask),
            (edit("link/../other/x"), Ask),
            (edit("dangling"), Ask),
            (edit("dangling/x"), Ask),
            (edit(format!("{}-evil/x", place.wt().display())), Ask),
            (edit(".git"), Ask),
            (edit(".git/hooks/pre-commit"), Ask),
            (request("edit", "Edit", json!({})), Ask),
            (request("read", "Read", json!({ "file_path": "src/a" })), Allow),
            (request("read", "Read", json!({ "file_path": "/etc/passwd" })), Ask),
            (request("search", "Grep", json!({ "pattern": "x" })), Allow),
            (request("think", "TodoWrite", json!({})), Allow),
            (request("fetch", "WebFetch", json!({ "url": "https://x.test" })), Ask),
            (request("other", "Skill", json!({})), Ask),
            (request("mcp", "mcp__taskyard__ask", json!({})), Allow),
            (request("other", "taskyard.ask", json!({})), Allow),
            (request("mcp", "mcp__taskyard_evil__ask", json!({})), Ask),
            (request("mcp", "mcp__github__ask", json!({})), Ask),
            (request("fetch", "mcp__taskyard__ask", json!({})), Ask),
        ];
        for (request, expected) in cases {
            assert_eq!(place.worktree(&request), expected, "{:?} {}", request.tool, request.input);
        }
        let mut request = edit("src/a.rs");
        request.paths = vec![outside];
        assert_eq!(place.worktree(&request), Ask);
    }

    #[test]
    fn worktree_judges_commands_by_the_paths_they_name() {
        let place = Place::new();
        let inside = format!("cat {}/src/a", place.wt().display());
        let cases = [
            ("git add -A && git commit -qm 'a/b' 2>/dev/null", Allow),
            ("cargo test > out.txt", Allow),
            ("/usr/bin/env python3 x.py", Allow),
            (inside.as_str(), Allow),
            ("cat /etc/passwd", Ask),
            ("cat </etc/passwd", Ask),
            ("echo x>/etc/passwd", Ask),
            ("rm -rf ../other", Ask),
            ("rm -rf src/../..", Ask),
            ("cd .. && rm x", Ask),
            ("cat ~/.ssh/id", Ask),
            ("cat \"$HOME/x\"", Ask),
            ("cat ${HOME}/x", Ask),
            ("tar --directory=/ -xf x", Ask),
            ("tar -C/ -xf x", Ask),
            ("cat link/x", Ask),
            ("git log --format='%h ..'", Ask),
            ("curl https://x.test/a", Allow),
        ];
        for (command, expected) in cases {
            assert_eq!(place.worktree(&run(command)), expected, "{command}");
        }
        assert_eq!(place.worktree(&request("execute", "Bash", json!({ "cut": "{\"command\":\"cat /etc" }))), Ask);
        let several = |commands: Value| request("execute", "run_commands", json!({ "commands": commands }));
        assert_eq!(place.worktree(&several(json!(["ls", "git status"]))), Allow);
        for odd in [json!(["ls", "cat /etc/passwd"]), json!([{ "command": "ls" }]), json!([]), json!("ls")] {
            assert_eq!(place.worktree(&several(odd)), Ask);
        }
        let mut request = run("ls");
        request.input = json!({ "command": "ls", "cwd": "/" });
        assert_eq!(place.worktree(&request), Ask);
    }
}
