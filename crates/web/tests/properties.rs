//! Every tool with arguments that its schema allows, drawn from what is there and from what is not: an answer that
//! keeps the published schema or an error with a class and a message, never a fault of the server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};
use taskyard_domain::{Class, Face};
use taskyard_engine::{Caller, Engine, Options, Paths, SystemClock, SystemIds};
use taskyard_git::Git;
use taskyard_mcp::tool::{Param, Tool, Type};
use taskyard_mcp::toolset::Selection;
use taskyard_mcp::{CallContext, Dispatcher, EngineBackend, schema, tools};
use taskyard_store::{Database, Store};
use taskyard_testkit::property::{any_text, config};
use taskyard_testkit::repo::Repo;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/tools.txt");

/// An engine with lists, tasks, an agent; it lives as long as the test program.
struct World {
    runtime: Runtime,
    dispatcher: Dispatcher,
    /// Words that name something.
    names: Vec<String>,
    _repo: Repo,
    _data: TempDir,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (dispatcher, names, repo, data) = runtime.block_on(furnish());
        World { runtime, dispatcher, names, _repo: repo, _data: data }
    })
}

async fn furnish() -> (Dispatcher, Vec<String>, Repo, TempDir) {
    let (repo, data) = (Repo::new().await.unwrap(), TempDir::with_prefix("taskyard-tools-").unwrap());
    let path = data.path().canonicalize().unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let database = Database::Sqlite { path: path.join("taskyard.db") };
    let store =
        taskyard_store::Options { database, backup_dir: path.join("backup"), clock: clock.clone(), ids: ids.clone(), audited: true };
    let engine = Engine::new(Options {
        store: Store::open(store).await.unwrap(),
        git: Git::new(repo.env().clone()),
        environment: repo.env().clone(),
        paths: Paths::new(path),
        clock,
        ids,
        node: "test:1".into(),
        patience: 0.01,
    });
    engine.start("http://127.0.0.1:9").await.unwrap();
    let me = Caller::operator(Face::Mcp);
    let list: Value = json!(engine.create_list(&me, from(json!({ "name": "List", "local_path": repo.path() }))).await.unwrap());
    let agent = json!(engine.agent_add(&me, from(json!({ "name": "agent", "driver": "exec", "command": ["true"] }))).await.unwrap());
    let mut names = vec![
        "agent",
        "main",
        "default",
        "plan",
        "List",
        "MAIN",
        "ty-1",
        "HEAD",
        "2026-12-01T00:00:00Z",
        "description",
        "title",
        "merge",
        "TY-404",
    ];
    names.extend(["file:///nowhere/at/all", "", " ", "ready", "in_progress", "refs/heads/main", "00000000-0000-7000-8000-000000000000"]);
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    for title in ["One", "Two", "Three"] {
        let task = json!(engine.add_task(&me, from(json!({ "list_id": list["list_id"], "title": title }))).await.unwrap());
        names.extend(["task_id", "short_id"].map(|field| task[field].as_str().unwrap().to_owned()));
    }
    let plan = json!({ "workspace": "default", "kind": "plan", "title": "Plan", "slug": "plan" });
    engine.create_object(&me, from(plan)).await.unwrap();
    let claim = json!({ "workspace": "default", "backlog_item_id": "TY-3" });
    let claim: Value = json!(engine.claim_task(&me, from(claim)).await.unwrap());
    let workspace = json!(engine.list_workspaces(&me, from(json!({}))).await.unwrap())["workspaces"][0]["id"].clone();
    names.extend([&claim["run_id"], &workspace].map(|id| id.as_str().unwrap().to_owned()));
    names.extend([&list["list_id"], &list["repository_id"], &agent["profile_id"]].map(|id| id.as_str().unwrap().to_owned()));
    (Dispatcher::new(Arc::new(EngineBackend::new(engine))), names, repo, data)
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// How each parameter is given: left out or not, which of its values, and a text of any kind in place of a name.
#[derive(Debug, Clone)]
struct Choice {
    given: bool,
    index: Index,
    odd: Option<String>,
    number: f64,
}

fn choice() -> impl Strategy<Value = Choice> {
    (prop::bool::weighted(0.6), any::<Index>(), prop::option::weighted(0.2, any_text()), any::<f64>())
        .prop_map(|(given, index, odd, number)| Choice { given, index, odd, number })
}

fn value(param: &Param, choice: &Choice) -> Value {
    let names = &world().names;
    let name = || choice.odd.clone().unwrap_or_else(|| names[choice.index.index(names.len())].clone());
    match param.kind {
        Type::String if param.words.is_some() => {
            json!(param.words.unwrap().allowed[choice.index.index(param.words.unwrap().allowed.len())])
        }
        // Nothing is fetched from elsewhere.
        Type::String if param.name.contains("url") => json!("file:///nowhere/at/all"),
        Type::String => json!(name()),
        // Nobody waits here.
        Type::Integer if param.name == "timeout_seconds" => json!(param.bounds.map_or(0, |(least, _)| least)),
        Type::Integer => {
            let (least, most) = param.bounds.unwrap_or((i64::MIN, i64::MAX));
            json!([least, most, least.midpoint(most)][choice.index.index(3)])
        }
        Type::Number => json!(choice.number),
        Type::Boolean => json!(choice.index.index(2) == 0),
        Type::Object => json!({ "name": name() }),
        Type::Strings => json!([name(), names[choice.index.index(names.len())]]),
        Type::Objects => json!([{ "selected_option": name(), "custom_text": 7 }]),
    }
}

fn arguments(tool: &Tool, choices: &[Choice]) -> Map<String, Value> {
    let given = tool.params.iter().zip(choices.iter().cycle()).filter(|(param, choice)| param.required || choice.given);
    given.map(|(param, choice)| (param.name.to_owned(), value(param, choice))).collect()
}

async fn call(tool: &'static Tool, arguments: Map<String, Value>) -> taskyard_domain::Result<Value> {
    let context = CallContext { token: None, face: Face::Mcp, workspace: None, connection: "-".into(), cancel: CancellationToken::new() };
    let cancel = context.cancel.clone();
    let everything = Selection::everything();
    let work = world().dispatcher.tool(tool, &everything, arguments, context);
    tokio::pin!(work);
    // What waits for a run that nobody starts here is called off.
    tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(std::time::Duration::from_secs(2)) => { cancel.cancel(); work.await }
    }
}

proptest! {
    #![proptest_config(config(128, KEPT))]

    #[test]
    fn every_tool_answers_by_its_schema_or_says_what_is_wrong(at in any::<Index>(), choices in prop::collection::vec(choice(), 1..8)) {
        // These start agents; their own tests do.
        let all: Vec<&Tool> = tools::all().filter(|tool| !matches!(tool.name, "run_task_now" | "continue_task")).collect();
        let tool = all[at.index(all.len())];
        let arguments = arguments(tool, &choices);
        match world().runtime.block_on(call(tool, arguments.clone())) {
            Ok(answer) => prop_assert_eq!(schema::breach(tool, &answer), None, "{} {:?}", tool.name, arguments),
            Err(error) => {
                prop_assert!(error.class != Class::Internal, "{} {:?}: {}", tool.name, arguments, error);
                prop_assert!(!error.message.trim().is_empty() && error.message.len() <= 4_000, "{}: {} bytes", tool.name, error.message.len());
                let named = error.field.as_deref().is_none_or(|field| {
                    let head = field.split(['[', '.']).next().unwrap_or_default();
                    tool.params.iter().any(|param| param.name == head)
                });
                prop_assert!(named, "{} {:?} names {:?}, which it doesn't take: {}", tool.name, arguments, error.field, error);
            }
        }
    }
}
