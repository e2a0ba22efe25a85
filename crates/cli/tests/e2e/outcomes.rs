//! How runs end, judged by facts.

use crate::support::{Yard, work};
use serde_json::{Value, json};

#[tokio::test]
async fn a_committed_change_waits_for_review_and_merges() {
    let yard = Yard::new().await;
    let task = yard.queue("Add a file", work("a.txt", "a\n")).await;
    let shown = yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    assert_eq!(shown["latest_run"]["agent"], "ada");
    yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!(yard.status(&task).await, "done");
    assert_eq!(yard.repo.git(&["show", "main:a.txt"]).await.unwrap(), "a");
    assert_eq!(yard.repo.git(&["status", "--porcelain"]).await.unwrap(), "");
    yard.nothing_lives(&task).await;
}

#[tokio::test]
async fn a_turn_that_changes_nothing_is_marked_and_approving_it_is_a_no_op() {
    let yard = Yard::new().await;
    let task = yard.queue("Look around", json!([{ "text": "All is well." }])).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["no_changes"]);
    let before = yard.repo.git(&["rev-parse", "main"]).await.unwrap();
    let approved = yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!((&approved["nothing_to_merge"], &approved["merged"]), (&json!(true), &json!(false)));
    assert_eq!(yard.repo.git(&["rev-parse", "main"]).await.unwrap(), before);
}

#[tokio::test]
async fn a_turn_that_the_models_output_limit_ended_says_so_with_changes_and_without() {
    let yard = Yard::new().await;
    for (steps, outcome) in [(json!([]), "no_changes"), (work("a.txt", "a\n"), "succeeded")] {
        let mut steps = steps.as_array().unwrap().clone();
        steps.push(json!({ "stop": "max_tokens" }));
        let task = yard.queue("Say much", Value::Array(steps)).await;
        yard.reviewable(&task).await;
        assert_eq!(yard.outcomes(&task).await, [outcome]);
        let reason = yard.run(&task).await["exit_reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("output limit") && reason.contains("unfinished"), "{reason}");
    }
}

/// Runs a task that has to fail; gives its cause.
async fn failure(yard: &Yard, steps: Value) -> String {
    let task = yard.queue("Fail", steps).await;
    let shown = yard.wait_status(&task, "failed").await;
    assert_eq!(yard.outcomes(&task).await, ["failed"]);
    yard.nothing_lives(&task).await;
    shown["failure"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_goes_wrong_with_an_agent_fails_its_task_with_the_cause() {
    let yard = Yard::new().await;
    let crash = failure(&yard, json!([{ "stderr": "out of cheese" }, { "crash": 3 }])).await;
    assert!(crash.contains("code 3") && crash.contains("out of cheese"), "{crash}");
    let error = failure(&yard, json!([{ "error": { "code": -32603, "message": "the model is gone" } }])).await;
    assert!(error.contains("the model is gone"), "{error}");
    let auth = failure(&yard, json!(["auth_error"])).await;
    assert!(auth.contains("not logged in"), "{auth}");
    let killed = failure(&yard, json!(["kill"])).await;
    assert!(killed.contains("signal"), "{killed}");
    // An error in disguise: a turn that ends in good order with an error as its last words.
    let text = failure(&yard, json!([{ "text": "API Error: 500 the server had a problem" }])).await;
    assert!(text.contains("API Error"), "{text}");
}

#[tokio::test]
async fn a_turn_without_a_word_or_a_deed_fails_and_says_where_to_look() {
    let yard = Yard::new().await;
    let silent = failure(&yard, json!([{ "stop": "end_turn" }])).await;
    assert_eq!(silent, "the agent ended its turn without a word or a deed; its login, its model or its limits may be why");
    // One that has worked in silence is believed.
    let task = yard.queue("Work in silence", json!([{ "shell": "echo a > a.txt" }])).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_fails_its_task_and_says_which_program() {
    let yard = Yard::new().await;
    yard.agent("lost", json!({ "command": ["/nowhere/agent"] })).await;
    let task = yard.add("Start", json!([]), json!({ "agent_profile_id": "lost", "queue": true })).await;
    let shown = yard.wait_status(&task, "failed").await;
    assert!(shown["failure"].as_str().unwrap().contains("/nowhere/agent"), "{shown}");
    let login = json!({ "env": { "TASKYARD_SCENARIO": json!({ "agent": { "login": "person" } }).to_string() } });
    yard.agent("stranger", login).await;
    let task = yard.add("Log in", json!([{ "text": "Here I am." }]), json!({ "agent_profile_id": "stranger", "queue": true })).await;
    let shown = yard.wait_status(&task, "failed").await;
    assert!(shown["failure"].as_str().unwrap().contains("not logged in"), "{shown}");
    // What failed can be reset, and goes on with another agent.
    yard.server.call("reset_failed_task", json!({ "task_id": task })).await;
    yard.server.call("set_task_config", json!({ "task_id": task, "agent_profile_id": "ada" })).await;
    yard.server.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
    yard.reviewable(&task).await;
}

/// Changes of every kind that a forgetful agent leaves uncommitted.
fn forgetful() -> Value {
    json!([
        { "append": { "path": "README.md", "content": "more\n" } },
        { "write": { "path": "new.txt", "content": "new\n" } },
        { "write": { "path": "build/out.o", "content": "junk\n" } },
    ])
}

async fn forgetful_yard() -> Yard {
    let yard = Yard::new().await;
    yard.repo.write(".gitignore", "build/\n").unwrap();
    yard.repo.commit("Ignore builds").await.unwrap();
    yard
}

#[tokio::test]
async fn what_an_agent_left_uncommitted_is_committed_without_ignored_files() {
    let yard = forgetful_yard().await;
    let task = yard.queue("Forget to commit", forgetful()).await;
    let branch = yard.reviewable(&task).await["worktree"]["branch"].as_str().unwrap().to_owned();
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    let files = yard.repo.git(&["diff", "--name-only", "main", &branch]).await.unwrap();
    assert_eq!(files, "README.md\nnew.txt");
    assert!(yard.log(&task).await.contains("committed 2 files"), "{}", yard.log(&task).await);
    assert!(yard.worktree(&task).await.join("build/out.o").exists());
}

#[tokio::test]
async fn without_auto_commit_uncommitted_work_is_shown_and_a_merge_refuses_it() {
    let yard = forgetful_yard().await;
    yard.agent("ada", json!({ "auto_commit": false })).await;
    let task = yard.queue("Forget to commit", forgetful()).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    let tree = yard.server.call("get_task_worktree", json!({ "task_id": task })).await;
    assert_eq!((&tree["worktree"]["uncommitted_count"], &tree["worktree"]["untracked_count"]), (&json!(1), &json!(1)), "{tree}");
    let main = yard.repo.git(&["rev-parse", "main"]).await.unwrap();
    let error = yard.server.refused("review_task", json!({ "task_id": task, "decision": "approve" }), "FAILED_PRECONDITION").await;
    assert!(error.to_string().contains("new.txt"), "{error}");
    assert_eq!(yard.repo.git(&["rev-parse", "main"]).await.unwrap(), main);
    assert_eq!(yard.status(&task).await, "waiting_for_review");
}

#[tokio::test]
async fn a_plain_command_is_an_agent_too() {
    let yard = Yard::new().await;
    let exec = |script: &str| json!({ "driver": "exec", "command": ["sh", "-c", script] });
    yard.agent("sh", exec("tee prompt.txt; echo done; git add -A && git commit -qm 'By a command'")).await;
    let config = json!({ "queue": true, "agent_profile_id": "sh" });
    let task = yard.add("Note what is asked", Value::Null, config.clone()).await;
    let branch = yard.reviewable(&task).await["worktree"]["branch"].as_str().unwrap().to_owned();
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    assert!(yard.repo.git(&["show", &format!("{branch}:prompt.txt")]).await.unwrap().contains("Note what is asked"));
    assert!(yard.log(&task).await.contains("done"));
    yard.agent("sh", exec("cat >/dev/null; echo broken >&2; exit 4")).await;
    let task = yard.add("Fail", Value::Null, config).await;
    let shown = yard.wait_status(&task, "failed").await;
    let cause = shown["failure"].as_str().unwrap();
    assert!(cause.contains("exited with 4") && cause.contains("broken"), "{cause}");
    assert_eq!(shown["latest_run"]["exit_code"], 4);
}
