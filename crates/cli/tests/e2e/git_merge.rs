//! Merging on the user's own checkout: their edits stay, a refusal changes nothing, a success is whole.

use crate::project::{Project, committed, message, write};
use crate::support::{Task, Yard};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A task whose change of `a.txt` conflicts with what the target has now.
async fn conflicting(project: &Project<'_>) -> Task {
    let task = project.work("Theirs", committed("a.txt", "theirs\n")).await;
    project.write("a.txt", "ours\n");
    project.commit("Ours").await;
    task
}

/// Steps that take the target in and settle the conflict in `a.txt`.
fn settle() -> Value {
    json!([{ "shell": "git merge -q main || true; echo both > a.txt; git add -A; git commit -qm 'Take main in'" }])
}

#[tokio::test]
async fn c1_c4_edits_elsewhere_stay_and_a_checked_out_target_is_whole() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("b.txt", "b\n")).await;
    project.write("a.txt", "being edited\n");
    project.write("untracked.txt", "mine\n");
    project.approve(&task).await;
    assert_eq!(project.git(&["status", "--porcelain"]).await, "M a.txt\n?? untracked.txt");
    assert_eq!((project.read("a.txt").as_deref(), project.read("b.txt").as_deref()), (Some("being edited\n"), Some("b\n")));
    assert_eq!(project.git(&["stash", "list"]).await, "");
    // `merge` always makes a merge commit.
    assert_eq!(project.git(&["rev-list", "--parents", "-1", "main"]).await.split(' ').count(), 3);
}

#[tokio::test]
async fn c2_overlapping_edits_refuse_the_merge_and_name_file_and_tree() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", json!([write("a.txt", "theirs\n"), write("new.txt", "n\n"), { "commit": "work" }])).await;
    for (file, mine) in [("a.txt", "mine\n"), ("new.txt", "untracked and mine\n")] {
        project.write(file, mine);
        let before = project.picture().await;
        let error = project.refused(&task, "FAILED_PRECONDITION").await;
        assert!(message(&error).contains(file) && message(&error).contains(project.path.to_str().unwrap()), "{error}");
        assert_eq!((&error["details"]["files"], &error["details"]["nothing_changed"]), (&json!([file]), &json!(true)));
        assert_eq!(project.picture().await, before);
        project.git(&["checkout", "-q", "."]).await;
        project.git(&["clean", "-fdq"]).await;
    }
    project.approve(&task).await;
    assert_eq!(project.read("a.txt").as_deref(), Some("theirs\n"));
}

#[tokio::test]
async fn c6_a_conflict_leaves_nothing_by_any_strategy_and_the_agent_can_be_sent_back() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = conflicting(&project).await;
    let before = project.picture().await;
    let tips = (project.git(&["rev-parse", "main"]).await, project.git(&["rev-parse", "taskyard/ty-1-theirs"]).await);
    for strategy in ["merge", "squash", "rebase"] {
        let arguments = json!({ "task_id": task, "strategy": strategy });
        let error = yard.server.refused("merge_task", arguments, "CONFLICT").await;
        let details = &error["details"];
        assert_eq!(
            (&details["files"], &details["target"], &details["nothing_changed"]),
            (&json!(["a.txt"]), &json!("main"), &json!(true)),
            "{error}"
        );
        assert_eq!((&details["target_commit"], &details["task_commit"]), (&json!(tips.0), &json!(tips.1)));
        assert!(message(&error).contains("taskyard/ty-1-theirs") && message(&error).contains("main"), "{error}");
        let again = json!({ "task_id": task, "decision": "approve", "strategy": strategy });
        yard.server.refused("review_task", again, "CONFLICT").await;
        assert_eq!(project.picture().await, before, "{strategy}");
        assert_eq!(yard.status(&task).await, "waiting_for_review");
    }
    let feedback = crate::support::prompt("It conflicts: take main in.", settle());
    yard.server.call("review_task", json!({ "task_id": task, "decision": "reject_rerun", "feedback": feedback })).await;
    crate::support::eventually("the agent's second run", async || (yard.outcomes(&task).await.len() == 2).then_some(())).await;
    yard.reviewable(&task).await;
    project.approve(&task).await;
    assert_eq!((project.read("a.txt").as_deref(), project.git(&["status", "--porcelain"]).await), (Some("both\n"), String::new()));
}

#[tokio::test]
async fn every_strategy_lands_what_it_says_and_can_be_undone() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    for (strategy, parents, commits) in [("merge", 3, 3), ("squash", 2, 1), ("rebase", 2, 2)] {
        let file = format!("{strategy}.txt");
        let steps = json!([write(&file, "1\n"), { "commit": "one" }, write(&file, "2\n"), { "commit": "two" }]);
        let task = project.work(strategy, steps).await;
        project.write("other.txt", strategy);
        let before = project.commit("Diverge").await;
        let merged = yard.server.call("merge_task", json!({ "task_id": task, "strategy": strategy })).await;
        assert_eq!((&merged["merge"]["target_before"], &merged["status"]), (&json!(before), &json!("done")));
        assert_eq!(project.git(&["rev-list", "--parents", "-1", "main"]).await.split(' ').count(), parents, "{strategy}");
        assert_eq!(project.git(&["rev-list", "--count", &format!("{before}..main")]).await, commits.to_string(), "{strategy}");
        assert_eq!((project.read(&file).as_deref(), project.git(&["status", "--porcelain"]).await), (Some("2\n"), String::new()));
        yard.server.call("revert_merge", json!({ "task_id": task })).await;
        assert_eq!(project.git(&["rev-parse", "main^{tree}"]).await, project.git(&["rev-parse", &format!("{before}^{{tree}}")]).await);
    }
}

#[tokio::test]
async fn c8_the_diff_shows_only_the_tasks_own_work_when_the_base_moves_on() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let first = project.work("First", committed("x1.txt", "1\n")).await;
    let second = project.work("Second", committed("x2.txt", "2\n")).await;
    project.approve(&first).await;
    let diff = yard.server.call("get_task_diff", json!({ "task_id": second })).await;
    assert_eq!((diff["total_files"].as_i64(), &diff["files"][0]["path"]), (Some(1), &json!("x2.txt")));
    assert_eq!((diff["behind"].as_i64(), diff["ahead"].as_i64()), (Some(2), Some(1)));
}

#[tokio::test]
async fn c12_an_operation_in_progress_in_the_users_tree_is_named_not_hidden() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("b.txt", "b\n")).await;
    project.git(&["checkout", "-q", "-b", "side"]).await;
    project.write("a.txt", "side\n");
    project.commit("Side").await;
    project.git(&["checkout", "-q", "main"]).await;
    project.write("a.txt", "main\n");
    project.commit("Main").await;
    yard.repo.git(&["rebase", "side"]).await.expect_err("a conflict");
    let before = project.picture().await;
    let core = yard.server.mcp("mode=core", None).await;
    let raw = core.request("tools/call", json!({ "name": "merge_task", "arguments": { "task_id": task } })).await;
    assert_eq!(raw["result"]["isError"], true, "{raw}");
    let error = &raw["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "FAILED_PRECONDITION");
    assert!(message(error).contains("a rebase is in progress") && message(error).contains(project.path.to_str().unwrap()), "{error}");
    let told = yard.server.cli(&["task", "merge", "TY-1"]).await;
    assert!(told.code == 7 && told.err.contains("a rebase is in progress"), "{told:?}");
    assert_eq!(project.picture().await, before);
    yard.repo.git(&["rebase", "--abort"]).await.unwrap();
    assert_eq!(project.approve(&task).await["merged"], true);
}

#[tokio::test]
async fn a_branch_that_has_moved_since_it_was_looked_at_is_not_merged() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("b.txt", "b\n")).await;
    let seen = yard.server.call("get_task_diff", json!({ "task_id": task })).await["tip_commit"].as_str().unwrap().to_owned();
    project.go_on(&task, committed("c.txt", "c\n")).await;
    let before = project.picture().await;
    let stale = json!({ "task_id": task, "decision": "approve", "expected_head": seen });
    let error = yard.server.refused("review_task", stale, "CONFLICT").await;
    let found = error["details"]["found"].as_str().unwrap().to_owned();
    assert_eq!((&error["field"], &error["details"]["nothing_changed"]), (&json!("expected_head"), &json!(true)));
    yard.server.refused("merge_task", json!({ "task_id": task, "expected_head": "main" }), "INVALID_ARGUMENT").await;
    assert_eq!(project.picture().await, before);
    let merged = yard.server.call("review_task", json!({ "task_id": task, "decision": "approve", "expected_head": found[..12] })).await;
    assert_eq!(merged["merge"]["tip"], found.as_str());
}

#[tokio::test]
async fn a_task_with_an_open_run_or_with_children_is_not_merged() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("Parent", committed("b.txt", "b\n")).await;
    let prompt =
        crate::support::prompt("Go on.", json!([{ "text": "On it." }, { "signal": yard.gate("on") }, { "wait_file": yard.gate("end") }]));
    yard.server.call("continue_task", json!({ "task_id": task, "prompt": prompt })).await;
    yard.reached("on").await;
    for (tool, more) in [("merge_task", json!({})), ("review_task", json!({ "decision": "approve" })), ("cleanup_task_worktree", json!({}))]
    {
        let mut arguments = more;
        arguments["task_id"] = task.as_str().into();
        yard.server.refused(tool, arguments, "FAILED_PRECONDITION").await;
    }
    yard.open("end");
    yard.reviewable(&task).await;
    let child = yard.server.call("add_subtask", json!({ "parent_id": task, "title": "Child" })).await;
    let before = project.picture().await;
    let error = project.refused(&task, "FAILED_PRECONDITION").await;
    assert!(message(&error).contains("TY-2"), "{error}");
    yard.server.refused("merge_task", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert_eq!(project.picture().await, before);
    yard.server.call("delete_task", json!({ "task_id": child["task_id"] })).await;
    assert_eq!(project.approve(&task).await["merged"], true);
}

#[tokio::test]
async fn approving_a_run_without_changes_is_an_explicit_no_op() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("Nothing", json!([{ "text": "All is well." }])).await;
    assert_eq!(yard.get(&task).await["last_outcome"], "no_changes");
    let before = project.git(&["rev-parse", "main"]).await;
    let answer = project.approve(&task).await;
    assert_eq!((&answer["merged"], &answer["nothing_to_merge"], &answer["status"]), (&json!(false), &json!(true), &json!("done")));
    assert_eq!(project.git(&["rev-parse", "main"]).await, before);
    crate::support::eventually("the worktree to be put away", async || (project.trees().await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn an_open_conflict_is_resolved_or_given_up_over_mcp() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = conflicting(&project).await;
    let mcp = yard.server.mcp("mode=external", None).await;
    let about = || json!({ "task_id": task });
    let open = || json!({ "task_id": task, "on_conflict": "leave_open" });
    let (main, tree) = (project.git(&["rev-parse", "main"]).await, project.git(&["status", "--porcelain"]).await);
    let opened = mcp.call("merge_task", open()).await.unwrap();
    assert_eq!((&opened["merged"], &opened["merge_open"], &opened["files"]), (&json!(false), &json!(true), &json!(["a.txt"])));
    let folder = PathBuf::from(opened["merge_worktree_path"].as_str().unwrap());
    assert!(std::fs::read_to_string(folder.join("a.txt")).unwrap().contains("<<<<<<<"));
    assert_eq!((yard.get(&task).await["merge_open"].clone(), yard.status(&task).await), (json!(true), "waiting_for_review".into()));
    assert_eq!((project.git(&["rev-parse", "main"]).await, project.git(&["status", "--porcelain"]).await), (main.clone(), tree));
    assert_eq!(mcp.call("merge_task", open()).await.unwrap_err()["code"], "FAILED_PRECONDITION");
    let markers = mcp.call("continue_merge", about()).await.unwrap_err();
    assert!(message(&markers).contains("a.txt"), "{markers}");
    assert_eq!(mcp.call("abort_merge", about()).await.unwrap()["aborted"], true);
    assert!(!folder.exists() && project.trees().await.len() == 2);
    assert_eq!(project.git(&["for-each-ref", "refs/taskyard"]).await, "");

    let opened = mcp.call("merge_task", open()).await.unwrap();
    let folder = PathBuf::from(opened["merge_worktree_path"].as_str().unwrap());
    std::fs::write(folder.join("a.txt"), "both\n").unwrap();
    project.git_in(&folder, &["add", "a.txt"]).await;
    let landed = mcp.call("continue_merge", about()).await.unwrap();
    assert_eq!((&landed["merged"], &landed["status"]), (&json!(true), &json!("done")), "{landed}");
    assert_eq!((project.read("a.txt").as_deref(), project.git(&["status", "--porcelain"]).await), (Some("both\n"), String::new()));
    project.tidied(&task).await;
    assert!(!folder.exists() && project.trees().await.len() == 1);
}

#[tokio::test]
async fn an_open_conflict_goes_on_where_its_target_has_moved_and_loses_nothing() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = conflicting(&project).await;
    let opened = yard.server.call("merge_task", json!({ "task_id": task, "on_conflict": "leave_open" })).await;
    let folder = PathBuf::from(opened["merge_worktree_path"].as_str().unwrap());
    std::fs::write(folder.join("a.txt"), "both\n").unwrap();
    project.git_in(&folder, &["add", "a.txt"]).await;
    project.write("a.txt", "later\n");
    let moved = project.commit("Meanwhile").await;
    let error = yard.server.refused("continue_merge", json!({ "task_id": task }), "CONFLICT").await;
    assert!(error["hint"].as_str().unwrap().contains("git merge main"), "{error}");
    assert_eq!((project.git(&["rev-parse", "main"]).await, project.git(&["status", "--porcelain"]).await), (moved, String::new()));
    assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), "both\n");
    let given_up = yard.server.call("abort_merge", json!({ "task_id": task })).await;
    let listed = yard.server.call("list_snapshots", json!({ "task_id": task })).await;
    assert_eq!(
        (yard.status(&task).await.as_str(), &listed["snapshots"][0]["snapshot_id"]),
        ("waiting_for_review", &given_up["snapshot_id"])
    );

    let opened = yard.server.call("merge_task", json!({ "task_id": task, "on_conflict": "leave_open" })).await;
    let folder = PathBuf::from(opened["merge_worktree_path"].as_str().unwrap());
    std::fs::write(folder.join("a.txt"), "all three\n").unwrap();
    project.git_in(&folder, &["add", "a.txt"]).await;
    project.write("c.txt", "c\n");
    project.commit("Meanwhile again").await;
    let landed = yard.server.call("continue_merge", json!({ "task_id": task })).await;
    assert_eq!(landed["merged"], true, "{landed}");
    assert_eq!((project.read("a.txt").as_deref(), project.read("c.txt").as_deref()), (Some("all three\n"), Some("c\n")));
}

#[tokio::test]
async fn two_clients_approve_at_the_same_moment() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let one = project.work("One", committed("one.txt", "1\n")).await;
    let two = project.work("Two", committed("two.txt", "2\n")).await;
    let (left, right) = (yard.server.mcp("mode=core", None).await, yard.server.mcp("mode=core", None).await);
    let approve = |task: &str| json!({ "task_id": task, "decision": "approve" });
    // Two tasks, and one of them by both.
    let (first, second, third) = tokio::join!(
        left.call("review_task", approve(&one)),
        right.call("review_task", approve(&two)),
        right.call("review_task", approve(&one)),
    );
    assert_eq!(second.unwrap()["merged"], true);
    let (winner, loser) = if first.is_ok() { (first, third) } else { (third, first) };
    assert_eq!(winner.unwrap()["merged"], true);
    assert!(["FAILED_PRECONDITION", "CONFLICT"].contains(&loser.unwrap_err()["code"].as_str().unwrap()));
    assert_eq!((project.read("one.txt").as_deref(), project.read("two.txt").as_deref()), (Some("1\n"), Some("2\n")));
    assert_eq!(project.git(&["rev-list", "--count", "--merges", "main"]).await, "2");
    assert_eq!(project.git(&["status", "--porcelain"]).await, "");
    assert_eq!((yard.status(&one).await, yard.status(&two).await), ("done".into(), "done".into()));
}
