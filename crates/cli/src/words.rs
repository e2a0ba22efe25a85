//! The command line's words for what errors and hints call by the names of MCP tools and their arguments.
//!
//! Errors are written once, for every face; whoever types commands reads them through this table. JSON stays as the server
//! wrote it. Owns nothing.

/// A phrase and what is said instead; `TASK` stands for the task of the command that failed.
type Line = (&'static str, &'static str);

/// Phrases with the names of tools.
const TOOLS: &[Line] = &[
    ("abort_merge", "`taskyard task merge TASK --abort`"),
    ("add_task", "`taskyard task add`"),
    ("answer_question", "`taskyard task answer TASK`"),
    ("cancel_task", "`taskyard task cancel TASK`"),
    ("cleanup_task_worktree", "`taskyard worktree clean TASK`"),
    ("cleanup_task_worktree with discard_changes", "`taskyard worktree clean TASK --discard`"),
    ("complete_task", "`taskyard complete RUN`"),
    ("complete_task (abandoned)", "`taskyard complete RUN --outcome abandoned`"),
    ("continue_merge", "`taskyard task merge TASK --continue`"),
    ("continue_task", "`taskyard task continue TASK PROMPT`"),
    ("create_list(local_path)", "`taskyard list add NAME --path FOLDER`"),
    ("delete_task", "`taskyard task delete`"),
    ("get_task", "`taskyard task show TASK`"),
    ("get_task_diff", "`taskyard task diff TASK`"),
    ("list_backlog", "`taskyard backlog list`"),
    ("list_snapshots", "`taskyard snapshot list`"),
    ("list_tasks", "`taskyard task list`"),
    ("list_tasks(list_id, include_archived: true)", "`taskyard task list --list LIST --archived`"),
    ("merge_task", "`taskyard task merge TASK`"),
    ("merge_task(on_conflict: leave_open)", "`taskyard task merge TASK --leave-open`"),
    ("merge_task(worktree_id", "the MCP tool merge_task(worktree_id"),
    ("remove_task_dependency", "the MCP tool remove_task_dependency"),
    ("reset_failed_task", "`taskyard task reset TASK`"),
    ("restore_snapshot", "`taskyard snapshot restore SNAPSHOT`"),
    ("restore_snapshot(", "`taskyard snapshot restore` ("),
    ("revert_merge", "`taskyard task revert TASK`"),
    ("revert_merge(worktree_id)", "`taskyard task revert TASK --worktree UUID` (see --json)"),
    ("review_task", "`taskyard task review TASK --approve`"),
    ("review_task decides", "`taskyard task review TASK` decides"),
    ("review_task (approve, reject_park or cancel)", "`taskyard task review TASK` (--approve, --park or --cancel)"),
    ("review_task(approve)", "`taskyard task review TASK --approve`"),
    ("review_task(reject_rerun)", "`taskyard task review TASK --reject FEEDBACK`"),
    ("review_task with reject_rerun", "`taskyard task review TASK --reject FEEDBACK`"),
    ("with reject_park", "--park"),
    ("run_task_now", "`taskyard task run TASK --now`"),
    ("set_list_config", "`taskyard list set LIST`"),
    ("set_task_config", "the MCP tool set_task_config"),
    ("wait_for_task_change", "`taskyard task wait TASK`"),
    ("update_task_status", "the MCP tool update_task_status"),
    ("update_task_status(done)", "the MCP tool update_task_status(done)"),
    ("update_task_status(queued)", "`taskyard task run TASK`"),
    ("update_task_status(ready)", "the MCP tool update_task_status(ready)"),
];

/// Phrases of hints with the names of arguments and settings.
const ARGUMENTS: &[Line] = &[
    ("agent_profile_id", "--profile"),
    ("claimable_only", "--claimable"),
    ("discard_changes: true", "`taskyard worktree clean TASK --discard`"),
    ("hook_policy = skip", "--hooks skip (`taskyard repository set`)"),
    ("local_path", "--path"),
    ("repeat the call", "repeat the command"),
    ("repository_id", "--repository"),
    ("sign_policy = never", "--sign never (`taskyard repository set`)"),
    ("target_branch", "--target"),
];

/// A message in the command line's words. `task` is the task it is about, as it was typed.
pub fn message(text: &str, task: Option<&str>) -> String {
    replaced(text, &[TOOLS], task)
}

/// A hint in the command line's words.
pub fn hint(text: &str, task: Option<&str>) -> String {
    replaced(text, &[TOOLS, ARGUMENTS], task)
}

/// Replaces phrases that stand as words of their own, the longest that fits at each place.
fn replaced(text: &str, tables: &[&[Line]], task: Option<&str>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(next) = rest.chars().next() {
        // The last part of a URL is no word of ours.
        let starts = !out.ends_with(|c| is_word(c) || c == '/');
        let fits = |(phrase, _): &&Line| {
            let after = rest.strip_prefix(phrase).map(|after| after.starts_with(is_word));
            after.is_some_and(|goes_on| !goes_on || !phrase.ends_with(is_word))
        };
        let found = tables.iter().flat_map(|table| table.iter()).filter(fits).max_by_key(|(phrase, _)| phrase.len());
        if let Some((phrase, words)) = found.filter(|_| starts) {
            out += &words.replace("TASK", task.unwrap_or("TASK"));
            rest = &rest[phrase.len()..];
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    #[test]
    fn hints_become_commands_that_can_be_typed() {
        let conflict = "send the task back with review_task(reject_rerun), or open the conflict with merge_task(on_conflict: leave_open)";
        let typed = "send the task back with `taskyard task review TY-3 --reject FEEDBACK`, or open the conflict with \
                     `taskyard task merge TY-3 --leave-open`";
        assert_eq!(hint(conflict, Some("TY-3")), typed);
        let open = "resolve its files and call continue_merge, or abort_merge";
        assert!(message(open, None).contains("call `taskyard task merge TASK --continue`, or `taskyard task merge TASK --abort`"));
        assert_eq!(
            hint("discard_changes: true takes a snapshot", Some("TY-1")),
            "`taskyard worktree clean TY-1 --discard` takes a snapshot"
        );
    }

    #[test]
    fn names_inside_of_other_words_stay() {
        for text in [
            "my_get_task.rs",
            "get_tasks",
            "http://127.0.0.1:4517/api/internal/call/wait_for_task_change",
            "local_path: no such folder",
            "ünïcode → stays",
        ] {
            assert_eq!(message(text, Some("TY-1")), text);
        }
    }

    fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if path.is_dir() && name != "tests" && name != "properties" {
                sources(&path, all);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "properties.rs" {
                all.push(path);
            }
        }
    }

    /// The texts in `source` that have words between them, without those of its tests.
    fn sentences(source: &str) -> Vec<String> {
        let product = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = product.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n").replace("\\\"", "'");
        code.split('"').skip(1).step_by(2).filter(|text| text.contains(' ') && !text.contains("SELECT")).map(str::to_owned).collect()
    }

    #[test]
    fn every_tool_that_an_error_names_has_its_words() {
        let mut files = Vec::new();
        for layer in ["engine", "domain"] {
            sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{layer}/src")), &mut files);
        }
        let (mut checked, mut missing) = (0, Vec::new());
        for text in files.iter().flat_map(|file| sentences(&std::fs::read_to_string(file).unwrap())) {
            let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
            for tool in taskyard_mcp::tools::all().map(|tool| tool.name).filter(|tool| words.contains(tool)) {
                checked += 1;
                let told = hint(&text, Some("TY-1")).replace(&format!("the MCP tool {tool}"), "");
                if told.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == tool) {
                    missing.push(format!("{tool} in {text:?}"));
                }
            }
        }
        assert!(missing.is_empty(), "no words of the command line for {missing:#?}");
        assert!(checked > 20, "the hints weren't found: {checked}");
    }
}
