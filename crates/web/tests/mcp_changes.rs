//! What the endpoint says by itself: that the tool list has changed, to sessions and to listeners; and that an id
//! names one request at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::{Open, Request, Server, Table, Trace, call, initialize, modern, request};

const CHANGED: &str = "notifications/tools/list_changed";

/// Waits until `count` connections follow the suffix, then changes it.
async fn change(server: &Server, count: usize, suffix: &str) {
    while server.script.suffix.receiver_count() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.script.suffix.send_replace(suffix.to_owned());
}

/// Waits until nobody follows the suffix any more.
async fn forgotten(server: &Server) {
    while server.script.suffix.receiver_count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The messages of an event stream so far.
fn messages(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn listen(notifications: Value) -> Request {
    modern(request("subscriptions/listen", json!({ "notifications": notifications })))
}

async fn events(server: &Server, session: &str) -> Open {
    let get = Request::new("GET", "/mcp").with("accept", "text/event-stream").with("mcp-session-id", session);
    let mut open = server.open(get).await;
    open.until("text/event-stream").await;
    open
}

#[tokio::test]
async fn a_session_hears_of_changed_tools_and_does_so_after_a_restart() {
    let table = Arc::new(Table::default());
    let first = Server::with(table.clone(), "", |d| d).await;
    let info = first.mcp(&[], initialize()).await.message();
    assert_eq!(info["result"]["capabilities"]["tools"]["listChanged"], true);
    let id = first.initialize("/mcp").await;
    let mut stream = events(&first, &id).await;
    change(&first, 1, "_one").await;
    stream.until(CHANGED).await;
    let list = first.mcp(&[("mcp-session-id", &id)], request("tools/list", json!({}))).await;
    assert!(list.tools().iter().all(|name| name.ends_with("_one")));
    first.stop().await;

    let second = Server::with(table, "_one", |d| d).await;
    let mut stream = events(&second, &id).await;
    change(&second, 1, "_two").await;
    stream.until(CHANGED).await;
    assert_eq!(second.send(Request::new("DELETE", "/mcp").with("mcp-session-id", &id)).await.status, 204);
    forgotten(&second).await;
    second.stop().await;
}

#[tokio::test]
async fn the_older_transport_hears_of_changed_tools() {
    let server = Server::start().await;
    let mut stream = server.open(Request::new("GET", "/mcp/sse")).await;
    let head = stream.until("sessionId=").await;
    let place = stream_place(&head);
    for message in [initialize(), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })] {
        assert_eq!(server.send(Request::mcp(&[], &message).at(&place)).await.status, 202);
    }
    change(&server, 1, "_one").await;
    stream.until(CHANGED).await;
    drop(stream);
    forgotten(&server).await;
    server.stop().await;
}

fn stream_place(head: &str) -> String {
    head.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_and_gets_a_result_at_the_end() {
    let server = Server::start().await;
    let mut tools = server.open(listen(json!({ "toolsListChanged": true, "promptsListChanged": true }))).await;
    let head = tools.until("acknowledged").await;
    tools.until("\n\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let first = messages(&tools.until("subscriptionId").await)[0].clone();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], json!({ "toolsListChanged": true }), "prompts never change: there are none");
    let mut prompts = server.open(listen(json!({ "promptsListChanged": true }))).await;
    prompts.until("acknowledged").await;
    change(&server, 1, "_one").await;
    tools.until(CHANGED).await;
    change(&server, 1, "_two").await;
    server.shutdown.cancel();
    let (tools, prompts) = (tools.finish().await, prompts.finish().await);
    let told = messages(&tools.body);
    assert!(told.iter().filter(|message| message["method"] == CHANGED).count() >= 1);
    for message in told.iter().filter(|message| message.get("method").is_some()) {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{message}");
    }
    assert!(!prompts.body.contains(CHANGED), "{}", prompts.body);
    for reply in [tools, prompts] {
        let last = reply.message();
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")), "{}", reply.body);
    }
    server.ended.await.unwrap();
}

#[tokio::test]
async fn a_listener_that_leaves_is_forgotten() {
    let server = Server::start().await;
    let mut open = server.open(listen(json!({ "toolsListChanged": true }))).await;
    open.until("acknowledged").await;
    while server.script.suffix.receiver_count() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(open);
    forgotten(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn an_id_names_one_request_of_a_session_at_a_time() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let headers = [("mcp-session-id", id.as_str())];
    let wait = call("wait_for_task_change", json!({ "task_ids": ["TY-1"] }));
    let first = server.open(Request::mcp(&headers, &wait)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let second = server.mcp(&headers, call("get_task", json!({ "task_id": "TY-1" }))).await;
    assert_eq!((second.status, second.json()["error"]["code"].as_i64(), second.json()["id"].as_i64()), (400, Some(-32600), Some(7)));
    assert!(second.json()["error"]["message"].as_str().unwrap().contains("request 7 of this session is still under way"));
    let mut other = call("get_task", json!({ "task_id": "TY-1" }));
    other["id"] = 8.into();
    assert_eq!(server.mcp(&headers, other).await.message()["result"]["isError"], false);
    assert!(matches!(server.trace().await, Trace::Called(..)));
    assert!(matches!(server.trace().await, Trace::Finished(..)));
    server.script.release.notify_one();
    assert_eq!(first.finish().await.message()["result"]["isError"], false);
    assert_eq!(server.mcp(&headers, call("get_task", json!({ "task_id": "TY-1" }))).await.message()["result"]["isError"], false);
    server.stop().await;
}

#[tokio::test]
async fn requests_without_a_session_may_share_an_id() {
    let mut server = Server::start().await;
    let wait = || modern(call("wait_for_task_change", json!({ "task_ids": ["TY-1"] })));
    let open = [server.open(wait()).await, server.open(wait()).await];
    for _ in &open {
        assert!(matches!(server.trace().await, Trace::Called(..)));
    }
    for _ in &open {
        server.script.release.notify_one();
        assert!(matches!(server.trace().await, Trace::Finished(..)));
    }
    for open in open {
        assert_eq!(open.finish().await.message()["result"]["isError"], false);
    }
    server.stop().await;
}

#[tokio::test]
async fn an_id_names_one_request_of_the_older_transport_at_a_time() {
    let mut server = Server::start().await;
    let mut stream = server.open(Request::new("GET", "/mcp/sse")).await;
    let place = stream_place(&stream.until("sessionId=").await);
    let post = |message: Value| Request::mcp(&[], &message).at(&place);
    server.send(post(initialize())).await;
    stream.until("serverInfo").await;
    server.send(post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await;
    assert_eq!(server.send(post(call("wait_for_task_change", json!({ "task_ids": ["TY-1"] })))).await.status, 202);
    let second = server.send(post(call("get_task", json!({ "task_id": "TY-1" })))).await;
    assert_eq!((second.status, second.json()["error"]["code"].as_i64()), (400, Some(-32600)));
    assert!(matches!(server.trace().await, Trace::Called(..)));
    server.script.release.notify_one();
    stream.until("structuredContent").await;
    assert_eq!(server.send(post(call("get_task", json!({ "task_id": "TY-1" })))).await.status, 202);
    server.stop().await;
}
