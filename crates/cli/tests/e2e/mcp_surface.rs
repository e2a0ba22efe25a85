//! The MCP face of the real server: catalogue, small answers, a restart under a client, retries, foreign pages.

use crate::project::{Project, committed};
use crate::support::{Setup, Yard, prompt};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::TcpListener;
use tokio::io::AsyncWriteExt;

/// Largest text of a default answer, bytes.
const ANSWER: usize = 10 << 10;

/// A port that is free and that nobody gets by asking for any.
fn own_port() -> u16 {
    let start = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (start..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[tokio::test]
async fn g1_a_client_that_never_initialises_again_survives_restarts() {
    let listen = format!("127.0.0.1:{}", own_port());
    let mut yard = Yard::with(Setup::new().args(&["--listen", &listen])).await;
    let core = yard.server.mcp("mode=core", None).await;
    let task = yard.task("Still here", json!([])).await;
    for crash in [false, true] {
        if crash {
            yard.server.crash().await;
        } else {
            yard.server.restart().await;
        }
        let shown = core.call("get_task", json!({ "task_id": task })).await.unwrap();
        assert_eq!(shown["title"], "Still here");
        assert!(core.tools().await.contains(&"review_task".to_owned()));
    }
    let unknown = core.with_session("0195-nobody");
    let answer = unknown.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" })).await;
    assert_eq!(answer.status(), 404);
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } });
    let anew = unknown.send(json!({ "jsonrpc": "2.0", "id": 8, "method": "initialize", "params": hello })).await;
    assert_eq!(anew.status(), 200);
}

#[tokio::test]
async fn g3_the_catalogue_is_what_every_client_can_read() {
    let yard = Yard::new().await;
    for (mode, most) in [("core", 16 << 10), ("agent", 16 << 10), ("external", 72 << 10), ("external&readonly=true", 72 << 10)] {
        let mcp = yard.server.mcp(&format!("mode={mode}"), None).await;
        assert_eq!(mcp.hello["serverInfo"]["name"], "taskyard");
        let listed = mcp.request("tools/list", json!({})).await["result"].clone();
        let size = serde_json::to_string(&listed).unwrap().len();
        assert!(size <= most, "{mode} is {size} bytes");
        let tools = listed["tools"].as_array().unwrap();
        let names: BTreeSet<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(names.len() == tools.len() && tools.len() > 5, "{mode}: {names:?}");
        for tool in tools {
            readable(tool);
            assert!(!mode.contains("readonly") || tool["annotations"]["readOnlyHint"] == true, "{tool}");
        }
    }
}

fn readable(tool: &Value) {
    let name = tool["name"].as_str().unwrap();
    assert!(name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        assert!(tool["annotations"][hint].is_boolean(), "{name} has no {hint}");
    }
    for side in ["inputSchema", "outputSchema"] {
        let schema = &tool[side];
        assert!(schema["type"] == "object" && schema["properties"].is_object(), "{name} {side}");
        plain(&format!("{name} {side}"), schema);
    }
}

/// No combinators, references, type lists or schema-valued `additionalProperties`, at any depth.
fn plain(place: &str, schema: &Value) {
    for key in ["oneOf", "anyOf", "allOf", "not", "$ref", "$defs", "if"] {
        assert!(schema.get(key).is_none(), "{place} has {key}");
    }
    assert!(schema.get("type").is_none_or(Value::is_string), "{place} has a type list");
    assert!(!schema["additionalProperties"].is_object(), "{place} has additionalProperties");
    assert_eq!(schema["type"] == "array", schema.get("items").is_some(), "{place}: items");
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        plain(&format!("{place}.{name}"), inner);
    }
    if let Some(items) = schema.get("items") {
        plain(&format!("{place}[]"), items);
    }
}

/// What each read-only tool is asked in a yard full of long texts.
fn questions(list: &str, task: &str, run: &str) -> Vec<(&'static str, Value)> {
    let (one, several) = (json!({ "task_id": task }), json!({ "task_ids": [task] }));
    vec![
        ("list_workspaces", json!({})),
        ("list_tasks", json!({})),
        ("list_task_lists", json!({})),
        ("list_agents", json!({})),
        ("get_task", one.clone()),
        ("get_task_status_values", json!({})),
        ("get_task_worktree", one.clone()),
        ("get_task_diff", one.clone()),
        ("get_task_log", one.clone()),
        ("get_task_config", one.clone()),
        ("preview_merge", one),
        ("preview_merge_set", several.clone()),
        ("wait_for_task_change", several),
        ("list_worktrees", json!({})),
        ("get_list_config", json!({ "list_id": list })),
        ("list_runs", json!({})),
        ("get_run", json!({ "run_id": run })),
        ("get_app_settings", json!({})),
        ("get_queue_state", json!({})),
        ("list_pending_questions", json!({})),
        ("list_backlog", json!({ "workspace": "default" })),
        ("list_snapshots", json!({})),
        ("get_audit_log", json!({ "workspace": "default" })),
    ]
}

#[tokio::test]
async fn g4_default_answers_are_small_among_two_thousand_long_tasks() {
    let yard = Yard::new().await;
    yard.server.call("queue_pause", json!({})).await;
    let text = "Ünïcode text of some length. ".repeat(700);
    let add = |n: usize| {
        yard.server.call(
            "add_task",
            json!({ "list_id": yard.list, "title": format!("Task {n} {}", "x".repeat(180)), "description": text, "queue": n.is_multiple_of(2) }),
        )
    };
    stream::iter(0..2000).map(add).buffer_unordered(16).collect::<Vec<_>>().await;
    let shell = "for n in $(seq 1 300); do yes 'a line of work' | head -c 3000 > \"file $n.txt\"; done; git add -A; git commit -qm many";
    let steps = json!([{ "flood": 20000 }, { "shell": shell }, write_log()]);
    let task = yard.add(&"T".repeat(180), steps, json!({ "priority": "critical" })).await;
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reviewable(&task).await;
    let run = yard.run(&task).await["id"].as_str().unwrap().to_owned();
    let workspace = yard.server.call("list_workspaces", json!({})).await["workspaces"][0]["slug"].as_str().unwrap().to_owned();
    let mcp = yard.server.mcp("mode=external", None).await;
    let listed = mcp.request("tools/list", json!({})).await["result"]["tools"].clone();
    let questions = questions(&yard.list, &task, &run);
    for tool in listed.as_array().unwrap().iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true) {
        let name = tool["name"].as_str().unwrap();
        let (_, asked) = questions.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("nothing is known to ask of {name}"));
        let mut asked = asked.clone();
        if asked.get("workspace").is_some() {
            asked["workspace"] = workspace.as_str().into();
        }
        let answer = mcp.request("tools/call", json!({ "name": name, "arguments": asked })).await["result"].clone();
        assert_ne!(answer["isError"], true, "{name}: {answer}");
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.len() <= ANSWER, "{name} says {} bytes", text.len());
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answer["structuredContent"], "{name}");
        typed(name, &tool["outputSchema"], &answer["structuredContent"]);
    }
    every_task_can_be_paged(&mcp, &yard.list).await;
    let long = mcp.call("get_task", json!({ "task_id": "TY-7" })).await.unwrap();
    assert_eq!((&long["description_truncated"], long["description_bytes"].as_u64()), (&json!(true), Some(text.len() as u64)));
    let full = mcp.call("get_task", json!({ "task_id": "TY-7", "full": true })).await.unwrap();
    assert_eq!(full["description"].as_str().unwrap().len(), text.len());
}

/// Every field that the schema names has the type it says; clients that validate would drop the answer otherwise.
fn typed(name: &str, schema: &Value, answer: &Value) {
    for (field, known) in schema["properties"].as_object().unwrap() {
        let Some(value) = answer.get(field) else { continue };
        let fits = match known["type"].as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{name}.{field} is a {other}"),
        };
        assert!(fits, "{name}.{field} isn't {}: {value}", known["type"]);
    }
}

fn write_log() -> Value {
    json!({ "text": "The last words." })
}

async fn every_task_can_be_paged(mcp: &crate::support::Mcp, list: &str) {
    let (mut seen, mut cursor) = (BTreeSet::new(), Value::Null);
    loop {
        let mut asked = json!({ "list_id": list, "limit": 200 });
        if !cursor.is_null() {
            asked["cursor"] = cursor;
        }
        let page = mcp.call("list_tasks", asked).await.unwrap();
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("description").is_none());
            assert!(seen.insert(task["short_id"].as_str().unwrap().to_owned()), "{task} comes twice");
        }
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 2001);
}

/// Sends a call and hangs up without reading the answer.
pub async fn send_and_hang_up(yard: &Yard, operation: &str, arguments: &Value) {
    let address = yard.server.url().trim_start_matches("http://").to_owned();
    let body = arguments.to_string();
    let request = format!(
        "POST /api/internal/call/{operation} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    drop(stream);
}

#[tokio::test]
async fn g6_a_retry_after_a_lost_answer_makes_nothing_twice() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let add = json!({ "list_id": yard.list, "title": "Once", "description": prompt("Once", committed("b.txt", "b\n")), "idempotency_key": "add-1" });
    send_and_hang_up(&yard, "add_task", &add).await;
    let mcp = yard.server.mcp("mode=core", None).await;
    let first = mcp.call("add_task", add.clone()).await.unwrap();
    let again = yard.server.call("add_task", add.clone()).await;
    assert_eq!((&again["task_id"], &again["replayed"]), (&first["task_id"], &json!(true)));
    let all = mcp.call("list_tasks", json!({ "list_id": yard.list })).await.unwrap();
    assert_eq!(all["tasks"].as_array().unwrap().len(), 1, "{all}");
    let mut other = add;
    other["title"] = "Twice".into();
    assert_eq!(mcp.call("add_task", other).await.unwrap_err()["code"], "CONFLICT");

    let task = first["task_id"].as_str().unwrap().to_owned();
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reviewable(&task).await;
    let on = json!({ "task_id": task, "prompt": prompt("On", json!([{ "append": { "path": "b.txt", "content": "more\n" } }])), "idempotency_key": "go-1" });
    send_and_hang_up(&yard, "continue_task", &on).await;
    let told = mcp.call("continue_task", on.clone()).await.unwrap();
    crate::support::eventually("the second run's end", async || (yard.outcomes(&task).await.len() == 2).then_some(())).await;
    assert_eq!(mcp.call("continue_task", on).await.unwrap()["run_id"], told["run_id"]);
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded", "succeeded"]);
    project.approve(&task).await;
    assert_eq!(project.read("b.txt").as_deref(), Some("b\nmore\n"));
}

#[tokio::test]
async fn h2_no_route_answers_another_site() {
    let yard = Yard::new().await;
    let base = yard.server.url().to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let routes = [
        ("GET", "/healthz"),
        ("GET", "/.well-known/oauth-protected-resource"),
        ("POST", "/api/internal/call/list_tasks"),
        ("POST", "/api/internal/call/settings_update"),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("OPTIONS", "/mcp"),
        ("GET", "/mcp/sse"),
        ("POST", "/mcp/message"),
        ("POST", "/sessions/0195/mcp"),
        ("GET", "/"),
        ("GET", "/nowhere"),
    ];
    let foreign = [
        ("host", "evil.example:4517"),
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost.evil.example"),
    ];
    for (method, route) in routes {
        let request = |name: &str, value: &str| {
            let request = http.request(method.parse().unwrap(), format!("{base}{route}")).header(name, value);
            if method == "POST" { request.header("content-type", "application/json").body("{}") } else { request }
        };
        for (name, value) in foreign {
            let answer = request(name, value).send().await.unwrap();
            assert_eq!(answer.status(), 403, "{method} {route} with {name}: {value}");
            assert!(answer.headers().get("access-control-allow-origin").is_none());
        }
        let upgrade = request("origin", "http://evil.example").header("connection", "upgrade").header("upgrade", "websocket");
        assert_eq!(upgrade.send().await.unwrap().status(), 403, "{method} {route}");
        if method == "POST" {
            let plain = http.post(format!("{base}{route}")).header("content-type", "text/plain").body("{}");
            assert_eq!(plain.send().await.unwrap().status(), 415, "{route}");
        }
        // The same without a foreign name isn't refused for it. (An event stream has no end to wait for.)
        let own = request("origin", &base).send().await.unwrap().status();
        assert!(own != 403 && own != 415, "{method} {route}: {own}");
    }
}

#[tokio::test]
async fn h2_declared_names_are_answered() {
    let setup =
        Setup::new().args(&["--listen", "127.0.0.1:0", "--allowed-hosts", "yard.example", "--allowed-origins", "https://yard.example"]);
    let yard = Yard::with(setup).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = |host: &'static str, origin: &'static str| {
        http.get(format!("{}/healthz", yard.server.url())).header("host", host).header("origin", origin).send()
    };
    assert_eq!(ask("yard.example", "https://yard.example").await.unwrap().status(), 200);
    assert_eq!(ask("yard.example", "https://evil.example").await.unwrap().status(), 403);
    assert_eq!(ask("other.example", "https://yard.example").await.unwrap().status(), 403);
}
