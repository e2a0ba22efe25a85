//! `taskyard worktree`, `snapshot` and `repository`: where work stands.

use crate::args::{RepositoryCommand, SnapshotCommand, WorktreeCommand};
use crate::client::Client;
use crate::fail::Result;
use crate::run::text;
use crate::show::Show;
use serde_json::json;

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
            let answer = client.call("list_snapshots", json!({ "task_id": task })).await?;
            show.rows(&answer, "snapshots", &[("snapshot_id", "SNAPSHOT"), ("created_at", "TAKEN"), ("reason", "WHY"), ("ref", "REF")])
        }
        SnapshotCommand::Restore { snapshot } => {
            let answer = client.call("restore_snapshot", json!({ "snapshot_id": snapshot })).await?;
            show.done(&answer, &format!("restored to {}", text(&answer, "path")))
        }
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
            let arguments = json!({
                "repository_id": set.repository, "default_branch": set.default_branch, "branch_prefix": set.branch_prefix,
                "setup_script": set.setup, "cleanup_script": set.cleanup, "copy_files": copy, "hook_policy": set.hooks, "sign_policy": set.sign,
            });
            show.fields(&client.call("repository_update", arguments).await?)
        }
    }
}
