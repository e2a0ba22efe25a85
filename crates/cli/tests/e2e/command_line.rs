//! Every command of the command line, for a person and as JSON; exit codes by class of error.

use crate::support::{Setup, Told, Yard, prompt, work};
use serde_json::{Value, json};

/// Runs a command that has to work; it says something, and not in JSON.
async fn said(yard: &Yard, args: &[&str]) -> String {
    let told = yard.server.cli(args).await;
    assert!(told.code == 0 && !told.out.trim().is_empty(), "{args:?}: {told:?}");
    assert!(!told.out.trim_start().starts_with('{'), "{args:?} answers in JSON: {told:?}");
    told.out
}

/// The same with `--json`: the answer.
async fn json_of(yard: &Yard, args: &[&str]) -> Value {
    let mut args = args.to_vec();
    args.push("--json");
    let told = yard.server.cli(&args).await;
    assert_eq!(told.code, 0, "{args:?}: {told:?}");
    told.json()
}

/// A reading command, both ways.
async fn reads(yard: &Yard, args: &[&str], word: &str) -> Value {
    let text = said(yard, args).await;
    assert!(text.contains(word), "{args:?} doesn't say {word}: {text}");
    json_of(yard, args).await
}

async fn refused(yard: &Yard, args: &[&str], code: i32, word: &str) -> Told {
    let told = yard.server.cli(args).await;
    assert_eq!(told.code, code, "{args:?}: {told:?}");
    assert!(told.out.is_empty() && told.err.contains(word), "{args:?} doesn't say {word}: {told:?}");
    told
}

#[tokio::test]
async fn a_tasks_whole_way() {
    let yard = Yard::new().await;
    let steps = prompt("", work("a.txt", "a\n"));
    let added = json_of(&yard, &["task", "add", "Add a", "-d", &steps, "--priority", "high"]).await;
    let task = added["short_id"].as_str().unwrap().to_owned();
    assert!(said(&yard, &["task", "add", "Another", "--manual"]).await.contains("TY-2"));
    reads(&yard, &["task", "show", &task], "Add a").await;
    reads(&yard, &["task", "list"], "Another").await;
    reads(&yard, &["task", "list", "--status", "ready", "--query", "Another"], "TY-2").await;
    assert!(said(&yard, &["task", "run", &task]).await.contains(&task));
    let told = yard.server.cli(&["task", "wait", &task, "--timeout", "80"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(json_of(&yard, &["task", "wait", &task]).await["settled"], true);
    assert_eq!(reads(&yard, &["task", "diff", &task], "a.txt").await["total_files"], 1);
    reads(&yard, &["task", "diff", &task, "--stat"], "a.txt").await;
    reads(&yard, &["task", "log", &task], "git commit").await;
    reads(&yard, &["task", "runs", &task], "succeeded").await;
    reads(&yard, &["worktree", "list"], &task).await;
    reads(&yard, &["worktree", "show", &task], "taskyard/").await;
    reads(&yard, &["task", "preview", &task], "clean").await;
    let go_on = prompt("More", work("b.txt", "b\n"));
    assert!(said(&yard, &["task", "review", &task, "--reject", &go_on]).await.contains("queued"));
    assert_eq!(yard.server.cli(&["task", "wait", &task]).await.code, 0);
    assert_eq!(json_of(&yard, &["task", "show", &task]).await["status"], "waiting_for_review");
}

#[tokio::test]
async fn review_merge_and_revert() {
    let yard = Yard::new().await;
    let mut tasks = Vec::new();
    for n in 1..=3 {
        let task = yard.queue(&format!("Task {n}"), work(&format!("{n}.txt"), "x\n")).await;
        tasks.push(yard.reviewable(&task).await["short_id"].as_str().unwrap().to_owned());
    }
    let (one, two, three) = (tasks[0].as_str(), tasks[1].as_str(), tasks[2].as_str());
    reads(&yard, &["task", "preview", one, two], "merges").await;
    assert!(said(&yard, &["task", "review", one, "--approve"]).await.contains("merged into main"));
    assert!(said(&yard, &["task", "merge", two, "--strategy", "squash", "-m", "The second"]).await.contains("main"));
    assert_eq!(yard.repo.git(&["log", "-1", "--format=%s", "main"]).await.unwrap(), "The second");
    assert!(said(&yard, &["task", "revert", two]).await.contains("undone"));
    assert_eq!(json_of(&yard, &["task", "review", two, "--cancel"]).await["status"], "cancelled");
    assert!(said(&yard, &["task", "review", three, "--park"]).await.contains("ready"));
    assert!(said(&yard, &["task", "run", three, "--now", "--wait"]).await.contains(three));
    assert!(said(&yard, &["task", "continue", three, &prompt("On", work("3b.txt", "y\n"))]).await.contains(three));
    yard.server.cli(&["task", "wait", three]).await;
    let path = json_of(&yard, &["worktree", "show", three]).await["worktree"]["path"].as_str().unwrap().to_owned();
    std::fs::write(format!("{path}/unsaved.txt"), "unsaved\n").unwrap();
    refused(&yard, &["worktree", "clean", three], 7, "unsaved.txt").await;
    assert!(said(&yard, &["worktree", "clean", three, "--discard"]).await.contains("snapshot"));
    let snapshots = reads(&yard, &["snapshot", "list"], "refs/taskyard").await;
    let snapshot = snapshots["snapshots"][0]["snapshot_id"].as_str().unwrap().to_owned();
    let restored = said(&yard, &["snapshot", "restore", &snapshot]).await;
    let place = restored.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(format!("{place}/unsaved.txt")).unwrap(), "unsaved\n");
}

#[tokio::test]
async fn a_conflict_is_refused_opened_and_given_up() {
    let yard = Yard::new().await;
    let mut tasks = Vec::new();
    for n in 1..=2 {
        let task = yard.queue(&format!("Task {n}"), work("same.txt", &format!("{n}\n"))).await;
        tasks.push(yard.reviewable(&task).await["short_id"].as_str().unwrap().to_owned());
    }
    let (one, two) = (tasks[0].as_str(), tasks[1].as_str());
    said(&yard, &["task", "merge", one]).await;
    let told = refused(&yard, &["task", "review", two, "--approve"], 4, "same.txt").await;
    assert!(told.err.contains("hint:"), "{told:?}");
    let told = yard.server.cli(&["task", "merge", two, "--json"]).await;
    assert_eq!((told.code, &told.json()["error"]["code"]), (4, &json!("CONFLICT")), "{told:?}");
    assert!(said(&yard, &["task", "merge", two, "--leave-open"]).await.contains("--continue"));
    refused(&yard, &["task", "merge", two, "--continue"], 7, "same.txt").await;
    assert!(said(&yard, &["task", "merge", two, "--abort"]).await.contains("given up"));
    said(&yard, &["task", "cancel", two]).await;
    said(&yard, &["task", "delete", two]).await;
    refused(&yard, &["task", "show", two], 3, two).await;
}

#[tokio::test]
async fn agents_lists_queue_settings_and_repositories() {
    let yard = Yard::new().await;
    assert!(said(&yard, &["agent", "add", "tool", "--driver", "exec", "--env", "KEY=secret", "--", "cat"]).await.contains("tool"));
    let agents = reads(&yard, &["agent", "list"], "tool").await;
    assert!(!agents.to_string().contains("secret"), "{agents}");
    said(&yard, &["agent", "unlimit", "tool"]).await;
    said(&yard, &["agent", "remove", "tool"]).await;
    let path = yard.repo.path();
    let made = json_of(&yard, &["list", "add", "Second", "--path", path.to_str().unwrap()]).await;
    assert!(made["list_id"].is_string(), "{made}");
    reads(&yard, &["list"], "Second").await;
    said(&yard, &["list", "set", "Second", "--model", "small", "--target", "main"]).await;
    assert_eq!(reads(&yard, &["list", "show", "Second"], "small").await["effective"]["model"]["value"], "small");
    said(&yard, &["list", "delete", "Second"]).await;
    assert!(said(&yard, &["queue", "pause"]).await.contains("paused"));
    assert_eq!(reads(&yard, &["queue"], "paused").await["paused"], true);
    said(&yard, &["queue", "resume"]).await;
    said(&yard, &["settings", "set", "configured_slots", "5"]).await;
    assert_eq!(reads(&yard, &["settings", "show"], "configured_slots").await["settings"]["configured_slots"], 5);
    refused(&yard, &["settings", "set", "configured_slots", "0"], 2, "configured_slots").await;
    let known = reads(&yard, &["repository", "list"], "main").await;
    let id = known["repositories"][0]["id"].as_str().unwrap().to_owned();
    said(&yard, &["repository", "set", &id, "--setup", "true", "--hooks", "skip"]).await;
    let failed = yard.queue("Fail", json!([{ "crash": 1 }])).await;
    yard.wait_status(&failed, "failed").await;
    assert!(said(&yard, &["task", "reset", &failed]).await.contains("ready"));
}

#[tokio::test]
async fn what_a_newcomer_gets_wrong_is_told_plainly() {
    let yard = Yard::new().await;
    let added = said(&yard, &["agent", "add", "mine", "--driver", "exec", "--", "./no-such-agent.sh", "--flag"]).await;
    let program = yard.server.folder().join("no-such-agent.sh");
    let program = program.to_str().unwrap();
    assert!(added.contains(&format!("warning: {program} isn't there")), "{added}");
    let config = json!({ "queue": true, "agent_profile_id": "mine" });
    let task = yard.add("Try it", Value::Null, config).await;
    let why = format!("can't start {program}: No such file or directory");
    let told = yard.server.cli(&["task", "wait", &task]).await;
    assert!(told.code == 1 && told.err.contains("failed: ") && told.err.contains(&why), "{told:?}");
    assert!(reads(&yard, &["task", "show", &task], &why).await["failure"].as_str().unwrap().contains("taskyard doctor"));
    assert!(said(&yard, &["doctor"]).await.contains(&format!("set up, but {program} isn't there")));
    refused(&yard, &["settings", "set", "configured_slots", "banana"], 2, "a whole number is needed").await;
    refused(&yard, &["task", "list", "--server", "nonsense"], 2, "is no URL such as http://").await;
    refused(&yard, &["mcp", "--mode", "banana"], 2, "modes are external").await;
    let told = refused(&yard, &["task", "merge", &task, "--continue"], 7, "--leave-open").await;
    assert!(told.err.contains("taskyard task merge") && !told.err.contains("merge_task"), "{told:?}");
    let steering = json!({ "description": "\u{1b}]0;mine\u{7}" });
    let shown = yard.add("Steer the terminal", Value::Null, steering).await;
    let told = said(&yard, &["task", "show", &shown]).await;
    assert!(told.contains("␛]0;mine␇") && !told.contains('\u{1b}'), "{told:?}");
}

/// F5: what will never start by itself isn't waited for.
#[tokio::test]
async fn a_wait_for_a_task_behind_a_dead_one_ends_with_the_reason() {
    let yard = Yard::new().await;
    for (how, steps) in [("failed", json!([{ "crash": 1 }])), ("cancelled", json!([]))] {
        let blocker = yard.task("First", steps).await;
        let task = yard.add("Second", Value::Null, json!({ "queue": true, "blocked_by": [blocker] })).await;
        if how == "failed" {
            said(&yard, &["task", "run", &blocker]).await;
            yard.wait_status(&blocker, "failed").await;
        } else {
            said(&yard, &["task", "cancel", &blocker]).await;
        }
        let short = yard.get(&blocker).await["short_id"].as_str().unwrap().to_owned();
        let told = yard.server.cli(&["task", "wait", &task]).await;
        assert!(told.code == 1 && told.err.contains("won't start by itself") && told.err.contains(&short), "{told:?}");
        let done = yard.queue("Beside", work("a.txt", how)).await;
        let told = yard.server.cli(&["task", "wait", &task, &done, "--json"]).await;
        let answer = told.json();
        assert_eq!((told.code, &answer["settled"], &answer["tasks"][&task]), (1, &json!(false), &json!("queued")), "{told:?}");
        assert_eq!(answer["stuck"][0]["task_id"], task, "{answer}");
    }
}

#[tokio::test]
async fn errors_have_the_exit_code_of_their_class() {
    let yard = Yard::new().await;
    refused(&yard, &["task", "show", "TY-99"], 3, "TY-99").await;
    refused(&yard, &["task", "show", "nonsense"], 2, "task_id").await;
    refused(&yard, &["task", "add", "x", "--priority", "soon"], 2, "priority").await;
    refused(&yard, &["task", "add", "x", "--list", "Nowhere"], 3, "Work").await;
    let task = yard.task("Wait", json!([{ "signal": yard.gate("on") }, "hang"])).await;
    refused(&yard, &["task", "review", &task, "--approve"], 7, "waiting_for_review").await;
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reached("on").await;
    let other = yard.task("Other", json!([])).await;
    refused(&yard, &["task", "run", &other, "--now"], 8, "Wait").await;
    refused(&yard, &["task", "wait", &task, "--timeout", "1"], 9, "settled").await;
    refused(&yard, &["task", "answer", "--allow"], 7, "open").await;
    let misspelt = yard.server.cli(&["task", "shwo"]).await;
    assert_eq!(misspelt.code, 2, "{misspelt:?}");
    let as_json = yard.server.cli(&["task", "show", "TY-99", "--json"]).await;
    assert_eq!((as_json.code, &as_json.json()["error"]["code"]), (3, &json!("NOT_FOUND")));
}

#[tokio::test]
async fn a_run_uses_the_same_commands_with_its_own_rights() {
    let yard = Yard::new().await;
    let finished = yard.queue("Finished", work("a.txt", "a\n")).await;
    let short = yard.reviewable(&finished).await["short_id"].as_str().unwrap().to_owned();
    let program = env!("CARGO_BIN_EXE_taskyard");
    let steps = json!([
        { "shell": format!("{program} task show {short}") }, { "text": "seen: ${last}" },
        { "shell": format!("{program} task review {short} --approve; echo exit $?") }, { "text": "review: ${last}" },
    ]);
    let task = yard.queue("Use the shell", steps).await;
    yard.reviewable(&task).await;
    let log = yard.log(&task).await;
    assert!(log.contains(&format!("seen: {short} Finished")), "{log}");
    assert!(log.contains("exit 6"), "{log}");
    assert_eq!(yard.status(&finished).await, "waiting_for_review");
}

#[tokio::test]
async fn what_needs_no_server() {
    let server = Setup::new().unstarted();
    let told = server.cli(&["task", "list"]).await;
    assert_eq!(told.code, 9, "{told:?}");
    assert!(told.err.contains("taskyard serve"), "{told:?}");
    for shell in ["bash", "zsh", "fish"] {
        let told = server.cli(&["completions", shell]).await;
        assert!(told.code == 0 && told.out.contains("taskyard"), "{shell}: {told:?}");
    }
    let told = server.cli(&["doctor"]).await;
    assert!(told.code == 0 && told.out.contains("git version"), "{told:?}");
    let told = server.cli(&["doctor", "--json"]).await;
    assert_eq!((told.code, &told.json()["ok"]), (0, &json!(true)), "{told:?}");
    let told = server.cli(&["--help"]).await;
    assert!(told.code == 0 && !told.out.contains("scripted-agent"), "{told:?}");
    assert!(server.cli(&["--version"]).await.out.contains(env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn the_demo_shows_the_whole_job_and_leaves_nothing_running() {
    let server = Setup::new().unstarted();
    let dir = server.folder().join("demo");
    let told = server.cli(&["demo", "--stop", "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("git log --graph") && told.out.contains("undone by"), "{}", told.out);
    crate::support::eventually("the demo's server to be gone", async || server.processes().is_empty().then_some(())).await;
    let again = server.cli(&["demo", "--stop", "--dir", dir.to_str().unwrap()]).await;
    assert_eq!(again.code, 7, "{again:?}");
}
