//! Folds the libraries' typed errors into the one that faces show: class, sentence, hint.

use crate::commands::paging;
use serde_json::{Value, json};
use taskyard_domain::{Class, Error};
use taskyard_git::Error as Git;

/// Most names in an error's details.
const NAMES: usize = 50;
/// Most bytes that they take.
const BYTES: usize = 4_000;

/// `details` with as many names as a small answer has room for, and how many there are: a conflict may touch
/// thousands of files.
pub(crate) fn few(mut details: Value) -> Value {
    let Some(map) = details.as_object_mut() else { return details };
    for (key, count) in [("files", "file_count"), ("uncommitted_files", "file_count"), ("branches", "branch_count")] {
        let Some(names) = map.get_mut(key).and_then(Value::as_array_mut) else { continue };
        let all = names.len();
        names.truncate(paging::fitting(names, BYTES).min(NAMES));
        // Where the list was cut before, the count is that of all.
        map.entry(count).or_insert_with(|| all.into());
    }
    details
}

/// A git error as a face shows it.
pub(crate) fn git(error: Git) -> Error {
    let mut folded = fold(error);
    folded.details = folded.details.map(few);
    folded
}

fn fold(error: Git) -> Error {
    let message = error.to_string();
    let at = |class: Class| Error::new(class, message.clone());
    match error {
        Git::Conflict { ours, theirs, files } => at(Class::Conflict)
            .with_details(json!({ "files": files, "target_commit": ours, "task_commit": theirs, "nothing_changed": true }))
            .with_hint("send the task back with review_task(reject_rerun), or open the conflict with merge_task(on_conflict: leave_open)"),
        Git::Moved { name, expected, found } => at(Class::Conflict)
            .with_details(json!({ "ref": name, "expected": expected, "found": found, "nothing_changed": true }))
            .with_hint("look again and repeat the call"),
        Git::Dirty { tree, files } => at(Class::FailedPrecondition)
            .with_details(json!({ "tree": tree, "files": files, "nothing_changed": true }))
            .with_hint("commit, stash or undo those edits, then repeat the call"),
        Git::Unsaved { path, what } => at(Class::FailedPrecondition)
            .with_details(json!({ "path": path, "unsaved": what }))
            .with_hint("discard_changes: true takes a snapshot first, then removes"),
        Git::NotFound { branches, .. } => at(Class::NotFound).with_details(json!({ "branches": branches })),
        Git::DetachedNoBase { branches, .. } => at(Class::FailedPrecondition).with_details(json!({ "branches": branches })),
        Git::HookFailed { hook, text } => at(Class::FailedPrecondition)
            .with_details(json!({ "hook": hook, "output": text, "nothing_changed": true }))
            .with_hint("fix what the hook reports; only the repository's setting hook_policy = skip leaves hooks out"),
        Git::FilterFailed { filter, file, text } => at(Class::FailedPrecondition)
            .with_details(json!({ "filter": filter, "files": [file], "output": text }))
            .with_hint(format!("install the program of the filter {filter} where the server finds it (its PATH), then repeat the call")),
        Git::SigningFailed { text } => at(Class::FailedPrecondition)
            .with_details(json!({ "output": text, "nothing_changed": true }))
            .with_hint("repair signing, or choose unsigned commits with the repository's setting sign_policy = never"),
        Git::TimedOut { .. } | Git::Locked { .. } => at(Class::Unavailable).with_hint("nothing has changed; try again"),
        Git::NotARepository { .. } | Git::NoFolder { .. } | Git::Untrusted { .. } | Git::NoCommit { .. } => at(Class::FailedPrecondition),
        _ => at(Class::FailedPrecondition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskyard_git::Oid;

    #[test]
    fn a_conflict_in_thousands_of_files_is_a_small_error() {
        let commit = || Oid::parse(&"a".repeat(40)).unwrap();
        let files: Vec<String> = (0..3000).map(|n| format!("a/folder/with/a/long/name/{}/{n}.txt", "x".repeat(60))).collect();
        let conflict = git(Git::Conflict { ours: commit(), theirs: commit(), files: files.clone() });
        let dirty = git(Git::Dirty { tree: "/tree".into(), files });
        for error in [conflict, dirty] {
            assert!(serde_json::to_vec(&error).unwrap().len() < 10_000, "{}", error.message.len());
            let details = error.details.unwrap();
            let named = details["files"].as_array().unwrap().len();
            assert!(named > 10 && named <= NAMES, "{named}");
            assert_eq!(details["file_count"], 3000);
        }
    }

    #[test]
    fn few_names_are_told_whole() {
        let details = few(json!({ "files": ["a", "b"], "target": "main" }));
        assert_eq!(details, json!({ "files": ["a", "b"], "file_count": 2, "target": "main" }));
        assert_eq!(few(details.clone()), details);
    }
}
