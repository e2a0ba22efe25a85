//! `taskyard worktree`, `snapshot` and `repository`: where work stands.

use crate::args::{RepositoryCommand, SnapshotCommand, WorktreeCommand};
use crate::client::Client;
use crate::fail::Result;
use crate::run::task::names;
use crate::run::text;
use crate::show::Show;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use taskyard_domain::Error;

/// `taskyard worktree …`
pub async fn worktree(client: &Client, show: &Show, command: WorktreeCommand) -> Result<()> {
    match command {
        WorktreeCommand::List { state } => show.worktrees(&client.call("list_worktrees", json!({ "state": state })).await?),
        WorktreeCommand::Show { task } => show.fields(&client.call("get_task_worktree", json!({ "task_id": task })).await?),
        WorktreeCommand::Clean { task, discard } => {
            let answer = client.call("cleanup_task_worktree", json!({ "task_id": task, "discard_changes": discard })).await?;
            let snapshot = answer["snapshot_id"].as_str().map(|id| format!("; what was unsaved is snapshot {id}")).unwrap_or_default();
            show.done(&answer, &format!("the worktree of {task} is removed{snapshot}"))
        }
    }
}

/// `taskyard snapshot …`
pub async fn snapshot(client: &Client, show: &Show, command: SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::List { task } => {
            let mut answer = client.call("list_snapshots", json!({ "task_id": task })).await?;
            if !show.json {
                let tasks: Vec<Value> = rows(&answer, "snapshots").iter().map(|row| row["task_id"].clone()).collect();
                name_tasks(&mut answer, &names(client, &tasks.into()).await?);
            }
            let columns = [("snapshot_id", "SNAPSHOT"), ("task", "TASK"), ("created_at", "TAKEN"), ("reason", "WHY"), ("ref", "REF")];
            show.rows(&answer, "snapshots", &columns)
        }
        SnapshotCommand::Restore { snapshot } => {
            let answer = client.call("restore_snapshot", json!({ "snapshot_id": snapshot })).await?;
            show.done(&answer, &format!("restored to {}", text(&answer, "path")))
        }
    }
}

fn rows<'a>(answer: &'a Value, key: &str) -> &'a [Value] {
    answer[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Gives each snapshot the short id and title of its task; none where that is deleted.
fn name_tasks(answer: &mut Value, names: &BTreeMap<String, String>) {
    for row in answer["snapshots"].as_array_mut().into_iter().flatten() {
        row["task"] = row["task_id"].as_str().and_then(|id| names.get(id)).cloned().into();
    }
}

/// `taskyard repository …`
pub async fn repository(client: &Client, show: &Show, command: RepositoryCommand) -> Result<()> {
    match command {
        RepositoryCommand::List => {
            let answer = client.call("repository_list", json!({})).await?;
            show.rows(
                &answer,
                "repositories",
                &[("id", "REPOSITORY"), ("name", "NAME"), ("default_branch", "BRANCH"), ("local_path", "PATH")],
            )
        }
        RepositoryCommand::Set(set) => {
            let copy = (!set.copy.is_empty()).then_some(set.copy);
            let id = repository_id(&client.call("repository_list", json!({})).await?, &set.repository)?;
            let arguments = json!({
                "repository_id": id, "default_branch": set.default_branch, "branch_prefix": set.branch_prefix,
                "setup_script": set.setup, "cleanup_script": set.cleanup, "copy_files": copy, "hook_policy": set.hooks, "sign_policy": set.sign,
            });
            show.fields(&client.call("repository_update", arguments).await?)
        }
    }
}

/// The UUID of the repository that `handle` (UUID, name or folder) names.
fn repository_id(answer: &Value, handle: &str) -> Result<String> {
    let all = rows(answer, "repositories");
    let is = |one: &&Value| ["id", "name", "local_path"].iter().any(|key| one[key] == handle);
    match all.iter().filter(is).collect::<Vec<_>>().as_slice() {
        [one] => Ok(text(one, "id").to_owned()),
        [] => Err(Error::not_found("repository", handle).with_field("repository").with_hint("`taskyard repository list` shows them")),
        _ => Err(Error::invalid("repository", format!("repository: several are called {handle}; use a UUID or the folder"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_as_the_table_shows_it() {
        let one = |id: &str, name: &str, path: &str| json!({ "id": id, "name": name, "local_path": path });
        let answer = json!({ "repositories": [one("1", "app", "/a/app"), one("2", "app", "/b/app"), one("3", "lib", "/lib")] });
        for (handle, id) in [("lib", "3"), ("/b/app", "2"), ("1", "1")] {
            assert_eq!(repository_id(&answer, handle).unwrap(), id);
        }
        assert!(repository_id(&answer, "app").unwrap_err().message.contains("several"));
        assert!(repository_id(&answer, "x").is_err());
    }

    #[test]
    fn a_snapshot_names_its_task() {
        let mut answer = json!({ "snapshots": [{ "task_id": "1" }, { "task_id": null }] });
        name_tasks(&mut answer, &BTreeMap::from([("1".to_owned(), "TY-1 First".to_owned())]));
        assert_eq!(answer["snapshots"], json!([{ "task_id": "1", "task": "TY-1 First" }, { "task_id": null, "task": null }]));
    }
}
