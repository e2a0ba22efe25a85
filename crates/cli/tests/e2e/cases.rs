//! Cases G7, G9, H1 and A2 in the variations that no other file has.

use crate::support::{Setup, Yard, processes_of, prompt, work};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use taskyard_testkit::repo::Repo;

/// The rows of the task's runs whose prompt has `words`, and how often the agents of all its runs were told them.
async fn told(yard: &Yard, task: &str, words: &str) -> usize {
    let runs = yard.server.call("list_runs", json!({ "task_id": task })).await["runs"].as_array().unwrap().clone();
    let mut times = 0;
    for run in runs {
        let log = yard.server.call("get_task_log", json!({ "task_id": task, "run_id": run["id"], "tail_bytes": 262_144 })).await;
        times += log["log"].as_str().unwrap_or_default().lines().filter(|line| line.starts_with(">>> ") && line.contains(words)).count();
    }
    times
}

#[tokio::test]
async fn g7_a_word_to_a_busy_or_starting_agent_is_refused_with_the_reason_and_changes_nothing() {
    let yard = Yard::new().await;
    let busy = yard.queue("Busy", json!([{ "signal": yard.gate("busy") }, { "wait_file": yard.gate("end") }, { "text": "Done." }])).await;
    yard.reached("busy").await;
    let word = |task: &str| json!({ "task_id": task, "prompt": "A word" });
    let error = yard.server.refused("continue_task", word(&busy), "FAILED_PRECONDITION").await;
    assert!(error["message"].as_str().unwrap().contains("open run") && error["details"]["run_id"].is_string(), "{error}");
    let repository = yard.server.call("repository_list", json!({})).await["repositories"][0]["id"].clone();
    let script = format!("touch {0}; while ! [ -e {1} ]; do sleep 0.05; done", yard.gate("setup").display(), yard.gate("go").display());
    yard.server.call("repository_update", json!({ "repository_id": repository, "setup_script": script })).await;
    let starting = yard.queue("Starting", work("a.txt", "a\n")).await;
    yard.reached("setup").await;
    let error = yard.server.refused("continue_task", word(&starting), "FAILED_PRECONDITION").await;
    assert_eq!(error["details"]["state"], "starting", "{error}");
    yard.open("go");
    yard.open("end");
    for task in [&busy, &starting] {
        yard.reviewable(task).await;
        assert_eq!((yard.outcomes(task).await.len(), told(&yard, task, "A word").await), (1, 0));
    }
}

#[tokio::test]
async fn g7_a_word_to_an_idle_agent_arrives_once_though_the_server_is_killed_before_it_does() {
    let mut yard = Yard::new().await;
    let task = yard.queue("Idle", work("a.txt", "a\n")).await;
    yard.reviewable(&task).await;
    let go_on = json!({ "task_id": task, "prompt": prompt("Unheard-of words", work("b.txt", "b\n")), "idempotency_key": "word" });
    let started = yard.server.call("continue_task", go_on.clone()).await;
    yard.server.crash().await;
    // The client never saw the answer and says it again.
    let again = yard.server.call("continue_task", go_on).await;
    assert_eq!((&again["run_id"], &again["replayed"]), (&started["run_id"], &json!(true)));
    yard.reviewable(&task).await;
    let tree = yard.worktree(&task).await;
    assert_eq!(std::fs::read_to_string(tree.join("b.txt")).unwrap(), "b\n");
    let times = told(&yard, &task, "Unheard-of words").await;
    assert_eq!(times, 1, "{}", yard.log(&task).await);
}

#[tokio::test]
async fn g9_a_request_of_an_agent_that_died_is_void_and_is_not_announced_again() {
    let mut yard = Yard::new().await;
    yard.agent("ada", json!({ "permission_policy": "ask" })).await;
    let ask = json!([{ "ask": { "title": "Run make", "kind": "execute", "input": { "command": "make" } } }]);
    let task = yard.queue("Ask", ask).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    for pid in processes_of(&yard.session(&task).await) {
        taskyard_process::tree::signal_group(pid, taskyard_process::tree::Signal::Kill);
    }
    let shown = yard.wait_status(&task, "failed").await;
    assert!(shown["failure"].is_string() || shown["latest_run"]["cause"].is_string(), "the cause is shown: {shown}");
    assert!(yard.questions().await.is_empty());
    // Nobody's answer is invented, and a late one is refused with the reason.
    let late = yard.server.refused("answer_question", json!({ "question_bundle_id": id }), "CONFLICT").await;
    assert!(late["message"].as_str().unwrap().contains("void"), "{late}");
    assert!(late["details"]["answered_by"].is_null(), "{late}");
    yard.server.restart().await;
    assert!(yard.questions().await.is_empty());
    assert_eq!(yard.status(&task).await, "failed");
}

/// An address of this machine that isn't loopback, where it has one. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[tokio::test]
async fn h1_off_loopback_nobody_answers_and_nothing_opens_a_public_address() {
    let yard = Yard::new().await;
    let port: u16 = yard.server.url().rsplit(':').next().unwrap().parse().unwrap();
    if let Some(ip) = own_address() {
        let reached = tokio::net::TcpStream::connect(SocketAddr::new(ip, port)).await;
        assert!(reached.is_err(), "the server can be reached at {ip}");
    }
    let public = own_address().map_or_else(|| "0.0.0.0:0".to_owned(), |ip| format!("{ip}:0"));
    let setups = [
        Setup::new().args(&["--listen", &public]),
        Setup::new().args(&[]).config(&format!("listen = \"{public}\"\n")),
        Setup::new().args(&[]).config(&format!("listen = \"{public}\"\nallowed_hosts = [\"yard.test\"]\n")),
    ];
    for setup in setups {
        let server = setup.unstarted();
        let exit = tokio::time::timeout(crate::support::PATIENCE, server.spawn().wait()).await.expect("the server runs").unwrap();
        assert_eq!(exit.code, Some(7), "{}", server.log());
        assert!(server.log().contains("access keys"), "{}", server.log());
        assert!(!server.data().join("server.json").exists());
    }
}

#[tokio::test]
async fn h1_scripts_that_run_code_are_no_tools_and_no_agents_business() {
    let yard = Yard::new().await;
    let mcp = yard.server.mcp("", None).await;
    let tools = mcp.request("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone();
    let takes_script = |tool: &&Value| tool["inputSchema"]["properties"].as_object().unwrap().keys().any(|name| name.ends_with("_script"));
    assert_eq!(tools.iter().filter(takes_script).count(), 0, "no tool sets a script");
    let env = format!("env >{0}.new && mv {0}.new {0}", yard.gate("env").display());
    let task = yard.queue("At work", json!([{ "shell": env }, { "wait_file": yard.gate("end") }, { "text": "Done." }])).await;
    yard.reached("env").await;
    let env = std::fs::read_to_string(yard.gate("env")).unwrap();
    let token = env.lines().find_map(|line| line.strip_prefix("TASKYARD_TOKEN=")).unwrap();
    let repository = yard.server.call("repository_list", json!({})).await["repositories"][0]["id"].clone();
    for name in ["setup_script", "cleanup_script", "verify_script"] {
        let set = json!({ "repository_id": repository, name: "touch /tmp/owned" });
        for (token, code) in [(token, "FORBIDDEN"), ("ty_made_up", "FORBIDDEN")] {
            let error = yard.server.call_as(Some(token), "repository_update", set.clone()).await.unwrap_err();
            assert_eq!(error["code"], code, "{name}: {error}");
        }
    }
    let error =
        yard.server.call_as(Some(token), "agent_add", json!({ "name": "x", "driver": "exec", "command": ["true"] })).await.unwrap_err();
    assert_eq!(error["code"], "FORBIDDEN", "{error}");
    yard.open("end");
    yard.reviewable(&task).await;
}

#[tokio::test]
async fn a2_what_is_in_the_way_in_one_repository_holds_up_no_other() {
    let yard = Yard::new().await;
    // No name below the prefix can get around the prefix itself.
    yard.repo.git(&["branch", "taskyard"]).await.unwrap();
    let other = Repo::new().await.unwrap();
    let list = yard.server.call("create_list", json!({ "name": "Other", "local_path": other.path() })).await["list_id"].clone();
    let here = yard.queue("Here", work("a.txt", "a\n")).await;
    let there = yard.add("There", work("a.txt", "a\n"), json!({ "list_id": list, "queue": true })).await;
    yard.reviewable(&there).await;
    yard.reviewable(&here).await;
    assert!(yard.repo.git(&["rev-parse", "--verify", "refs/heads/taskyard"]).await.is_ok());
}
