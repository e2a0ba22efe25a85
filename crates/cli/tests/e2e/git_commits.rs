//! Commits that Taskyard makes for an agent: hooks that refuse, signatures that can't be made, nothing swept in.

use crate::project::{Project, committed, message, program, write};
use crate::support::Yard;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest that a signature which never comes may hold a run or a merge up, on a loaded machine.
const BOUND: Duration = Duration::from_secs(75);

async fn untouched_work(yard: &Yard, task: &str) {
    let worktree = yard.server.call("get_task_worktree", json!({ "task_id": task })).await["worktree"].clone();
    let counts = (worktree["ahead"].as_i64(), worktree["untracked_count"].as_i64(), &worktree["operation"]);
    assert_eq!(counts, (Some(0), Some(1), &Value::Null), "{worktree}");
}

#[tokio::test]
async fn b3_a_hook_that_refuses_the_commit_fails_the_run_and_keeps_the_work() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    project.hook("pre-commit", "echo secret found >&2; exit 1");
    let task = project.queue("One", json!([write("b.txt", "b\n")])).await;
    let failed = yard.wait_status(&task, "failed").await;
    let why = failed["failure"].as_str().unwrap();
    assert!(why.contains("pre-commit") && why.contains("secret found") && why.contains("hook_policy = skip"), "{why}");
    untouched_work(&yard, &task).await;
    project.refused(&task, "FAILED_PRECONDITION").await;
    // The stated choice is the only way around.
    project.set(json!({ "hook_policy": "skip" })).await;
    project.go_on(&task, json!([])).await;
    project.approve(&task).await;
    assert_eq!(project.read("b.txt").as_deref(), Some("b\n"));
}

#[tokio::test]
async fn b3_a_hook_that_refuses_the_merge_changes_nothing() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let task = project.work("One", committed("b.txt", "b\n")).await;
    project.hook("pre-merge-commit", "echo secret found >&2; exit 1");
    project.write("c.txt", "c\n");
    project.commit("Diverge").await;
    let before = project.picture().await;
    let error = project.refused(&task, "FAILED_PRECONDITION").await;
    assert!(message(&error).contains("pre-merge-commit") && message(&error).contains("secret found"), "{error}");
    assert_eq!(error["details"]["nothing_changed"], true);
    assert_eq!(project.picture().await, before);
    assert_eq!(yard.status(&task).await, "waiting_for_review");
    project.set(json!({ "hook_policy": "skip" })).await;
    assert_eq!(project.approve(&task).await["merged"], true);
}

#[tokio::test]
async fn b4_signing_that_fails_is_said_and_nothing_is_half_done() {
    signing(async |yard| {
        let path = yard.repo.outside().join("refuse");
        program(&path, "echo no card >&2; exit 2");
        path.to_str().unwrap().to_owned()
    })
    .await;
}

#[tokio::test]
async fn b4_signing_that_waits_for_a_pin_is_given_up() {
    signing(async |yard| {
        let path = yard.repo.outside().join("wait-for-pin");
        program(&path, "exec sleep 1000");
        path.to_str().unwrap().to_owned()
    })
    .await;
}

/// At a run's end and at a merge, side by side: each refused in bounded time, in words, with nothing half done.
async fn signing(signer: impl AsyncFn(&Yard) -> String) {
    let yard = Yard::new().await;
    let program = signer(&yard).await;
    let (left, merged) = (Project::new(&yard, "left").await, Project::new(&yard, "merged").await);
    let done = merged.work("Merge", committed("b.txt", "b\n")).await;
    for project in [&left, &merged] {
        project.git(&["config", "commit.gpgsign", "true"]).await;
        project.git(&["config", "gpg.program", &program]).await;
    }
    let before = merged.picture().await;
    let started = Instant::now();
    let at_end = async {
        let task = left.queue("Leave", json!([write("b.txt", "b\n")])).await;
        (yard.wait_status(&task, "failed").await["failure"].as_str().unwrap().to_owned(), task)
    };
    let ((why, task), error) = tokio::join!(at_end, merged.refused(&done, "FAILED_PRECONDITION"));
    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
    for text in [why.as_str(), &format!("{} {}", message(&error), error["hint"])] {
        assert!(text.contains("signing the commit failed") && text.contains("sign_policy = never"), "{text}");
    }
    untouched_work(&yard, &task).await;
    assert_eq!(merged.picture().await, before);
    // The explicit choice of unsigned commits.
    for project in [&left, &merged] {
        project.set(json!({ "sign_policy": "never" })).await;
    }
    left.go_on(&task, json!([])).await;
    for (project, task) in [(&left, &task), (&merged, &done)] {
        assert_eq!(project.approve(task).await["merged"], true);
        assert_eq!(project.read("b.txt").as_deref(), Some("b\n"));
    }
}

#[tokio::test]
async fn c13_what_an_agent_left_is_committed_by_the_rule_or_holds_the_merge_up() {
    let yard = Yard::new().await;
    yard.agent("ada", json!({})).await;
    yard.agent("careless", json!({ "auto_commit": false })).await;
    let project = Project::own(&yard).await;
    project.write(".gitignore", "ignored\n");
    project.commit("Ignore").await;
    let steps = json!([write("a.txt", "edited\n"), write("new.txt", "new\n"), write("ignored", "i\n")]);
    let swept = project.work("Swept", steps.clone()).await;
    let more = json!({ "list_id": project.list, "queue": true, "agent_profile_id": "careless" });
    let left = yard.add("Left", steps, more).await;
    yard.reviewable(&left).await;
    let diff = yard.server.call("get_task_diff", json!({ "task_id": left })).await;
    assert_eq!((&diff["uncommitted"], diff["total_files"].as_i64()), (&json!(true), Some(2)), "{diff}");
    let preview = yard.server.call("preview_merge", json!({ "task_id": left })).await;
    assert_eq!(preview["uncommitted_file_count"], 2);
    let before = project.picture().await;
    let error = project.refused(&left, "FAILED_PRECONDITION").await;
    assert_eq!(error["details"]["uncommitted_files"], json!(["a.txt", "new.txt"]), "{error}");
    assert_eq!(project.picture().await, before);
    project.approve(&swept).await;
    assert_eq!(project.git(&["ls-files"]).await, ".gitignore\nREADME.md\na.txt\nnew.txt");
    assert_eq!(project.read("a.txt").as_deref(), Some("edited\n"));
}

/// B1: an agent that switches the project to bare and commits itself is told of with the repair, and so is the next run.
#[tokio::test]
async fn b1_a_project_that_a_turn_switches_to_bare_is_reported_by_that_run() {
    let yard = Yard::new().await;
    let script = "cat >/dev/null; echo y > a.txt; git add a.txt; git commit -qm Work; git config core.bare true";
    yard.agent("sh", json!({ "driver": "exec", "command": ["sh", "-c", script] })).await;
    let config = json!({ "queue": true, "agent_profile_id": "sh" });
    for title in ["Switch it", "Come after"] {
        let task = yard.add(title, Value::Null, config.clone()).await;
        let shown = yard.wait_status(&task, "failed").await;
        let cause = shown["failure"].as_str().unwrap();
        assert!(cause.contains("config core.bare false"), "{title}: {cause}");
    }
    yard.repo.git(&["config", "core.bare", "false"]).await.unwrap();
    let kept = yard.branches().await;
    let mut work = Vec::new();
    for branch in &kept {
        work.push(yard.repo.git(&["show", &format!("{branch}:a.txt")]).await);
    }
    assert!(work.iter().flatten().any(|text| text == "y"), "the commit is kept: {kept:?} {work:?}");
}
