//! D6: five worktrees with something to lose, and one that somebody works in. Nothing of it is ever lost.

use crate::project::{Project, committed, message, write};
use crate::support::{Task, Yard, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use taskyard_process::{Spawn, spawn};

/// A worktree with something to lose.
struct Tree {
    task: Task,
    path: PathBuf,
    /// What a refusal has to say.
    said: &'static str,
    /// Texts that have to come back with a restored snapshot, by file; none where a branch keeps it all.
    unsaved: &'static [(&'static str, &'static str)],
}

async fn tree(
    project: &Project<'_>,
    title: &str,
    steps: Value,
    said: &'static str,
    unsaved: &'static [(&'static str, &'static str)],
) -> Tree {
    let task = project.work(title, steps).await;
    let path = project.yard.worktree(&task).await;
    Tree { task, path, said, unsaved }
}

/// The five kinds of loss. A commit on a branch that nobody merged isn't one: the branch stays.
async fn trees(project: &Project<'_>) -> Vec<Tree> {
    let trees = vec![
        tree(project, "Modified", committed("m.txt", "m\n"), "modified files (a.txt)", &[("a.txt", "modified\n")]).await,
        tree(project, "Untracked", committed("u.txt", "u\n"), "untracked files (only here.txt)", &[("only here.txt", "untracked\n")]).await,
        tree(project, "Detached", committed("d.txt", "d\n"), "commits no branch reaches", &[("detached.txt", "detached\n")]).await,
        tree(project, "Stashed", committed("s.txt", "s\n"), "stash entries", &[]).await,
        tree(project, "Staged", committed("i.txt", "i\n"), "modified files (staged.txt)", &[("staged.txt", "staged\n")]).await,
    ];
    // What a person does in the folders afterwards.
    std::fs::write(trees[0].path.join("a.txt"), "modified\n").unwrap();
    std::fs::write(trees[1].path.join("only here.txt"), "untracked\n").unwrap();
    std::fs::write(trees[2].path.join("detached.txt"), "detached\n").unwrap();
    std::fs::write(trees[3].path.join("a.txt"), "stashed\n").unwrap();
    std::fs::write(trees[4].path.join("staged.txt"), "staged\n").unwrap();
    for (n, commands) in [
        (2, &[&["checkout", "-q", "--detach"][..], &["add", "-A"], &["commit", "-qm", "On no branch"]][..]),
        (3, &[&["stash", "-q"]]),
        (4, &[&["add", "staged.txt"]]),
    ] {
        for args in commands {
            project.git_in(&trees[n].path, args).await;
        }
    }
    trees
}

/// The ids of all blobs that the trees hold: committed, staged, stashed and lying about.
async fn blobs(project: &Project<'_>, trees: &[Tree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for tree in trees {
        for file in std::fs::read_dir(&tree.path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            if file.file_name().unwrap() != ".git" {
                found.insert(project.git_in(&tree.path, &["hash-object", file.to_str().unwrap()]).await);
            }
        }
    }
    found.insert(project.git(&["rev-parse", "refs/stash:a.txt"]).await);
    found
}

/// None of the blobs is missing, and git's collector would take none of them.
async fn all_reachable(project: &Project<'_>, blobs: &BTreeSet<String>) {
    let fsck = project.git(&["fsck", "--unreachable", "--no-reflogs", "--no-progress"]).await;
    for blob in blobs {
        assert!(!fsck.contains(blob.as_str()), "{blob} is unreachable: {fsck}");
        project.git(&["cat-file", "-e", blob]).await;
    }
}

async fn restored(project: &Project<'_>, tree: &Tree, snapshot: &str) {
    let back = project.yard.server.call("restore_snapshot", json!({ "snapshot_id": snapshot })).await;
    let path = Path::new(back["path"].as_str().unwrap());
    for (file, text) in tree.unsaved {
        assert_eq!(std::fs::read_to_string(path.join(file)).ok().as_deref(), Some(*text), "{file} of {back}");
    }
    let stashes = project.git(&["stash", "list"]).await;
    assert!(tree.said != "stash entries" || !stashes.is_empty() || !back["commit"].is_null());
}

#[tokio::test]
async fn d6_cleaning_up_refuses_with_the_list_and_discarding_takes_a_snapshot() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let trees = trees(&project).await;
    let blobs = blobs(&project, &trees).await;
    for tree in &trees {
        let error = yard.server.refused("cleanup_task_worktree", json!({ "task_id": tree.task }), "FAILED_PRECONDITION").await;
        assert!(message(&error).contains(tree.said), "{}: {error}", tree.said);
        assert!(error["hint"].as_str().unwrap().contains("discard_changes"), "{error}");
        assert!(tree.path.exists());
    }
    let rows = yard.server.call("list_worktrees", json!({ "state": "active" })).await;
    let unsaved = rows["worktrees"].as_array().unwrap().iter().filter(|row| !row["unsaved"].is_null()).count();
    assert_eq!(unsaved, trees.len(), "{rows}");
    for tree in &trees {
        let arguments = json!({ "task_id": tree.task, "discard_changes": true });
        let cleaned = yard.server.call("cleanup_task_worktree", arguments).await;
        assert!(!tree.path.exists() && cleaned["snapshot_id"].is_string(), "{cleaned}");
        assert_eq!(cleaned["branch_deleted"], false, "it holds commits of its own");
    }
    all_reachable(&project, &blobs).await;
    let listed = yard.server.call("list_snapshots", json!({})).await;
    assert_eq!(listed["total"], trees.len());
    let shown = yard.server.cli(&["snapshot", "list"]).await;
    for row in listed["snapshots"].as_array().unwrap() {
        let (id, name) = (row["snapshot_id"].as_str().unwrap(), row["ref"].as_str().unwrap());
        assert!(shown.out.contains(id) && shown.out.contains(name), "{shown:?}");
        assert!(!project.git(&["rev-parse", "--verify", name]).await.is_empty());
        let tree = trees.iter().find(|tree| row["task_id"] == tree.task.as_str()).unwrap();
        restored(&project, tree, id).await;
    }
    all_reachable(&project, &blobs).await;
}

#[tokio::test]
async fn d6_deleting_tasks_keeps_or_snapshots_everything() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let trees = trees(&project).await;
    let blobs = blobs(&project, &trees).await;
    for tree in &trees {
        let deleted = yard.server.call("delete_task", json!({ "task_id": tree.task })).await;
        assert_eq!(deleted["snapshots"].as_array().unwrap().len(), 1, "{deleted}");
        restored(&project, tree, deleted["snapshots"][0].as_str().unwrap()).await;
        assert!(!tree.path.exists());
    }
    all_reachable(&project, &blobs).await;
    assert_eq!(yard.server.call("list_tasks", json!({ "list_id": project.list })).await["tasks"], json!([]));
}

#[tokio::test]
async fn d6_a_worktree_that_somebody_works_in_stays() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("Lived in", committed("l.txt", "l\n")).await;
    let path = yard.worktree(&task).await;
    let mut shell = spawn(Spawn {
        program: "sleep".into(),
        args: vec!["1000".into()],
        cwd: path.clone(),
        env: yard.server.env(),
        stdin: false,
        marker: None,
    })
    .unwrap();
    for discard in [false, true] {
        let arguments = json!({ "task_id": task, "discard_changes": discard });
        let error = yard.server.refused("cleanup_task_worktree", arguments, "FAILED_PRECONDITION").await;
        assert!(message(&error).contains(&format!("live processes ({})", shell.pid())), "{error}");
    }
    yard.server.refused("delete_task", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    // Merging takes nothing away: the folder stays as long as somebody is in it.
    assert_eq!(project.approve(&task).await["merged"], true);
    assert!(path.exists() && taskyard_process::tree::is_alive(shell.pid(), shell.start_time()));
    shell.end(std::time::Duration::ZERO).await;
    let cleaned = yard.server.call("cleanup_task_worktree", json!({ "task_id": task })).await;
    assert_eq!((&cleaned["removed"], path.exists()), (&json!(true), false));
}

#[tokio::test]
async fn many_views_of_a_worktree_are_no_reason_to_refuse_its_removal() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("Looked at", json!([write("b.txt", "b\n")])).await;
    let looks = (0..12).map(|_| yard.server.call("get_task_worktree", json!({ "task_id": task })));
    let (looked, cleaned) =
        tokio::join!(futures::future::join_all(looks), yard.server.call("cleanup_task_worktree", json!({ "task_id": task })));
    assert_eq!(cleaned["removed"], true);
    for look in looked {
        let unsaved = look["worktree"]["unsaved"].as_str().unwrap_or_default();
        assert!(!unsaved.contains("live processes"), "{look}");
    }
    eventually("the folder to be gone", async || (!yard.worktree(&task).await.exists()).then_some(())).await;
}
