//! Undoing a merge, and going on from there.

use crate::project::{Project, committed, message};
use crate::support::Yard;
use serde_json::json;

#[tokio::test]
async fn c11_after_a_revert_the_first_and_the_second_work_land_together() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", json!([{ "write": { "path": "f.txt", "content": "one\n" } }, { "write": { "path": "g.txt", "content": "g\n" } }, { "commit": "first" }])).await;
    project.approve(&task).await;
    let reverted = yard.server.call("revert_merge", json!({ "task_id": task })).await;
    assert_eq!((&reverted["reverted"], &reverted["status"]), (&json!(true), &json!("waiting_for_review")));
    assert_eq!((project.read("f.txt"), project.git(&["status", "--porcelain"]).await), (None, String::new()));
    assert_eq!(yard.get(&task).await["worktree"]["state"], "kept");
    let error = yard.server.refused("revert_merge", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert!(message(&error).contains("already reverted"), "{error}");
    let preview = yard.server.call("preview_merge", json!({ "task_id": task })).await;
    assert_eq!((&preview["result"], preview["changed_file_count"].as_i64()), (&json!("clean"), Some(2)));
    // The same file again, and the other one not at all: git by itself would leave that one out.
    project.go_on(&task, json!([{ "append": { "path": "f.txt", "content": "two\n" } }, { "commit": "second" }])).await;
    project.approve(&task).await;
    assert_eq!((project.read("f.txt").as_deref(), project.read("g.txt").as_deref()), (Some("one\ntwo\n"), Some("g\n")));
    assert_eq!(project.git(&["status", "--porcelain"]).await, "");
    // And out again, as a whole.
    yard.server.call("revert_merge", json!({ "task_id": task })).await;
    assert_eq!((project.read("f.txt"), project.read("g.txt")), (None, None));
}

#[tokio::test]
async fn c11_a_conflicting_revert_is_refused_in_words_of_its_own_and_leaves_nothing() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("f.txt", "one\n")).await;
    let merged = project.approve(&task).await;
    let other = project.work("Other", committed("f.txt", "other\n")).await;
    project.approve(&other).await;
    project.tidied(&task).await;
    project.tidied(&other).await;
    let before = project.picture().await;
    let error = yard.server.refused("revert_merge", json!({ "task_id": task }), "CONFLICT").await;
    assert_eq!((&error["details"]["files"], &error["details"]["nothing_changed"]), (&json!(["f.txt"]), &json!(true)), "{error}");
    let text = format!("{} {}", message(&error), error["hint"].as_str().unwrap_or_default());
    assert!(text.contains("revert") || text.contains("undo"), "{text}");
    assert!(!text.contains("reject_rerun") && !text.contains("leave_open"), "a done task can't be sent back: {text}");
    assert!(text.contains("main") && merged["merged"] == true, "{text}");
    assert_eq!((project.picture().await, yard.status(&task).await), (before, "done".into()));
}

#[tokio::test]
async fn only_a_recorded_merge_is_undone() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("f.txt", "one\n")).await;
    let before = project.picture().await;
    yard.server.refused("revert_merge", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    // Merged by hand: nothing is recorded, so nothing is guessed.
    project.git(&["merge", "-q", "--no-ff", "--no-edit", "taskyard/ty-1-one"]).await;
    assert_ne!(project.picture().await, before);
    let answer = project.approve(&task).await;
    assert_eq!((&answer["merged"], &answer["nothing_to_merge"]), (&json!(false), &json!(true)));
    yard.server.refused("revert_merge", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert_eq!(project.read("f.txt").as_deref(), Some("one\n"));
}

#[tokio::test]
async fn the_users_edits_survive_a_revert() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("f.txt", "one\n")).await;
    project.approve(&task).await;
    project.write("f.txt", "mine now\n");
    let before = project.git(&["rev-parse", "main"]).await;
    let error = yard.server.refused("revert_merge", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert!(message(&error).contains("f.txt"), "{error}");
    assert_eq!((project.git(&["rev-parse", "main"]).await, project.read("f.txt").as_deref()), (before, Some("mine now\n")));
    project.git(&["checkout", "-q", "f.txt"]).await;
    project.write("a.txt", "being edited\n");
    yard.server.call("revert_merge", json!({ "task_id": task })).await;
    assert_eq!((project.read("f.txt"), project.read("a.txt").as_deref()), (None, Some("being edited\n")));
    assert_eq!(project.git(&["status", "--porcelain"]).await, "M a.txt");
}

/// What is merged of a task that went on is named, and undone by its name.
#[tokio::test]
async fn an_earlier_merge_of_a_task_that_went_on_is_named_and_can_be_undone() {
    let yard = Yard::new().await;
    let script = "cat >/dev/null; n=$(ls | grep -c round-); echo x > round-$n.txt; git add -A; git commit -qm Round";
    yard.agent("sh", json!({ "driver": "exec", "command": ["sh", "-c", script] })).await;
    let task = yard.add("Rounds", json!([]), json!({ "queue": true, "agent_profile_id": "sh" })).await;
    yard.reviewable(&task).await;
    let approve = json!({ "task_id": task, "decision": "approve" });
    let merged = yard.server.call("review_task", approve.clone()).await["merge"].clone();
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reviewable(&task).await;
    let told = yard.server.cli(&["task", "revert", &task]).await;
    let commit = merged["commit"].as_str().unwrap();
    assert!(told.code == 7 && told.err.contains(commit) && told.err.contains("--worktree"), "{told:?}");
    yard.server.call("review_task", approve).await;
    let refused = yard.server.cli(&["task", "revert", &task, "--worktree", "no-uuid"]).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    let told = yard.server.cli(&["task", "revert", &task, "--worktree", merged["worktree_id"].as_str().unwrap()]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert!(!yard.repo.path().join("round-0.txt").exists() && yard.repo.path().join("round-1.txt").exists());
    let error = yard.server.refused("revert_merge", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert!(error["message"].as_str().unwrap().contains("only a done task"), "{error}");
}
