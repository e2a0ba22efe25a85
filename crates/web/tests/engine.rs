//! The tools over raw HTTP with a real engine, database, repository and agent process behind them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use support::{Request, call, modern, open, request};
use taskyard_domain::Class;
use taskyard_engine::{Engine, Options, Paths, SystemClock, SystemIds};
use taskyard_git::Git;
use taskyard_mcp::tool::Type;
use taskyard_mcp::{Backend, CallContext, Dispatcher, EngineBackend, EngineSessions, result, schema, tools};
use taskyard_store::{Database, Store};
use taskyard_testkit::repo::Repo;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A served engine.
struct Yard {
    addr: SocketAddr,
    engine: Engine,
    repo: Repo,
    shutdown: CancellationToken,
    ended: tokio::task::JoinHandle<()>,
    data: TempDir,
}

async fn engine(repo: &Repo, data: &TempDir) -> Engine {
    let path = data.path().canonicalize().unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let store = taskyard_store::Options {
        database: Database::Sqlite { path: path.join("taskyard.db") },
        backup_dir: path.join("backup"),
        clock: clock.clone(),
        ids: ids.clone(),
    };
    Engine::new(Options {
        store: Store::open(store).await.unwrap(),
        git: Git::new(repo.env().clone()),
        environment: repo.env().clone(),
        paths: Paths::new(path),
        clock,
        ids,
        node: "test:1".into(),
        patience: 0.05,
    })
}

impl Yard {
    async fn new() -> Self {
        let repo = Repo::new().await.unwrap();
        let data = TempDir::with_prefix("taskyard-web-").unwrap();
        Self::on(repo, data).await
    }

    async fn on(repo: Repo, data: TempDir) -> Self {
        let engine = engine(&repo, &data).await;
        let dispatcher = Dispatcher::new(Arc::new(EngineBackend::new(engine.clone())));
        let (addr, shutdown, ended) = support::serve(dispatcher, Arc::new(EngineSessions::new(engine.clone()))).await;
        engine.start(&format!("http://{addr}")).await.unwrap();
        Self { addr, engine, repo, shutdown, ended, data }
    }

    async fn stop(self) -> (Repo, TempDir) {
        self.shutdown.cancel();
        self.ended.await.unwrap();
        self.engine.stop().await;
        (self.repo, self.data)
    }

    /// The answer of a tool; it has to fit its published schema and what clients take.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let reply = open(self.addr, modern(call(tool, arguments))).await.finish().await;
        let result = reply.message()["result"].clone();
        let answer = result["structuredContent"].clone();
        assert_eq!(result["isError"], false, "{tool}: {answer}");
        assert_eq!(schema::breach(tools::find(tool).unwrap(), &answer), None, "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.len() <= result::TEXT_BUDGET, "{tool} answers {} bytes", text.len());
        answer
    }

    async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let message = open(self.addr, modern(call(tool, arguments))).await.finish().await.message();
        assert_eq!(message["result"]["isError"], true, "{message}");
        message["result"]["structuredContent"]["error"].clone()
    }

    async fn operate(&self, operation: &str, arguments: Value) -> Value {
        let request = Request::new("POST", &format!("/api/internal/call/{operation}")).with("content-type", "application/json");
        let reply = open(self.addr, request.body(&arguments.to_string())).await.finish().await;
        assert_eq!(reply.status, 200, "{operation}: {}", reply.body);
        reply.json()["result"].clone()
    }

    /// A list with an agent that writes `work.txt`.
    async fn list(&self) -> String {
        let command = ["sh", "-c", "cat > /dev/null; echo work > work.txt; echo done"];
        self.operate("agent_add", json!({ "name": "worker", "driver": "exec", "command": command })).await;
        let list = self.call("create_list", json!({ "name": "Work", "local_path": self.repo.path() })).await;
        list["list_id"].as_str().unwrap().to_owned()
    }

    /// Waits until `task` has left the queue and its run.
    async fn settled(&self, task: &str) -> String {
        let mut cursor = Value::Null;
        loop {
            let answer = self.call("wait_for_task_change", json!({ "task_ids": [task], "timeout_seconds": 20, "cursor": cursor })).await;
            if answer["settled"] == true {
                return self.call("get_task", json!({ "task_id": task })).await["status"].as_str().unwrap().to_owned();
            }
            assert_eq!(answer["timed_out"], false, "{answer}");
            cursor = answer["cursor"].clone();
        }
    }
}

#[tokio::test]
async fn every_tool_has_a_command() {
    let yard = Yard::new().await;
    let backend = EngineBackend::new(yard.engine.clone());
    for tool in tools::all() {
        let arguments: Map<String, Value> = tool
            .params
            .iter()
            .filter(|param| param.required)
            .map(|param| {
                let value = match (param.kind, param.words) {
                    (Type::String, Some(words)) => words.allowed[0].into(),
                    (Type::String, None) => "01890a5d-ac96-774b-bcce-b302099a8057".into(),
                    (Type::Strings, _) => json!(["01890a5d-ac96-774b-bcce-b302099a8057"]),
                    (kind, _) => panic!("{}: a required {kind:?}", tool.name),
                };
                (param.name.to_owned(), value)
            })
            .collect();
        let (arguments, _) = taskyard_mcp::arguments::check(tool, arguments).unwrap();
        let cancel = CancellationToken::new();
        let context = CallContext { token: None, face: taskyard_domain::Face::Mcp, connection: "-".into(), cancel };
        if let Err(error) = backend.call(tool.name, arguments, &context).await {
            assert!(!error.message.contains("there is no tool"), "{}", tool.name);
            assert_ne!(error.class, Class::Internal, "{}: {error}", tool.name);
        }
    }
    yard.stop().await;
}

#[tokio::test]
async fn a_task_goes_from_an_idea_to_a_merge_and_back() {
    let yard = Yard::new().await;
    let list = yard.list().await;
    let task = yard.call("add_task", json!({ "listId": list, "title": "Write it", "description": "Please", "queue": true })).await;
    let task = task["short_id"].as_str().unwrap();
    assert_eq!(yard.settled(task).await, "waiting_for_review");
    let diff = yard.call("get_task_diff", json!({ "task_id": task })).await;
    assert_eq!(diff["files"][0]["path"], "work.txt", "{diff}");
    assert_eq!(yard.call("preview_merge", json!({ "task_id": task })).await["result"], "clean");
    assert_eq!(yard.call("preview_merge_set", json!({ "task_ids": [task] })).await["left_out"], json!([]));
    let reviewed = yard.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!((&reviewed["status"], &reviewed["merged"]), (&json!("done"), &json!(true)));
    assert!(yard.repo.path().join("work.txt").exists());
    assert_eq!(yard.call("revert_merge", json!({ "task_id": task })).await["status"], "waiting_for_review");
    assert!(!yard.repo.path().join("work.txt").exists());
    for (tool, arguments) in [
        ("list_workspaces", json!({})),
        ("list_task_lists", json!({})),
        ("list_tasks", json!({ "list_id": list })),
        ("get_task_status_values", json!({})),
        ("get_task_worktree", json!({ "task_id": task })),
        ("list_worktrees", json!({})),
        ("list_runs", json!({ "task_id": task })),
        ("get_task_log", json!({ "task_id": task })),
        ("list_agents", json!({})),
        ("get_app_settings", json!({})),
        ("get_queue_state", json!({})),
        ("get_list_config", json!({ "list_id": list })),
        ("set_task_config", json!({ "task_id": task, "max_turns": 3 })),
        ("update_task", json!({ "task_id": task, "priority": "P0" })),
        ("list_pending_questions", json!({})),
        ("list_snapshots", json!({})),
        ("get_audit_log", json!({ "workspace": yard.call("list_workspaces", json!({})).await["workspaces"][0]["slug"] })),
        ("update_list", json!({ "list_id": list, "name": "Other" })),
    ] {
        yard.call(tool, arguments).await;
    }
    let run = yard.call("list_runs", json!({ "task_id": task })).await["runs"][0]["id"].clone();
    assert_eq!(yard.call("get_run", json!({ "run_id": run })).await["found"], true);
    yard.stop().await;
}

#[tokio::test]
async fn errors_of_the_engine_name_what_the_caller_typed() {
    let yard = Yard::new().await;
    let error = yard.refused("get_task", json!({ "taskId": "TY-999" })).await;
    assert_eq!((&error["code"], &error["field"]), (&json!("NOT_FOUND"), &json!("taskId")));
    let error = yard.refused("add_task", json!({ "listId": "nope", "title": "x" })).await;
    assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_ARGUMENT"), &json!("listId")));
    assert!(error["message"].as_str().unwrap().starts_with("listId"), "{error}");
    yard.stop().await;
}

#[tokio::test]
async fn a_connection_outlives_a_restart_of_the_whole_server() {
    let yard = Yard::new().await;
    let reply = open(yard.addr, Request::mcp(&[], &support::initialize())).await.finish().await;
    let session = [("mcp-session-id", reply.headers["mcp-session-id"].as_str())];
    let (repo, data) = yard.stop().await;
    let yard = Yard::on(repo, data).await;
    let reply = open(yard.addr, Request::mcp(&session, &request("tools/list", json!({})))).await.finish().await;
    assert!(reply.tools().contains(&"add_task".to_owned()), "{}", reply.body);
    yard.stop().await;
}

#[tokio::test]
async fn the_suffix_is_a_setting() {
    let yard = Yard::new().await;
    yard.operate("settings_update", json!({ "settings": { "tool_suffix": "_kandev" } })).await;
    let list = open(yard.addr, modern(request("tools/list", json!({})))).await.finish().await.tools();
    assert!(list.iter().all(|name| name.ends_with("_kandev")), "{list:?}");
    yard.stop().await;
}

#[tokio::test]
async fn default_answers_stay_small_however_much_there_is() {
    let yard = Yard::new().await;
    let list = yard.call("create_list", json!({ "name": "Much", "local_path": yard.repo.path() })).await["list_id"].clone();
    let operator = taskyard_engine::Caller::operator(taskyard_domain::Face::Cli);
    let mut last = String::new();
    for n in 0..120 {
        let title = format!("{n} {}", "title ".repeat(30));
        let task = json!({ "list_id": list, "title": title, "description": "ü".repeat(10_000), "priority": "medium" });
        last = yard.engine.add_task(&operator, serde_json::from_value(task).unwrap()).await.unwrap().task_id;
    }
    let page = yard.call("list_tasks", json!({ "list_id": list })).await;
    assert_eq!((page["has_more"].as_bool(), page["next_cursor"].is_string()), (Some(true), true));
    let next = yard.call("list_tasks", json!({ "list_id": list, "cursor": page["next_cursor"] })).await;
    assert_ne!(page["tasks"][0]["id"], next["tasks"][0]["id"]);
    assert_eq!(yard.call("get_task", json!({ "task_id": last })).await["description_truncated"], true);
    yard.call("get_audit_log", json!({ "workspace": yard.call("list_workspaces", json!({})).await["workspaces"][0]["slug"] })).await;
    yard.call("list_task_lists", json!({})).await;
    yard.stop().await;
}
