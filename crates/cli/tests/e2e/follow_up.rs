//! Work that goes on in its session: sent back with feedback, continued, parked.

use crate::support::{Yard, prompt, work};
use serde_json::json;

#[tokio::test]
async fn feedback_goes_to_the_same_session_which_remembers() {
    let yard = Yard::new().await;
    let task = yard.queue("Write", json!([{ "text": "The first turn." }, { "write": { "path": "a.txt", "content": "1\n" } }])).await;
    yard.reviewable(&task).await;
    let (session, tree) = (yard.session(&task).await, yard.worktree(&task).await);
    let steps = json!([{ "text": "This is turn ${turn}." }, { "append": { "path": "a.txt", "content": "2\n" } }, { "commit": "More" }]);
    let error = yard.server.refused("review_task", json!({ "task_id": task, "decision": "reject_rerun" }), "INVALID_ARGUMENT").await;
    assert_eq!(error["field"], "feedback", "{error}");
    let feedback = prompt("Add a line.", steps);
    yard.server.call("review_task", json!({ "task_id": task, "decision": "reject_rerun", "feedback": feedback })).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded", "succeeded"]);
    assert_eq!((yard.session(&task).await, yard.worktree(&task).await), (session, tree.clone()));
    let log = yard.log(&task).await;
    assert!(log.contains(">>> Add a line.") && log.contains("This is turn 1.") && !log.contains("The first turn."), "{log}");
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "1\n2\n");
}

#[tokio::test]
async fn an_agent_that_forgot_its_session_is_told_the_story_so_far() {
    let yard = Yard::new().await;
    let forgetful = json!({ "agent": { "load": false } }).to_string();
    yard.agent("ada", json!({ "env": { "TASKYARD_SCENARIO": forgetful } })).await;
    let task = yard.queue("Paint the shed", work("a.txt", "1\n")).await;
    yard.reviewable(&task).await;
    let go_on = prompt("Now the door.", json!([{ "text": "This is turn ${turn}." }]));
    yard.server.call("continue_task", json!({ "task_id": task, "prompt": go_on })).await;
    yard.reviewable(&task).await;
    let log = yard.log(&task).await;
    assert!(log.contains("This is turn 0.") && log.contains("Paint the shed") && log.contains("Now the door."), "{log}");
}

#[tokio::test]
async fn every_end_but_done_can_be_continued() {
    let yard = Yard::new().await;
    let fresh = yard.task("Fresh", json!([])).await;
    yard.server.refused("continue_task", json!({ "task_id": fresh, "prompt": "go" }), "FAILED_PRECONDITION").await;
    let failed = yard.queue("Fails", json!([{ "crash": 1 }])).await;
    yard.wait_status(&failed, "failed").await;
    let go_on = json!({ "task_id": failed, "prompt": prompt("Go on", work("a.txt", "a\n")), "idempotency_key": "once" });
    let first = yard.server.call("continue_task", go_on.clone()).await;
    let again = yard.server.call("continue_task", go_on).await;
    assert_eq!((&again["run_id"], &again["replayed"]), (&first["run_id"], &json!(true)));
    yard.reviewable(&failed).await;
    assert_eq!(yard.outcomes(&failed).await, ["succeeded", "failed"]);

    let cancelled = yard.queue("Cancelled", json!([{ "signal": yard.gate("on") }, "hang"])).await;
    yard.reached("on").await;
    yard.server.call("cancel_task", json!({ "task_id": cancelled })).await;
    let go_on = prompt("Go on after all", work("b.txt", "b\n"));
    yard.server.call("continue_task", json!({ "task_id": cancelled, "prompt": go_on })).await;
    yard.reviewable(&cancelled).await;
}

#[tokio::test]
async fn parked_work_is_kept_and_taken_up_again() {
    let yard = Yard::new().await;
    let task = yard.queue("Write", work("a.txt", "a\n")).await;
    yard.reviewable(&task).await;
    let tree = yard.worktree(&task).await;
    yard.server.call("review_task", json!({ "task_id": task, "decision": "reject_park" })).await;
    assert_eq!(yard.status(&task).await, "ready");
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.worktree(&task).await, tree);
    assert_eq!((yard.worktrees().await.len(), yard.branches().await.len()), (1, 1));
}

#[tokio::test]
async fn a_failed_setup_script_fails_the_task_with_its_words_and_can_be_repaired() {
    let yard = Yard::new().await;
    let repository = yard.server.call("repository_list", json!({})).await["repositories"][0]["id"].clone();
    let script = "echo preparing; echo 'no such toolchain' >&2; exit 7";
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": script })).await;
    let task = yard.queue("Set up", work("a.txt", "a\n")).await;
    let shown = yard.wait_status(&task, "failed").await;
    let cause = shown["failure"].as_str().unwrap();
    assert!(cause.contains("setup") && cause.contains("no such toolchain"), "{cause}");
    assert!(yard.log(&task).await.contains("preparing"), "{}", yard.log(&task).await);
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": "touch ../ok" })).await;
    yard.server.call("reset_failed_task", json!({ "task_id": task })).await;
    yard.server.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
    yard.reviewable(&task).await;
    assert_eq!((yard.worktrees().await.len(), yard.branches().await.len()), (1, 1));
}
