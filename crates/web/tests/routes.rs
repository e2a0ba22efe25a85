//! The guard on every route, the health check and the command line's calls, over raw HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{RUN_TOKEN, Request, SLOW, Server, Table, Trace, call, modern};
use taskyard_domain::{Clock, Timestamp};
use taskyard_mcp::CallLog;

/// Every route with each method it serves.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/.well-known/oauth-protected-resource"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/mcp/sse"),
    ("POST", "/mcp/message"),
    ("POST", "/api/internal/call/get_task"),
    ("GET", "/nowhere"),
];

#[tokio::test]
async fn no_route_answers_to_another_name_or_site() {
    let server = Server::start().await;
    for (method, path) in ROUTES {
        let request = || Request::new(method, path).with("content-type", "application/json").body("{}");
        for (name, value) in
            [("host", "evil.example:4517"), ("origin", "http://evil.example"), ("origin", "null"), ("origin", "http://localhost:1")]
        {
            let reply = server.send(request().with(name, value)).await;
            assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (403, Some("FORBIDDEN")), "{method} {path} {name}: {value}");
        }
        let upgrade = request().with("origin", "http://evil.example").with("upgrade", "websocket").with("sec-websocket-version", "13");
        assert_eq!(server.send(upgrade).await.status, 403, "{method} {path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn no_route_takes_a_body_that_a_form_can_send() {
    let server = Server::start().await;
    for (method, path) in ROUTES.iter().filter(|(method, _)| *method == "POST") {
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain; a=application/json", ""]
        {
            let reply = server.send(Request::new(method, path).with("content-type", kind).body("{}")).await;
            assert_eq!(reply.status, 415, "{path} {kind}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn whoever_opens_the_address_learns_what_this_is() {
    let server = Server::start().await;
    let browser = server.send(Request::new("GET", "/").with("accept", "text/html,application/xhtml+xml,*/*;q=0.8")).await;
    assert_eq!((browser.status, browser.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    let curl = server.send(Request::new("GET", "/").with("accept", "*/*")).await;
    assert_eq!((curl.status, curl.headers["content-type"].as_str()), (200, "text/plain; charset=utf-8"));
    for text in [browser.body, curl.body] {
        for word in [env!("CARGO_PKG_VERSION"), "still to come", "taskyard task list", "/mcp", "/healthz"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn our_own_pages_and_declared_names_pass() {
    let server = Server::start().await;
    let own = format!("http://{}", server.addr);
    for (host, origin) in [
        (server.addr.to_string(), own),
        ("localhost:9".to_owned(), "http://localhost:9".to_owned()),
        ("yard.example".to_owned(), "https://yard.example".to_owned()),
        (server.addr.to_string(), "https://front.example".to_owned()),
    ] {
        let health = server.send(Request::new("GET", "/healthz").with("host", &host).with("origin", &origin)).await;
        assert_eq!(health.status, 200, "{host} {origin}");
        let mcp = modern(call("get_task", json!({ "task_id": "TY-1" }))).with("host", &host).with("origin", &origin);
        assert_eq!(server.send(mcp).await.status, 200, "{host} {origin}");
    }
    server.stop().await;
}

#[tokio::test]
async fn health_and_what_isnt_there() {
    let server = Server::start().await;
    let health = server.send(Request::new("GET", "/healthz")).await;
    assert_eq!((health.status, health.json()), (200, json!({ "ready": true, "version": env!("CARGO_PKG_VERSION") })));
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/mcp", "/index.html"] {
        let reply = server.send(Request::new("GET", path)).await;
        assert_eq!((reply.status, reply.headers["content-type"].as_str()), (404, "application/json"), "{path}");
    }
    server.stop().await;
}

fn operation(name: &str, arguments: &str) -> Request {
    Request::new("POST", &format!("/api/internal/call/{name}")).with("content-type", "application/json").body(arguments)
}

#[tokio::test]
async fn the_command_lines_calls_reach_tools_and_operations() {
    let server = Server::start().await;
    let reply = server.send(operation("get_task", r#"{"task_id":"TY-1"}"#)).await;
    assert_eq!((reply.status, reply.json()["result"]["task"]["title"].as_str()), (200, Some("t")));
    let reply = server.send(operation("add_repository", "")).await;
    assert_eq!((reply.status, reply.json()), (200, json!({ "result": { "added": true } })));
    let failing: [(&str, &str, u16, &str); 6] = [
        ("get_task", r#"{"task_id":"TY-404"}"#, 404, "NOT_FOUND"),
        ("get_task", r#"{"task_id":"TY-409"}"#, 409, "CONFLICT"),
        ("get_task", "{}", 400, "INVALID_ARGUMENT"),
        ("get_task", "[1]", 400, "INVALID_ARGUMENT"),
        ("get_task", "{", 400, "INVALID_ARGUMENT"),
        ("no_such_thing", "{}", 404, "NOT_FOUND"),
    ];
    for (name, arguments, status, code) in failing {
        let reply = server.send(operation(name, arguments)).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (status, Some(code)), "{name} {arguments}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_runs_token_gets_no_further_here_than_over_mcp() {
    let server = Server::start().await;
    let with = |name: &str, token: &str| operation(name, r#"{"task_id":"TY-1"}"#).with("authorization", &format!("Bearer {token}"));
    assert_eq!(server.send(with("get_task", RUN_TOKEN)).await.status, 200);
    assert_eq!(server.send(with("merge_task", RUN_TOKEN)).await.status, 403);
    assert_eq!(server.send(with("add_repository", RUN_TOKEN)).await.status, 403);
    assert_eq!(server.send(with("get_task", "ty_dead")).await.status, 403);
    server.stop().await;
}

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// A write goes on without its caller, and so does its line.
#[tokio::test]
async fn a_call_whose_caller_has_gone_leaves_a_line_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let log = CallLog::open(&path, Arc::new(Fixed)).unwrap();
    let mut server = Server::with(Arc::new(Table::default()), "", |d| d.with_log(log)).await;
    let id = server.initialize("/mcp").await;
    let claim = call("claim_task", json!({ "workspace": "w", "backlog_item_id": SLOW }));
    let open = server.open(Request::mcp(&[("mcp-session-id", &id)], &claim)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    drop(open);
    server.script.release.notify_one();
    assert_eq!(server.trace().await, Trace::Finished("claim_task".into()));
    let line = async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.ends_with('\n') {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let line: Value = serde_json::from_str(&tokio::time::timeout(Duration::from_secs(20), line).await.unwrap()).unwrap();
    assert_eq!((&line["call"], &line["outcome"]), (&json!("claim_task"), &json!("ok")));
    server.stop().await;
}

#[tokio::test]
async fn every_call_leaves_a_line_without_values() {
    let path = std::env::temp_dir().join(format!("taskyard-call-log-{}.jsonl", std::process::id()));
    let log = CallLog::open(Path::new(&path), Arc::new(Fixed)).unwrap();
    let server = Server::with(Arc::new(Table::default()), "", |d| d.with_log(log)).await;
    server.send(modern(call("get_task", json!({ "taskId": "TY-1" })))).await;
    server.send(operation("get_task", r#"{"task_id":"TY-404","hunter2":1}"#)).await;
    server.stop().await;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["call"], &lines[0]["outcome"], &lines[0]["arguments"]), (&json!("get_task"), &json!("ok"), &json!(["taskId"])));
    assert_eq!(lines[0]["time"], "1970-01-01T00:00:00Z");
    assert_eq!((&lines[1]["outcome"], &lines[1]["arguments"]), (&json!("INVALID_ARGUMENT"), &json!(["hunter2", "task_id"])));
    assert!(!text.contains("TY-1"));
}
