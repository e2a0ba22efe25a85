//! Who calls: a run's token binds it to its run, and opens nothing that is a person's to decide.

use crate::support::{Setup, Yard, work};
use serde_json::{Value, json};

/// What an agent may never do, with arguments that would do for the operator.
fn persons_only(task: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("review_task", json!({ "task_id": task, "decision": "approve" })),
        ("merge_task", json!({ "task_id": task })),
        ("revert_merge", json!({ "task_id": task })),
        ("cleanup_task_worktree", json!({ "task_id": task, "discard_changes": true })),
        ("cancel_task", json!({ "task_id": task })),
        ("run_task_now", json!({ "task_id": task })),
        ("continue_task", json!({ "task_id": task, "prompt": "go on" })),
        ("update_task_status", json!({ "task_id": task, "status": "done" })),
        ("answer_question", json!({ "question_bundle_id": "0193c0de-0000-7000-8000-000000000000" })),
        ("set_list_config", json!({ "list_id": task, "model": "x" })),
        ("claim_task", json!({ "workspace": "default", "backlog_item_id": task })),
        ("claim_next_task", json!({ "workspace": "default" })),
        ("complete_task", json!({ "workspace": "default", "run_id": "0193c0de-0000-7000-8000-000000000000" })),
    ]
}

/// A yard with a finished task to decide on, and one whose agent has written down its environment and waits.
async fn at_work(setup: Setup) -> (Yard, String, String) {
    let yard = Yard::with(setup).await;
    let finished = yard.queue("Finished", work("a.txt", "a\n")).await;
    yard.reviewable(&finished).await;
    let env = format!("env >{0}.new && mv {0}.new {0}", yard.gate("env").display());
    let task = yard.queue("At work", json!([{ "shell": env }, { "wait_file": yard.gate("end") }])).await;
    yard.reached("env").await;
    (yard, finished, task)
}

fn variable(yard: &Yard, name: &str) -> Option<String> {
    let env = std::fs::read_to_string(yard.gate("env")).unwrap();
    env.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned)
}

#[tokio::test]
async fn an_agents_environment_names_its_run_and_leaks_nothing() {
    let setup = Setup::new()
        .env("ANTHROPIC_API_KEY", "secret-a")
        .env("OPENAI_API_KEY", "secret-o")
        .env("GEMINI_API_KEY", "secret-g")
        .env("CLAUDECODE", "1")
        .env("GIT_DIR", "/nowhere")
        .env("EDITOR", "vi");
    let (yard, _, task) = at_work(setup).await;
    let shown = yard.get(&task).await;
    let run = &shown["latest_run"];
    for (name, value) in [
        ("TASKYARD_URL", json!(yard.server.url())),
        ("TASKYARD_TASK_ID", json!(task)),
        ("TASKYARD_RUN_ID", run["id"].clone()),
        ("TASKYARD_SESSION_ID", run["session_id"].clone()),
        ("TASKYARD_WORKSPACE_ID", shown["workspace_id"].clone()),
    ] {
        assert_eq!(variable(&yard, name), value.as_str().map(str::to_owned), "{name}");
    }
    let env = std::fs::read_to_string(yard.gate("env")).unwrap();
    for word in ["secret-", "CLAUDECODE", "GIT_DIR", "EDITOR=vi", "TASKYARD_DATA_DIR"] {
        assert!(!env.contains(word), "{word} leaks: {env}");
    }
}

#[tokio::test]
async fn a_runs_token_opens_an_agents_tools_and_no_more() {
    let (yard, finished, task) = at_work(Setup::new()).await;
    let token = variable(&yard, "TASKYARD_TOKEN").unwrap();
    let agent = yard.server.mcp("mode=external", Some(&token)).await;
    let tools = agent.tools().await;
    for (name, arguments) in persons_only(&finished) {
        assert!(!tools.contains(&name.to_owned()), "{name} is offered to an agent");
        let error = yard.server.call_as(Some(&token), name, arguments.clone()).await.unwrap_err();
        assert_eq!(error["code"], "FORBIDDEN", "{name}: {error}");
        assert!(agent.call(name, arguments).await.is_err(), "{name} by MCP");
    }
    for operation in ["agent_add", "settings_update", "queue_pause", "repository_update", "workspace_add"] {
        let error = yard.server.call_as(Some(&token), operation, json!({})).await.unwrap_err();
        assert_eq!(error["code"], "FORBIDDEN", "{operation}: {error}");
    }
    assert_eq!(yard.status(&finished).await, "waiting_for_review");
    // What it may do, it does as itself.
    let own = agent.call("get_task", json!({ "task_id": task })).await.unwrap();
    assert_eq!(own["id"], json!(task));
    assert!(!agent.call("list_tasks", json!({})).await.unwrap()["tasks"].as_array().unwrap().is_empty());
    let added = agent.call("add_task", json!({ "list_id": yard.list, "title": "An idea" })).await.unwrap();
    let run = yard.run(&task).await["id"].as_str().unwrap().to_owned();
    let made = yard.get(added["task_id"].as_str().unwrap()).await;
    assert_eq!(made["created_by"], json!(format!("run:{run}")), "{made}");
    let child = agent.call("add_subtask", json!({ "parent_id": task, "title": "A part" })).await.unwrap();
    assert_eq!(child["parent_id"], json!(task));
    agent.call("preview_merge", json!({ "task_id": finished })).await.unwrap();
    agent.call("get_task_diff", json!({ "task_id": finished })).await.unwrap();
    agent.call("get_queue_state", json!({})).await.unwrap();
    // Dead with its run.
    yard.open("end");
    yard.reviewable(&task).await;
    let error = yard.server.call_as(Some(&token), "get_task", json!({ "task_id": task })).await.unwrap_err();
    assert_eq!(error["code"], "FORBIDDEN", "{error}");
    let made_up = yard.server.call_as(Some("ty_0"), "get_task", json!({ "task_id": task })).await.unwrap_err();
    assert_eq!(made_up["code"], "FORBIDDEN", "{made_up}");
}

#[tokio::test]
async fn what_lies_in_another_workspace_does_not_exist_for_a_run() {
    let (yard, _, _) = at_work(Setup::new()).await;
    let token = variable(&yard, "TASKYARD_TOKEN").unwrap();
    let other = yard.server.call("workspace_add", json!({ "slug": "other" })).await["workspace_id"].clone();
    let list = yard.server.call("create_list", json!({ "name": "There", "workspace_id": other, "local_path": yard.repo.path() })).await;
    let there = yard.server.call("add_task", json!({ "list_id": list["list_id"], "title": "Secret plan" })).await;
    for (tool, arguments) in [
        ("get_task", json!({ "task_id": there["task_id"] })),
        ("get_task", json!({ "task_id": there["short_id"] })),
        ("get_task_diff", json!({ "task_id": there["task_id"] })),
        ("add_subtask", json!({ "parent_id": there["task_id"], "title": "x" })),
        ("add_task", json!({ "list_id": list["list_id"], "title": "x" })),
        ("list_tasks", json!({ "list_id": list["list_id"] })),
    ] {
        let error = yard.server.call_as(Some(&token), tool, arguments).await.unwrap_err();
        assert_eq!(error["code"], "NOT_FOUND", "{tool}: {error}");
    }
    let all = yard.server.call_as(Some(&token), "list_tasks", json!({})).await.unwrap();
    assert!(!all.to_string().contains("Secret plan"), "{all}");
}

#[tokio::test]
async fn an_agents_own_mcp_server_is_bound_to_its_run() {
    let yard = Yard::new().await;
    let finished = yard.queue("Finished", work("a.txt", "a\n")).await;
    yard.reviewable(&finished).await;
    let note = |name: &str| json!({ "write": { "path": yard.gate(name), "content": "${last}" } });
    let steps = json!([
        { "mcp": { "server": "taskyard", "tool": "get_task", "args": { "task_id": "${env:TASKYARD_TASK_ID}" } } }, note("own"),
        { "mcp": { "tool": "review_task", "args": { "task_id": finished, "decision": "approve" } } }, note("review"),
        { "mcp": { "tool": "add_task", "args": { "list_id": yard.list, "title": "From inside" } } }, note("added"),
    ]);
    let task = yard.queue("Call tools", steps).await;
    yard.reviewable(&task).await;
    let read = |name: &str| std::fs::read_to_string(yard.gate(name)).unwrap();
    assert!(read("own").contains(&task), "{}", read("own"));
    assert!(read("review").contains("FORBIDDEN") || read("review").contains("review_task"), "{}", read("review"));
    assert!(read("added").contains("From inside"), "{}", read("added"));
    assert_eq!(yard.status(&finished).await, "waiting_for_review");
    let audit = yard.audit().await;
    let run = yard.run(&task).await["id"].as_str().unwrap().to_owned();
    assert!(audit.contains(&run), "{audit}");
}
