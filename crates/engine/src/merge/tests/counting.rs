//! How often git is called on the ways that people wait for. A call that comes back here costs every one of them.

use super::yard::{Work, Yard, about, operator};
use crate::commands::output::GetTaskDiffOutput;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The calls of git that `work` makes, by what they are for.
async fn calls<T>(yard: &Yard, work: impl Future<Output = T>) -> (T, BTreeMap<&'static str, u64>) {
    let before = yard.engine.git().calls();
    let done = work.await;
    let mut made = yard.engine.git().calls();
    made.iter_mut().for_each(|(stage, count)| *count -= before.get(stage).copied().unwrap_or_default());
    made.retain(|_, count| *count > 0);
    (done, made)
}

#[tokio::test]
async fn an_approval_takes_nine_calls_of_git() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.others("c.txt", "c\n").await;
    let (done, made) = calls(&yard, yard.approve(&work)).await;
    assert!(done.unwrap().merged);
    let expected = [
        "ask a tree to follow",
        "find the merge base",
        "list changed files",
        "make a commit",
        "merge in memory",
        "move the target",
        "read the status",
        "read the user's settings",
        "refresh a tree",
    ];
    assert_eq!(made, expected.map(|stage| (stage, 1)).into());
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_worktree_takes_four_calls_of_git() {
    let yard = Yard::new().await;
    let task = yard.bare_task("New").await;
    let (stood, made) = calls(&yard, yard.stand(task)).await;
    stood.unwrap();
    assert_eq!(made, ["list a commit's files", "list refs", "make a ref", "make the worktree"].map(|stage| (stage, 1)).into());
}

async fn page(yard: &Yard, work: &Work, more: Value) -> (GetTaskDiffOutput, BTreeMap<&'static str, u64>) {
    let (page, made) = calls(yard, yard.engine.get_task_diff(&operator(), about(work, more))).await;
    (page.unwrap(), made)
}

// E4
#[tokio::test]
async fn pages_after_the_first_list_nothing_anew() {
    let yard = Yard::new().await;
    let work = yard.task("Many").await;
    for n in 0..200 {
        yard.write(&work, &format!("file{n:03}.txt"), "x\n");
    }
    yard.work(&work, "a.txt", "changed\n").await;
    let (first, made) = page(&yard, &work, json!({ "stat_only": true })).await;
    assert_eq!((first.total_files, made["list changed files"], made["measure files"]), (201, 1, 1));
    let (mut names, mut cursor) = (first.files, first.next_cursor);
    while let Some(at) = cursor {
        let (next, made) = page(&yard, &work, json!({ "stat_only": true, "cursor": at })).await;
        assert!(!made.contains_key("list changed files") && !made.contains_key("measure files"), "{made:?}");
        assert_eq!(next.total_files, 201);
        names.extend(next.files);
        cursor = next.next_cursor;
    }
    assert_eq!(names.len(), 201);
    assert!(names.windows(2).all(|two| two[0].path < two[1].path));

    // A new commit is another diff.
    yard.work(&work, "file000.txt", "y\n").await;
    let (anew, made) = page(&yard, &work, json!({ "stat_only": true })).await;
    assert_eq!((anew.total_files, made["list changed files"]), (201, 1));
}

// E4
#[tokio::test]
async fn one_file_is_found_without_a_listing_of_all() {
    let yard = Yard::new().await;
    yard.others("moved.txt", &"line\n".repeat(50)).await;
    let work = yard.task("Move").await;
    std::fs::create_dir(work.path.join("to")).unwrap();
    std::fs::rename(work.path.join("moved.txt"), work.path.join("to/moved.txt")).unwrap();
    yard.work(&work, "a.txt", "changed\n").await;
    let (one, made) = page(&yard, &work, json!({ "path": "a.txt" })).await;
    assert_eq!((one.total_files, made["list changed files"]), (1, 1));
    assert!(one.files[0].patch.as_ref().unwrap().contains("+changed"));
    // Only the whole listing tells that a file comes from elsewhere.
    let (moved, made) = page(&yard, &work, json!({ "path": "to" })).await;
    assert_eq!((moved.files[0].status.as_str(), moved.files[0].old_path.as_deref()), ("renamed", Some("moved.txt")));
    assert_eq!(made["list changed files"], 2);
}
