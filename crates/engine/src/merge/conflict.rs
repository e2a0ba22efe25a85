//! A conflict in the words of the merge or revert that it stopped. Says; changes nothing.

use super::saga::Stop;
use super::unchanged;
use serde_json::json;
use taskyard_domain::merge::{Kind, MergeRecord};
use taskyard_domain::{Class, Error};
use taskyard_git::Error as Git;

/// Most names of files in a sentence.
const NAMED: usize = 20;

/// Why `record`, the merge of `branch` or a revert, stopped before anything moved.
pub(super) fn told(record: &MergeRecord, branch: &str, stop: Stop) -> Error {
    match stop {
        Stop::Git(Git::Conflict { files, .. }) => unchanged(conflict(record, branch, &files)),
        other => unchanged(other.into()),
    }
}

fn conflict(record: &MergeRecord, branch: &str, files: &[String]) -> Error {
    let (target, before) = (&record.target, &record.target_before);
    match record.kind {
        Kind::Merge => {
            let sentence =
                format!("merging {branch} ({}) into {target} ({}) conflicts in {}", short(&record.tip), short(before), listed(files));
            let details = json!({ "files": files, "target": target, "branch": branch, "target_commit": before, "task_commit": record.tip });
            Error::new(Class::Conflict, sentence).with_details(details).with_hint(
                "send the task back with review_task(reject_rerun), or open the conflict with merge_task(on_conflict: leave_open)",
            )
        }
        Kind::Revert => {
            let sentence =
                format!("the merge {} can't be undone on {target}: later changes conflict in {}", short(&record.tip), listed(files));
            let details = json!({ "files": files, "target": target, "target_commit": before, "merge_commit": record.tip });
            let hint = "revert what was changed there since first, or add a task that takes the work out";
            Error::new(Class::Conflict, sentence).with_details(details).with_hint(hint)
        }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

pub(super) fn listed(files: &[String]) -> String {
    let shown = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if files.len() > NAMED { format!("{shown} and {} more", files.len() - NAMED) } else { shown }
}
