//! Folds the libraries' typed errors into the one that faces show: class, sentence, hint.

use serde_json::json;
use taskyard_domain::{Class, Error};
use taskyard_git::Error as Git;

/// A git error as a face shows it.
pub(crate) fn git(error: Git) -> Error {
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
        Git::SigningFailed { text } => at(Class::FailedPrecondition)
            .with_details(json!({ "output": text, "nothing_changed": true }))
            .with_hint("repair signing, or choose unsigned commits with the repository's setting sign_policy = never"),
        Git::TimedOut { .. } | Git::Locked { .. } => at(Class::Unavailable).with_hint("nothing has changed; try again"),
        Git::NotARepository { .. } | Git::NoFolder { .. } | Git::Untrusted { .. } | Git::NoCommit { .. } => at(Class::FailedPrecondition),
        _ => at(Class::FailedPrecondition),
    }
}
