//! The tools over raw HTTP with a real engine, database, repository and agent process behind them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use support::{Request, call, modern, open, request};
use taskyard_domain::Class;
use taskyard_domain::id::QuestionId;
use taskyard_domain::question::{self, Question};
use taskyard_domain::run::State;
use taskyard_domain::session;
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
    /// The fields of the answers so far, by tool.
    told: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

async fn engine(repo: &Repo, data: &TempDir) -> Engine {
    let path = data.path().canonicalize().unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let store = taskyard_store::Options {
        database: Database::Sqlite { path: path.join("taskyard.db") },
        backup_dir: path.join("backup"),
        clock: clock.clone(),
        ids: ids.clone(),
        audited: true,
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
        Self { addr, engine, repo, shutdown, ended, data, told: Mutex::default() }
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
        let fields = answer.as_object().unwrap().keys().cloned();
        self.told.lock().unwrap().entry(tool.to_owned()).or_default().extend(fields);
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
        let context = CallContext { token: None, face: taskyard_domain::Face::Mcp, workspace: None, connection: "-".into(), cancel };
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
async fn who_listens_hears_when_the_suffix_is_set() {
    let yard = Yard::new().await;
    let listen = request("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let mut stream = open(yard.addr, modern(listen)).await;
    stream.until("acknowledged").await;
    let told = stream.until("notifications/tools/list_changed");
    // The setting may change before the listener has looked at it for the first time; then the next change counts.
    let changes = async {
        for n in 0.. {
            yard.operate("settings_update", json!({ "settings": { "tool_suffix": format!("_{n}") } })).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        _ = told => {}
        () = changes => {}
    }
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

/// Fields that stand in an answer only where there is too much to tell.
const RARE: &[&str] = &["further", "not_shown", "truncated"];

/// Every field that a tool's schema names is one that it really answers with.
#[tokio::test]
async fn schemas_name_what_the_tools_answer() {
    let yard = Yard::new().await;
    let list = yard.list().await;
    let add = async |title: &str| {
        let task = yard.call("add_task", json!({ "list_id": list, "title": title })).await;
        task["short_id"].as_str().unwrap().to_owned()
    };
    let run = async |task: &str| {
        yard.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
        assert_eq!(yard.settled(task).await, "waiting_for_review");
    };
    let (one, two, parent, failed) = (add("One").await, add("Two").await, add("Parent").await, add("Failed").await);
    run(&one).await;
    run(&two).await;
    let (of_one, of_two) = (json!({ "task_id": one }), json!({ "task_id": two }));
    look(&yard, &list, &one, &two).await;
    merge(&yard, &of_one, &of_two).await;

    yard.call("add_subtask", json!({ "parent_id": parent, "title": "Child" })).await;
    for tool in ["add_task_dependency", "remove_task_dependency"] {
        yard.call(tool, json!({ "task_id": failed, "depends_on_task_id": parent })).await;
    }
    yard.call("continue_task", json!({ "task_id": two, "prompt": "More" })).await;
    yard.settled(&two).await;
    let worktree = yard.call("get_task_worktree", of_two.clone()).await["worktree"]["path"].as_str().unwrap().to_owned();
    std::fs::write(format!("{worktree}/left.txt"), "left").unwrap();
    yard.call("cleanup_task_worktree", json!({ "task_id": two, "discard_changes": true })).await;
    let snapshots = yard.call("list_snapshots", json!({})).await;
    yard.call("restore_snapshot", json!({ "snapshot_id": snapshots["snapshots"][0]["snapshot_id"] })).await;
    yard.call("cancel_task", of_two.clone()).await;
    yard.call("delete_task", json!({ "task_id": parent })).await;
    fail(&yard, &failed).await;
    yard.call("reset_failed_task", json!({ "task_id": failed })).await;
    yard.call("run_task_now", json!({ "task_id": failed })).await;
    yard.settled(&failed).await;
    ask(&yard, &failed).await;
    let empty = yard.call("create_list", json!({ "name": "Empty" })).await;
    yard.call("delete_list", json!({ "list_id": empty["list_id"] })).await;

    let workspace = yard.call("list_workspaces", json!({})).await["workspaces"][0]["slug"].clone();
    let item = json!({ "workspace": workspace, "kind": "task", "title": "Claimed", "status": "ready" });
    let item = yard.call("create_object", item).await;
    let claim = yard.call("claim_task", json!({ "workspace": workspace, "backlog_item_id": item["id"] })).await;
    yard.call("complete_task", json!({ "workspace": workspace, "run_id": claim["run_id"] })).await;
    yard.call("claim_next_task", json!({ "workspace": workspace })).await;
    yard.call("list_backlog", json!({ "workspace": workspace })).await;

    let told = std::mem::take(&mut *yard.told.lock().unwrap());
    for tool in tools::all() {
        let Some(fields) = told.get(tool.name) else { panic!("{} was never called", tool.name) };
        for (name, _) in tool.outputs {
            assert!(fields.contains(*name) || RARE.contains(name), "{} never answers with {name}: {fields:?}", tool.name);
        }
    }
    yard.stop().await;
}

/// Calls every tool that only reads, and the ones that set little.
async fn look(yard: &Yard, list: &str, one: &str, two: &str) {
    let workspace = yard.call("list_workspaces", json!({})).await["workspaces"][0]["slug"].clone();
    let (of_list, of_one) = (json!({ "list_id": list }), json!({ "task_id": one }));
    for (tool, arguments) in [
        ("list_task_lists", json!({})),
        ("list_tasks", of_list.clone()),
        ("get_task_status_values", json!({})),
        ("get_task_worktree", of_one.clone()),
        ("get_task_diff", of_one.clone()),
        ("preview_merge", of_one.clone()),
        ("preview_merge_set", json!({ "task_ids": [one, two] })),
        ("list_worktrees", json!({})),
        ("get_task_log", of_one.clone()),
        ("list_agents", json!({})),
        ("get_app_settings", json!({})),
        ("get_queue_state", json!({})),
        ("get_list_config", of_list.clone()),
        ("set_list_config", json!({ "list_id": list, "max_turns": 3 })),
        ("get_task_config", of_one.clone()),
        ("set_task_config", json!({ "task_id": one, "max_turns": 3 })),
        ("update_task", json!({ "task_id": one, "priority": "high" })),
        ("list_pending_questions", json!({})),
        ("get_audit_log", json!({ "workspace": workspace })),
        ("update_list", json!({ "list_id": list, "name": "Other" })),
    ] {
        yard.call(tool, arguments).await;
    }
    let runs = yard.call("list_runs", of_one).await;
    yard.call("get_run", json!({ "run_id": runs["runs"][0]["id"] })).await;
}

/// Merges one task, then lets the other conflict with it, in every way.
async fn merge(yard: &Yard, one: &Value, two: &Value) {
    yard.call("merge_task", one.clone()).await;
    yard.call("revert_merge", one.clone()).await;
    std::fs::write(yard.repo.path().join("work.txt"), "mine\n").unwrap();
    yard.repo.git(&["add", "work.txt"]).await.unwrap();
    yard.repo.git(&["commit", "-qm", "Mine"]).await.unwrap();
    let open = json!({ "task_id": two["task_id"], "on_conflict": "leave_open" });
    yard.call("merge_task", open.clone()).await;
    yard.call("abort_merge", two.clone()).await;
    let path = yard.call("merge_task", open).await["merge_worktree_path"].as_str().unwrap().to_owned();
    std::fs::write(format!("{path}/work.txt"), "both\n").unwrap();
    yard.repo.git(&["-C", &path, "add", "work.txt"]).await.unwrap();
    yard.call("continue_merge", two.clone()).await;
    yard.call("revert_merge", two.clone()).await;
    yard.call("review_task", json!({ "task_id": one["task_id"], "decision": "reject_park" })).await;
}

/// Has a task fail.
async fn fail(yard: &Yard, task: &str) {
    yard.operate("agent_add", json!({ "name": "broken", "driver": "exec", "command": ["sh", "-c", "exit 3"] })).await;
    yard.call("set_task_config", json!({ "task_id": task, "agent_profile_id": "broken" })).await;
    yard.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
    assert_eq!(yard.settled(task).await, "failed");
    yard.call("set_task_config", json!({ "task_id": task, "agent_profile_id": "worker" })).await;
}

/// Answers a question of a task's last run.
async fn ask(yard: &Yard, task: &str) {
    let short = taskyard_domain::name::ShortId::parse(task).unwrap();
    let id = QuestionId::new(yard.engine.store().ids());
    let write = yard.engine.store().write(move |tx| {
        Box::pin(async move {
            tx.fixture();
            let task = tx.task_by_short(&short).await?.unwrap();
            let mut run = tx.run_latest_for_task(task.id).await?.unwrap();
            (run.state, run.outcome, run.ended_at) = (State::Waiting, None, None);
            tx.run_update(&run).await?;
            let mut session = tx.session_primary(task.id).await?.unwrap();
            session.state = session::State::WaitingForInput;
            tx.session_update(&session).await?;
            let question = Question {
                id,
                workspace_id: task.workspace_id,
                task_id: task.id,
                session_id: run.session_id.unwrap(),
                run_id: run.id,
                kind: question::Kind::Permission,
                state: question::State::Open,
                request_id: Some("1".into()),
                title: "run make".into(),
                body: json!({ "tool": "execute" }),
                answer: None,
                answered_by: None,
                created_at: run.started_at,
                closed_at: None,
            };
            tx.question_insert(&question).await
        })
    });
    write.await.unwrap();
    yard.call("answer_question", json!({ "question_bundle_id": id, "rejected": true, "reject_reason": "no" })).await;
}
