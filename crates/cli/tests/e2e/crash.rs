//! SIGKILL of the server at every moment of a run: nothing is left behind, nothing is lost, the work goes on.

use crate::support::{Setup, Yard, eventually, lives, processes_of, work};
use serde_json::json;

/// After a crash and its repair: no stray process, one worktree, one branch, and the task can go on.
async fn is_sound(yard: &Yard, task: &str) {
    yard.nothing_lives(task).await;
    assert_eq!(yard.worktrees().await.len(), 1, "{:?}", yard.worktrees().await);
    assert_eq!(yard.branches().await.len(), 1, "{:?}", yard.branches().await);
    let prompt = crate::support::prompt("Go on", work("more.txt", "more\n"));
    yard.server.call("continue_task", json!({ "task_id": task, "prompt": prompt })).await;
    yard.reviewable(task).await;
    assert_eq!(yard.outcomes(task).await[0], "succeeded");
    yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!(yard.repo.git(&["show", "main:more.txt"]).await.unwrap(), "more");
    let state = yard.server.call("get_queue_state", json!({})).await;
    assert_eq!((&state["active_slots"], &state["without_slot"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn in_the_middle_of_a_turn() {
    let mut yard = Yard::new().await;
    yard.later_turns("ada", json!([[], [{ "text": "Turn ${turn} in ${cwd}." }, { "write": { "path": "b.txt", "content": "b\n" } }]])).await;
    yard.server.set("configured_slots", 1).await;
    let steps = json!([
        { "write": { "path": "a.txt", "content": "a\n" } },
        { "text": "The first step is done." },
        { "grandchildren": { "pids": yard.gate("pids") } },
        "hang",
    ]);
    let first = yard.queue("First", steps).await;
    let second = yard.queue("Second", work("c.txt", "c\n")).await;
    let mut pids = yard.grandchildren("pids").await;
    let said = "The first step is done.";
    eventually("the step's words in the log", async || yard.log(&first).await.contains(said).then_some(())).await;
    let (run, session, tree) = (yard.run(&first).await, yard.session(&first).await, yard.worktree(&first).await);
    let found = processes_of(&session);
    assert!(pids.len() == 2 && pids.iter().all(|pid| found.contains(pid)), "{pids:?} of {found:?}");
    yard.server.kill9().await;
    assert!(pids.iter().all(|pid| lives(*pid)), "what the server left behind is what this test is about");
    pids.extend(found);

    yard.server.launch().await;
    assert!(!pids.iter().any(|pid| lives(*pid)), "left over: {pids:?}");
    yard.reviewable(&first).await;
    yard.reviewable(&second).await;
    assert_eq!(yard.outcomes(&first).await, ["succeeded", "interrupted"]);
    assert_eq!((yard.session(&first).await, yard.worktree(&first).await), (session, tree.clone()));
    let old = yard.server.call("get_task_log", json!({ "task_id": first, "run_id": run["id"] })).await;
    assert!(old["log"].as_str().unwrap().contains(said), "{old}");
    // The agent loaded its session: it counts the turn as its second, and nothing it said before is said again.
    let log = yard.log(&first).await;
    assert!(log.contains(&format!("Turn 1 in {}.", tree.display())) && !log.contains(said), "{log}");
    assert!(tree.join("a.txt").exists() && tree.join("b.txt").exists());
    // At its old place: ahead of the one behind it.
    let started = [yard.run(&first).await, yard.run(&second).await].map(|run| run["started_at"].as_str().unwrap().to_owned());
    assert!(started[0] < started[1], "{started:?}");
    yard.nothing_lives(&first).await;
}

#[tokio::test]
async fn twice_in_a_row_fails_the_task_until_a_person_goes_on() {
    let mut yard = Yard::new().await;
    let hang = |name: &str| json!([{ "signal": yard.gate(name) }, "hang"]);
    yard.later_turns("ada", json!([hang("one"), hang("two")])).await;
    let task = yard.queue("Hang", json!(null)).await;
    yard.reached("one").await;
    yard.server.crash().await;
    yard.reached("two").await;
    yard.server.crash().await;
    let shown = yard.wait_status(&task, "failed").await;
    assert_eq!(yard.outcomes(&task).await, ["interrupted", "interrupted"]);
    assert!(shown["failure"].as_str().unwrap().contains("server stopped"), "{shown}");
    is_sound(&yard, &task).await;
}

#[tokio::test]
async fn without_leave_to_resume_fails_the_task_at_once() {
    let mut yard = Yard::new().await;
    yard.server.set("resume_interrupted", false).await;
    let task = yard.queue("Hang", json!([{ "signal": yard.gate("on") }, "hang"])).await;
    yard.reached("on").await;
    yard.server.crash().await;
    assert_eq!(yard.status(&task).await, "failed");
    assert_eq!(yard.outcomes(&task).await, ["interrupted"]);
    is_sound(&yard, &task).await;
}

#[tokio::test]
async fn while_the_setup_script_runs() {
    let mut yard = Yard::new().await;
    let repository = yard.server.call("repository_list", json!({})).await["repositories"][0]["id"].clone();
    let (inside, go) = (yard.gate("inside"), yard.gate("go"));
    let script = format!(
        "if [ -e {go} ]; then exit 0; fi\nsetsid sleep 1000 </dev/null >/dev/null 2>&1 &\necho $! >{inside}.new\nmv {inside}.new {inside}\nsleep 1000",
        go = go.display(),
        inside = inside.display()
    );
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": script })).await;
    let task = yard.queue("Set up", json!([{ "text": "ready" }])).await;
    yard.reached("inside").await;
    let left = processes_of(&yard.session(&task).await);
    assert!(left.len() >= 2, "{left:?}");
    yard.server.kill9().await;
    yard.open("go");
    yard.server.launch().await;
    assert!(!left.iter().any(|pid| lives(*pid)), "left over: {left:?}");
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["no_changes", "interrupted"]);
    is_sound(&yard, &task).await;
}

#[tokio::test]
async fn while_git_makes_the_worktree() {
    let mut yard = Yard::new().await;
    let (inside, go) = (yard.gate("inside"), yard.gate("go"));
    let smudge = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; cat", inside.display(), go.display());
    for (name, command) in [("smudge", smudge.as_str()), ("clean", "cat")] {
        yard.repo.git(&["config", &format!("filter.slow.{name}"), command]).await.unwrap();
    }
    yard.repo.write(".gitattributes", "*.slow filter=slow\n").unwrap();
    yard.repo.write("x.slow", "x\n").unwrap();
    yard.repo.commit("A file with a slow filter").await.unwrap();
    let task = yard.queue("Check out", json!([{ "text": "ready" }])).await;
    yard.reached("inside").await;
    let left = processes_of(&yard.session(&task).await);
    assert!(!left.is_empty(), "git isn't marked as the session's");
    yard.server.kill9().await;
    std::fs::remove_file(&inside).unwrap();
    yard.server.launch().await;
    assert!(!left.iter().any(|pid| lives(*pid)), "left over: {left:?}");
    yard.reached("inside").await;
    yard.open("go");
    yard.reviewable(&task).await;
    assert_eq!(std::fs::read_to_string(yard.worktree(&task).await.join("x.slow")).unwrap(), "x\n");
    is_sound(&yard, &task).await;
}

#[tokio::test]
async fn right_after_queueing() {
    let mut yard = Yard::new().await;
    let task = yard.queue("Start", json!([{ "text": "ready" }])).await;
    yard.server.crash().await;
    yard.reviewable(&task).await;
    is_sound(&yard, &task).await;
}

#[tokio::test]
async fn while_the_agent_is_starting() {
    let mut yard = Yard::new().await;
    let silent = json!({ "env": { "TASKYARD_SCENARIO": json!({ "agent": { "silent_start": true } }).to_string() } });
    yard.agent("ada", silent).await;
    let task = yard.queue("Start", json!([{ "text": "ready" }])).await;
    let session = eventually("the session", async || Some(yard.session(&task).await).filter(|id| !id.is_empty())).await;
    let agent = eventually("the agent's process", async || {
        let found: Vec<i32> = processes_of(&session).into_iter().filter(|pid| is_agent(*pid)).collect();
        (!found.is_empty()).then_some(found)
    })
    .await;
    yard.server.kill9().await;
    yard.server.launch().await;
    assert!(!agent.iter().any(|pid| lives(*pid)), "left over: {agent:?}");
    // It would be silent again; a person calls it off.
    yard.server.call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!(yard.status(&task).await, "cancelled");
    yard.agent("ada", json!({ "env": { "TASKYARD_SCENARIO": "" } })).await;
    is_sound(&yard, &task).await;
}

fn is_agent(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("scripted-agent"))
}

#[tokio::test]
async fn a_lock_that_the_dead_agents_git_left_does_not_stop_the_next_turn() {
    let mut yard = Yard::new().await;
    yard.later_turns("ada", json!([[], work("b.txt", "b\n")])).await;
    let steps = json!([{ "shell": "touch \"$(git rev-parse --git-dir)/index.lock\"" }, { "signal": yard.gate("on") }, "hang"]);
    let task = yard.queue("Die in git", steps).await;
    yard.reached("on").await;
    yard.server.crash().await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded", "interrupted"]);
    assert!(!yard.log(&task).await.contains("index.lock"), "{}", yard.log(&task).await);
}

#[tokio::test]
async fn a_cancel_that_the_crash_cut_short_stands() {
    let mut yard = Yard::new().await;
    let steps = json!([{ "signal": yard.gate("on") }, "ignore_cancel", "ignore_sigterm", "hang"]);
    let task = yard.queue("Hang on", steps).await;
    yard.reached("on").await;
    let cancel = json!({ "task_id": task });
    tokio::select! {
        answer = yard.server.try_call("cancel_task", cancel) => panic!("cancelled before the crash: {answer:?}"),
        () = async {
            eventually("the cancel to be recorded", async || {
                yard.audit().await.contains("task.cancelled").then_some(())
            }).await;
        } => {}
    }
    yard.server.crash().await;
    assert_eq!(yard.status(&task).await, "cancelled");
    assert_eq!(yard.outcomes(&task).await, ["cancelled"]);
    yard.nothing_lives(&task).await;
}

#[tokio::test]
async fn the_file_of_a_dead_server_misleads_nobody() {
    let mut server = Setup::new().start().await;
    server.kill9().await;
    assert!(server.data().join("server.json").exists());
    let told = server.cli(&["queue"]).await;
    assert_eq!(told.code, 9, "{told:?}");
    assert!(told.err.contains("taskyard serve"), "{told:?}");
    server.launch().await;
    assert_eq!(server.cli(&["queue"]).await.code, 0);
}

#[tokio::test]
async fn again_and_again_at_whatever_moment() {
    let mut yard = Yard::new().await;
    let file = "${env:TASKYARD_TASK_ID}.txt";
    let turn = json!([
        { "text": "Working." }, { "write": { "path": file, "content": "done\n" } }, { "wait": 40 }, { "commit": "Work" }, { "wait": 40 },
    ]);
    yard.later_turns("ada", json!([turn])).await;
    let mut tasks = Vec::new();
    for n in 0..4 {
        tasks.push(yard.queue(&format!("Task {n}"), json!(null)).await);
    }
    for round in 0..8 {
        // Another moment each time, by how often the server is asked before.
        for _ in 0..round * 4 {
            yard.server.call("get_queue_state", json!({})).await;
        }
        if round % 2 == 0 { yard.server.crash().await } else { yard.server.restart().await }
    }
    for task in &tasks {
        eventually("the task to come through", async || {
            let status = yard.status(task).await;
            if status == "failed" {
                assert_eq!(yard.outcomes(task).await[..2], ["interrupted", "interrupted"], "{}", yard.log(task).await);
                yard.server.call("reset_failed_task", json!({ "task_id": task })).await;
                yard.server.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
            }
            (status == "waiting_for_review").then_some(())
        })
        .await;
        yard.nothing_lives(task).await;
    }
    assert_eq!((yard.worktrees().await.len(), yard.branches().await.len()), (4, 4));
    for task in &tasks {
        yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
        assert_eq!(yard.repo.git(&["show", &format!("main:{task}.txt")]).await.unwrap(), "done");
    }
    let state = yard.server.call("get_queue_state", json!({})).await;
    assert_eq!((&state["active_slots"], &state["without_slot"], &state["waiting_count"]), (&json!([]), &json!([]), &json!(0)));
    assert_eq!(yard.repo.git(&["status", "--porcelain"]).await.unwrap(), "");
}
