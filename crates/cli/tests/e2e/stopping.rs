//! Ending runs reaches every descendant: cancel, delete, merge, the server's own stop, an agent gone silent.

use crate::support::{Yard, eventually, lives, prompt, work};
use serde_json::{Value, json};

/// Steps that leave processes in every place an agent can hide one, and then `end`.
fn stubborn(yard: &Yard, end: Value) -> Value {
    let deaf = yard.gate("deaf");
    let hide = format!(
        "setsid -f sh -c 'trap \"\" TERM HUP INT; echo $$ >{0}.new; mv {0}.new {0}; sleep 1000' </dev/null >/dev/null 2>&1",
        deaf.display()
    );
    let mut steps = vec![
        json!({ "write": { "path": "a.txt", "content": "a\n" } }),
        json!({ "grandchildren": { "pids": yard.gate("pids"), "hold_output": true } }),
        json!({ "shell": hide }),
        json!({ "wait_file": deaf }),
        json!({ "signal": yard.gate("on") }),
    ];
    steps.extend(end.as_array().unwrap().iter().cloned());
    Value::Array(steps)
}

/// The processes that `stubborn` steps left, all alive.
async fn left(yard: &Yard) -> Vec<i32> {
    yard.reached("on").await;
    let mut pids = yard.grandchildren("pids").await;
    pids.extend(yard.grandchildren("deaf").await);
    pids
}

fn all_gone(pids: &[i32]) {
    let left: Vec<&i32> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "left over: {left:?} of {pids:?}");
}

#[tokio::test]
async fn cancel_and_delete_leave_no_descendant() {
    let yard = Yard::new().await;
    let task = yard.queue("Hold on", stubborn(&yard, json!(["ignore_cancel", "ignore_sigterm", "hang"]))).await;
    let pids = left(&yard).await;
    assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
    let (session, tree) = (yard.session(&task).await, yard.worktree(&task).await);
    let refused = yard.server.refused("delete_task", json!({ "task_id": task }), "FAILED_PRECONDITION").await;
    assert!(refused["message"].as_str().unwrap().contains("run"), "{refused}");
    let cancelled = yard.server.call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!((&cancelled["status"], &cancelled["worktree_kept"]), (&json!("cancelled"), &json!(true)));
    all_gone(&pids);
    yard.nothing_lives(&task).await;
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "a\n");
    yard.server.call("delete_task", json!({ "task_id": task })).await;
    assert!(crate::support::processes_of(&session).is_empty());
    assert!(!tree.exists(), "{}", tree.display());
    // What was unsaved is in a snapshot that the project lists.
    let refs = yard.repo.git(&["for-each-ref", "--format=%(refname)", "refs/taskyard"]).await.unwrap();
    let snapshot = refs.lines().find(|name| name.contains("snapshot")).unwrap_or_else(|| panic!("no snapshot in {refs}"));
    let files = yard.repo.git(&["ls-tree", "-r", "--name-only", snapshot]).await.unwrap();
    assert!(files.contains("a.txt"), "{files}");
}

#[tokio::test]
async fn a_turns_end_and_the_merge_leave_no_descendant() {
    let yard = Yard::new().await;
    let task = yard.queue("Leave things running", stubborn(&yard, json!([{ "commit": "Write a" }]))).await;
    let pids = left(&yard).await;
    yard.reviewable(&task).await;
    all_gone(&pids);
    yard.nothing_lives(&task).await;
    yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!(yard.repo.git(&["show", "main:a.txt"]).await.unwrap(), "a");
    yard.nothing_lives(&task).await;
}

#[tokio::test]
async fn a_cancel_during_the_setup_script_leaves_no_descendant() {
    let yard = Yard::new().await;
    let repository = yard.server.call("repository_list", json!({})).await["repositories"][0]["id"].clone();
    let gate = yard.gate("pids");
    let script = format!("setsid sleep 1000 </dev/null >/dev/null 2>&1 &\necho $! >{0}.new\nmv {0}.new {0}\nsleep 1000", gate.display());
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": script })).await;
    let task = yard.queue("Set up", json!([])).await;
    let pids = yard.grandchildren("pids").await;
    yard.server.call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!(yard.status(&task).await, "cancelled");
    all_gone(&pids);
    yard.nothing_lives(&task).await;
    // With a script that works the same task goes on.
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": "echo fine" })).await;
    let go_on = prompt("Go on", work("a.txt", "a\n"));
    yard.server.call("continue_task", json!({ "task_id": task, "prompt": go_on })).await;
    yard.reviewable(&task).await;
    assert_eq!((yard.worktrees().await.len(), yard.branches().await.len()), (1, 1));
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_leaves_no_process_and_its_turns_go_on_later() {
    let mut yard = Yard::new().await;
    yard.later_turns("ada", json!([[], [{ "signal": yard.gate("again") }, "hang"], work("b.txt", "b\n")])).await;
    let task = yard.queue("Hold on", stubborn(&yard, json!(["ignore_sigterm", "hang"]))).await;
    let pids = left(&yard).await;
    assert_eq!(yard.server.stop().await, Some(0), "{}", yard.server.log());
    all_gone(&pids);
    assert_eq!(yard.server.processes(), Vec::<i32>::new());
    assert!(!yard.server.data().join("server.json").exists());
    yard.server.launch().await;
    yard.reached("again").await;
    // A stop in good order isn't held against the task, however often.
    yard.server.restart().await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded", "interrupted", "interrupted"]);
    yard.nothing_lives(&task).await;
}

/// D8: a line that isn't whole yet is a sign of life.
#[tokio::test]
async fn an_agent_that_writes_one_long_line_slowly_is_not_silent() {
    let yard = Yard::new().await;
    yard.server.set("stall_after", 1).await;
    yard.server.set("stall_kill_after", 2).await;
    let script = "cat >/dev/null; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do printf x; sleep 0.3; done; echo; echo y > a.txt; git add a.txt; git commit -qm Work";
    yard.agent("sh", json!({ "driver": "exec", "command": ["sh", "-c", script] })).await;
    let task = yard.add("Drip", Value::Null, json!({ "queue": true, "agent_profile_id": "sh" })).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    let log = yard.log(&task).await;
    assert!(log.contains("xxxxxxxxxxxx") && !log.contains("no word from the agent"), "{log}");
}

#[tokio::test]
async fn a_silent_agent_is_shown_as_stalled_and_ended_with_that_cause() {
    let yard = Yard::new().await;
    yard.server.set("stall_after", 1).await;
    yard.server.set("stall_kill_after", 6).await;
    let task = yard.queue("Fall silent", json!([{ "text": "…" }, "hang"])).await;
    eventually("the notice of silence", async || yard.log(&task).await.contains("no word from the agent").then_some(())).await;
    // Another run later it still counts as stalled.
    let other = yard.queue("Work", work("a.txt", "a\n")).await;
    yard.reviewable(&other).await;
    let shown = yard.get(&task).await;
    assert!(shown["latest_run"]["stalled"] == true || shown["status"] == "failed", "{shown}");
    let shown = yard.wait_status(&task, "failed").await;
    let cause = shown["failure"].as_str().unwrap();
    assert!(cause.contains("silent") && cause.contains("stall_kill_after"), "{cause}");
    yard.nothing_lives(&task).await;
    let go_on = prompt("Go on", work("b.txt", "b\n"));
    yard.server.call("continue_task", json!({ "task_id": task, "prompt": go_on })).await;
    yard.reviewable(&task).await;
}

#[tokio::test]
async fn an_agent_that_speaks_again_is_no_longer_stalled() {
    let yard = Yard::new().await;
    yard.server.set("stall_after", 1).await;
    yard.server.set("stall_kill_after", 0).await;
    let steps = json!([{ "wait_file": yard.gate("speak") }, { "text": "Here I am." }, { "wait_file": yard.gate("end") }]);
    let task = yard.queue("Pause", steps).await;
    eventually("the run to be stalled", async || (yard.run(&task).await["stalled"] == true).then_some(())).await;
    yard.server.set("stall_after", 600).await;
    yard.open("speak");
    eventually("the run to go on", async || (yard.run(&task).await["stalled"] == false).then_some(())).await;
    yard.open("end");
    yard.reviewable(&task).await;
}
