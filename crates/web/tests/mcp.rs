//! The MCP endpoint over raw HTTP: both eras, restarts, errors, modes, long calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{RUN_TOKEN, Request, SLOW, Server, Table, Trace, call, initialize, modern, request};

#[tokio::test]
async fn a_client_of_2025_initialises_lists_and_calls() {
    let server = Server::start().await;
    let reply = server.mcp(&[], initialize()).await;
    let info = &reply.message()["result"];
    assert_eq!((info["protocolVersion"].as_str(), info["serverInfo"]["name"].as_str()), (Some("2025-11-25"), Some("taskyard")));
    assert_eq!(info["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    let id = server.initialize("/mcp").await;
    let list = server.mcp(&[("mcp-session-id", &id)], request("tools/list", json!({}))).await;
    assert!(list.tools().contains(&"add_task".to_owned()), "{:?}", list.tools());
    let reply = server.mcp(&[("mcp-session-id", &id)], call("get_task", json!({ "task_id": "TY-1" }))).await;
    assert!(!reply.body.contains("data: \n") && !reply.body.contains("retry:"), "no priming events: {}", reply.body);
    let result = &reply.message()["result"];
    assert_eq!(result["structuredContent"]["task"]["title"], "t");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    server.stop().await;
}

#[tokio::test]
async fn every_older_revision_is_spoken() {
    let server = Server::start().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut message = initialize();
        message["params"]["protocolVersion"] = version.into();
        assert_eq!(server.mcp(&[], message).await.message()["result"]["protocolVersion"], version);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_of_2026_needs_no_session() {
    let server = Server::start().await;
    let discovered = server.send(modern(request("server/discover", json!({})))).await.message();
    assert!(discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{discovered}");
    let list = server.send(modern(request("tools/list", json!({})))).await;
    assert!(list.tools().contains(&"merge_task".to_owned()));
    let reply = server.send(modern(call("get_task", json!({ "task_id": "TY-1" })))).await;
    assert_eq!(reply.headers["content-type"], "application/json");
    assert_eq!(reply.json()["result"]["structuredContent"]["task"]["title"], "t");
    server.stop().await;
}

#[tokio::test]
async fn a_session_outlives_a_restart() {
    let table = Arc::new(Table::default());
    let first = Server::with(table.clone(), "", |d| d).await;
    let id = first.initialize("/mcp").await;
    first.stop().await;
    let second = Server::with(table, "", |d| d).await;
    let reply = second.mcp(&[("mcp-session-id", &id)], call("get_task", json!({ "task_id": "TY-1" }))).await;
    assert_eq!(reply.message()["result"]["structuredContent"]["task"]["title"], "t");
    let gone = second.send(Request::new("DELETE", "/mcp").with("mcp-session-id", &id)).await;
    assert_eq!(gone.status, 204);
    assert_eq!(second.mcp(&[("mcp-session-id", &id)], request("tools/list", json!({}))).await.status, 404);
    second.stop().await;
}

#[tokio::test]
async fn an_unknown_session_is_404_and_a_stale_one_can_start_anew() {
    let server = Server::start().await;
    let stale = [("mcp-session-id", "0195-stale")];
    assert_eq!(server.mcp(&stale, request("tools/list", json!({}))).await.status, 404);
    assert_eq!(server.mcp(&stale, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await.status, 404);
    let get = Request::new("GET", "/mcp").with("accept", "text/event-stream").with("mcp-session-id", "0195-stale");
    assert_eq!(server.send(get).await.status, 404);
    assert_eq!(server.send(Request::new("DELETE", "/mcp").with("mcp-session-id", "0195-stale")).await.status, 404);
    let told = server.mcp(&stale, request("tools/list", json!({}))).await.json();
    assert_eq!((told["id"].as_i64(), told["error"]["code"].as_i64()), (Some(7), Some(-32001)), "{told}");
    let none = server.mcp(&[], request("tools/list", json!({}))).await;
    assert_eq!((none.status, none.json()["id"].as_i64(), none.json()["error"]["code"].as_i64()), (400, Some(7), Some(-32600)));
    let reply = server.mcp(&stale, initialize()).await;
    assert_eq!((reply.status, reply.headers["mcp-session-id"] == "0195-stale"), (200, false));
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_request_is_a_protocol_error() {
    let server = Server::start().await;
    for (body, code) in [("{\"jsonrpc\":", -32700), ("[]", -32600), ("{\"nonsense\":1}", -32600), ("7", -32600)] {
        let reply = server.send(Request::mcp(&[], &json!({})).body(body)).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), (400, Some(code)), "{body}");
    }
    let plain = Request::mcp(&[], &initialize()).with("content-type", "text/plain");
    assert_eq!(server.send(plain).await.status, 415);
    let unknown = server.send(modern(call("no_such_tool", json!({})))).await;
    assert_eq!(unknown.message()["error"]["code"], -32602);
    let misfit = server.send(modern(request("tools/call", json!({ "name": "get_task", "arguments": [1] })))).await;
    assert_eq!(misfit.message()["error"]["code"], -32602, "{}", misfit.body);
    server.stop().await;
}

#[tokio::test]
async fn failures_are_results_that_name_what_the_caller_typed() {
    let server = Server::start().await;
    let fail = async |tool: &str, arguments: Value| {
        let message = server.send(modern(call(tool, arguments))).await.message();
        assert_eq!(message["result"]["isError"], true, "{message}");
        let text: Value = serde_json::from_str(message["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, message["result"]["structuredContent"]);
        text["error"].clone()
    };
    let error = fail("get_task", json!({ "taskId": "TY-404" })).await;
    assert_eq!((&error["code"], &error["field"]), (&json!("NOT_FOUND"), &json!("taskId")));
    assert_eq!(error["hint"], "taskId is a UUID or TY-42");
    let error = fail("get_task", json!({ "task_id": "TY-1", "oops": 1 })).await;
    assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_ARGUMENT"), &json!("oops")));
    let error = fail("get_task", json!({ "task_id": "TY-409" })).await;
    assert_eq!((&error["code"], &error["details"]["files"]), (&json!("CONFLICT"), &json!(["a"])));
    server.stop().await;
}

#[tokio::test]
async fn arguments_arrive_normalised_and_complete() {
    let mut server = Server::start().await;
    server.send(modern(call("get_task_diff", json!({ "taskId": "TY-1", "maxBytes": 5.0, "wait_for_previous": true })))).await;
    let expected = json!({ "task_id": "TY-1", "stat_only": false, "max_bytes": 5 });
    assert_eq!(server.trace().await, Trace::Called("get_task_diff".into(), expected));
    server.stop().await;
}

#[tokio::test]
async fn the_address_decides_which_tools_there_are() {
    let server = Server::start().await;
    let list = async |query: &str| server.send(modern(request("tools/list", json!({}))).at(&format!("/mcp{query}"))).await;
    assert!(!list("?mode=core").await.tools().contains(&"delete_list".to_owned()));
    assert_eq!(list("?toolsets=wait,queue").await.tools(), ["get_queue_state", "wait_for_task_change"]);
    assert!(!list("?readonly=true").await.tools().contains(&"merge_task".to_owned()));
    let reply = list("?mode=nope").await;
    assert_eq!((reply.status, reply.json()["id"].as_i64()), (400, Some(7)));
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("external, dispatch, core, claims, agent"));
    let refused = server.send(modern(call("merge_task", json!({ "task_id": "TY-1" }))).at("/mcp?readonly=true")).await.message();
    assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "FORBIDDEN");
    server.stop().await;
}

#[tokio::test]
async fn a_connection_is_told_of_its_own_tools() {
    let server = Server::start().await;
    let initialized = server.send(Request::mcp(&[], &initialize()).at("/mcp?mode=claims")).await.message();
    let discovered = server.send(modern(request("server/discover", json!({}))).at("/mcp?mode=claims")).await.message();
    for answer in [initialized, discovered] {
        let told = answer["result"]["instructions"].as_str().unwrap();
        assert!(told.contains("claim_next_task") && !told.contains("add_task"), "{answer}");
    }
    let whole = server.mcp(&[], initialize()).await.message();
    assert!(whole["result"]["instructions"].as_str().unwrap().contains("add_task"), "{whole}");
    server.stop().await;
}

#[tokio::test]
async fn a_runs_token_sees_the_agents_tools_whatever_it_asks_for() {
    let server = Server::start().await;
    for token in [RUN_TOKEN, "ty_dead"] {
        let bearer = format!("Bearer {token}");
        let list = server.send(modern(request("tools/list", json!({}))).at("/mcp?mode=external").with("authorization", &bearer)).await;
        assert_eq!(list.tools().len(), 8, "{:?}", list.tools());
        let merge = server.send(modern(call("merge_task", json!({ "task_id": "TY-1" }))).with("authorization", &bearer)).await.message();
        assert_eq!(merge["result"]["structuredContent"]["error"]["code"], "FORBIDDEN");
    }
    let own = modern(call("get_task", json!({ "task_id": "TY-1" }))).with("authorization", &format!("bearer {RUN_TOKEN}"));
    assert_eq!(server.send(own).await.message()["result"]["isError"], false);
    let dead = modern(call("get_task", json!({ "task_id": "TY-1" }))).with("authorization", "Bearer ty_dead");
    assert_eq!(server.send(dead).await.message()["result"]["structuredContent"]["error"]["code"], "FORBIDDEN");
    server.stop().await;
}

#[tokio::test]
async fn the_suffix_is_behind_every_name() {
    let server = Server::with(Arc::new(Table::default()), "_kandev", |d| d).await;
    let list = server.send(modern(request("tools/list", json!({})))).await.tools();
    assert!(list.iter().all(|name| name.ends_with("_kandev")), "{list:?}");
    let reply = server.send(modern(call("get_task_kandev", json!({ "task_id": "TY-1" })))).await.message();
    assert_eq!(reply["result"]["isError"], false);
    server.stop().await;
}

#[tokio::test]
async fn a_silent_call_puts_bytes_on_the_wire_and_then_its_answer() {
    let mut server = Server::start().await;
    let mut open = server.open(modern(call("wait_for_task_change", json!({ "task_ids": ["TY-1"] })))).await;
    let head = open.until(": working\n\n").await;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    assert!(!head.contains("notifications/progress"), "no progress without a token");
    assert!(matches!(server.trace().await, Trace::Called(..)));
    server.script.release.notify_one();
    let reply = open.finish().await;
    assert_eq!(reply.message()["result"]["structuredContent"]["task"]["title"], "t");
    server.stop().await;
}

#[tokio::test]
async fn progress_is_sent_while_a_call_waits_if_the_caller_wants_it() {
    let server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let params = json!({ "name": "wait_for_task_change", "arguments": { "task_ids": ["TY-1"] }, "_meta": { "progressToken": "p1" } });
    let legacy = Request::mcp(&[("mcp-session-id", &id)], &request("tools/call", params.clone()));
    for message in [legacy, modern(request("tools/call", params))] {
        let mut open = server.open(message).await;
        let text = open.until("\"progress\":0.06").await;
        assert!(text.contains("notifications/progress") && text.contains("\"p1\""), "{text}");
        server.script.release.notify_one();
        assert_eq!(open.finish().await.message()["result"]["isError"], false);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_reading_call_ends_with_its_caller() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let message = call("wait_for_task_change", json!({ "task_ids": ["TY-1"] }));
    for request in [modern(message.clone()), Request::mcp(&[("mcp-session-id", &id)], &message)] {
        let mut open = server.open(request).await;
        assert!(matches!(server.trace().await, Trace::Called(..)));
        open.until("text/event-stream").await;
        drop(open);
        assert_eq!(server.trace().await, Trace::Dropped("wait_for_task_change".into()));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_can_be_cancelled_by_a_message() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let open = server.open(Request::mcp(&[("mcp-session-id", &id)], &call("wait_for_task_change", json!({ "task_ids": ["TY-1"] })))).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(server.mcp(&[("mcp-session-id", &id)], cancel).await.status, 202);
    assert_eq!(server.trace().await, Trace::Dropped("wait_for_task_change".into()));
    drop(open);
    server.stop().await;
}

/// A client that takes only streams goes through the SDK's session, one that takes JSON past it.
#[tokio::test]
async fn a_brief_call_is_answered_as_its_session_would() {
    let server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let odd = json!({ "name": "get_task", "arguments": { "task_id": "TY-1" }, "_meta": { "progressToken": 3, "vendor/trace": "x" } });
    for message in [
        call("get_task", json!({ "task_id": "TY-1" })),
        call("get_task", json!({ "task_id": "TY-404" })),
        call("get_task", json!({ "task_id": "TY-409" })),
        call("get_task", json!({ "tusk_id": "TY-1" })),
        call("get_task", Value::Null),
        call("add_task", json!({ "list_id": "l", "title": "t" })),
        call("no_such_tool", json!({})),
        request("tools/call", json!({ "name": "list_workspaces" })),
        request("tools/call", json!({ "name": "get_task", "arguments": [] })),
        request("tools/call", odd),
    ] {
        for token in [None, Some(RUN_TOKEN), Some("stale")] {
            let mut request = Request::mcp(&[("mcp-session-id", &id), ("mcp-protocol-version", "2025-06-18")], &message);
            if let Some(token) = token {
                request = request.with("authorization", &format!("Bearer {token}"));
            }
            let past = server.send(request.clone()).await;
            let through = server.send(request.with("accept", "text/event-stream")).await;
            assert_eq!(past.headers["content-type"], "application/json", "{}", past.body);
            assert_eq!(past.json(), through.message(), "{message}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_brief_call_that_isnt_brief_tells_of_itself_and_ends_with_its_caller() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let session = [("mcp-session-id", id.as_str())];
    let params = json!({ "name": "get_task", "arguments": { "task_id": SLOW }, "_meta": { "progressToken": "p1" } });
    let message = request("tools/call", params);
    let mut open = server.open(Request::mcp(&session, &message)).await;
    let text = open.until("\"progress\":0.06").await;
    assert!(text.contains("notifications/progress") && text.contains("\"p1\""), "{text}");
    assert!(matches!(server.trace().await, Trace::Called(..)));
    server.script.release.notify_one();
    assert_eq!(open.finish().await.message()["result"]["isError"], false);
    assert_eq!(server.trace().await, Trace::Finished("get_task".into()));

    let mut open = server.open(Request::mcp(&session, &message)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    open.until("text/event-stream").await;
    drop(open);
    assert_eq!(server.trace().await, Trace::Dropped("get_task".into()));

    let open = server.open(Request::mcp(&session, &message)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    assert_eq!(server.mcp(&session, message.clone()).await.status, 400, "its id is taken");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(server.mcp(&session, cancel).await.status, 202);
    assert_eq!(server.trace().await, Trace::Dropped("get_task".into()));
    assert_eq!(open.finish().await.message()["result"]["structuredContent"]["error"]["code"], "UNAVAILABLE");
    server.stop().await;
}

#[tokio::test]
async fn a_writing_call_runs_to_its_end_without_its_caller() {
    let mut server = Server::start().await;
    let mut open = server.open(modern(call("merge_task", json!({ "task_id": "TY-1" })))).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    open.until(": working").await;
    drop(open);
    server.script.release.notify_one();
    assert_eq!(server.trace().await, Trace::Finished("merge_task".into()));
    server.stop().await;
}

#[tokio::test]
async fn a_writing_call_that_the_stop_overtakes_is_answered_with_what_it_came_to() {
    let mut server = Server::start().await;
    let open = server.open(Request::mcp(&[], &json!({ "task_id": "TY-1" })).at("/api/internal/call/merge_task")).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let script = server.script.clone();
    let (reply, ()) = tokio::join!(open.finish(), async {
        tokio::join!(server.stop(), async { script.release.notify_one() });
    });
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn calls_that_the_stop_overtakes_are_answered_in_their_session() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let mut numbered = call("wait_for_task_change", json!({ "task_ids": ["TY-1"] }));
    numbered["id"] = 71.into();
    let merge = call("merge_task", json!({ "task_id": "TY-1" }));
    let writing = server.open(Request::mcp(&[("mcp-session-id", &id)], &merge)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let waiting = server.open(Request::mcp(&[("mcp-session-id", &id)], &numbered)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let script = server.script.clone();
    let (written, waited, ()) = tokio::join!(writing.finish(), waiting.finish(), async {
        tokio::join!(server.stop(), async { script.release.notify_one() });
    });
    assert!(written.message()["result"].is_object(), "{}", written.body);
    assert_eq!(waited.message()["result"]["structuredContent"]["error"]["code"], "UNAVAILABLE", "{}", waited.body);
}

#[tokio::test]
async fn clients_with_odd_accept_headers_are_served() {
    let server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let message = call("get_task", json!({ "task_id": "TY-1" }));
    let plain = Request::mcp(&[("mcp-session-id", &id)], &message).with("accept", "application/json");
    let reply = server.send(plain).await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/json"));
    assert_eq!(reply.json()["result"]["structuredContent"]["task"]["title"], "t");
    assert_eq!(server.send(modern(message).with("accept", "*/*")).await.status, 200);
    let opened = server.send(Request::mcp(&[], &initialize()).with("accept", "application/json")).await;
    for get in [Request::new("GET", "/mcp"), Request::new("GET", "/mcp").with("accept", "*/*")] {
        let head = server.open(get.with("mcp-session-id", &id)).await.until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    }
    let listen = modern(request("subscriptions/listen", json!({ "notifications": {} }))).with("accept", "application/json");
    assert_eq!(server.send(listen).await.status, 406, "it would wait for the end of the stream");
    assert!(opened.headers.contains_key("mcp-session-id") && opened.json()["result"].is_object());
    server.stop().await;
}

#[tokio::test]
async fn the_older_transport_works() {
    let mut server = Server::start().await;
    let mut stream = server.open(Request::new("GET", "/mcp/sse?mode=core").with("accept", "text/event-stream")).await;
    let head = stream.until("mode=core\n").await;
    let place = head.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    assert!(head.contains("event: endpoint") && place.starts_with("/mcp/message?sessionId="), "{head}");
    let post = async |message: Value| server.send(Request::mcp(&[], &message).at(&place)).await.status;
    assert_eq!(post(initialize()).await, 202);
    assert!(stream.until("serverInfo").await.contains("event: message"));
    assert_eq!(post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await, 202);
    assert_eq!(post(request("tools/list", json!({}))).await, 202);
    assert!(!stream.until("\"tools\":[").await.contains("delete_list"));
    assert_eq!(post(call("wait_for_task_change", json!({ "task_ids": ["TY-1"] }))).await, 202);
    assert!(matches!(server.trace().await, Trace::Called(..)));
    drop(stream);
    assert_eq!(server.trace().await, Trace::Dropped("wait_for_task_change".into()));
    server.stop().await;
}

#[tokio::test]
async fn the_older_transport_refuses_what_it_cant_take() {
    let server = Server::start().await;
    let unknown = Request::mcp(&[], &initialize()).at("/mcp/message?sessionId=nope");
    assert_eq!(server.send(unknown).await.status, 404);
    assert_eq!(server.send(Request::new("GET", "/mcp/sse?mode=nope")).await.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn stopping_ends_open_streams_and_waiting_calls() {
    let mut server = Server::start().await;
    let id = server.initialize("/mcp").await;
    let mut events = server.open(Request::new("GET", "/mcp").with("accept", "text/event-stream").with("mcp-session-id", &id)).await;
    events.until("text/event-stream").await;
    let mut older = server.open(Request::new("GET", "/mcp/sse")).await;
    older.until("endpoint").await;
    let mut waiting = server.open(modern(call("wait_for_task_change", json!({ "task_ids": ["TY-1"] })))).await;
    waiting.until(": working").await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    let command = Request::new("POST", "/api/internal/call/wait_for_task_change").with("content-type", "application/json");
    let cli = server.open(command.body(r#"{"task_ids":["TY-1"]}"#)).await;
    assert!(matches!(server.trace().await, Trace::Called(..)));
    server.shutdown.cancel();
    server.ended.await.unwrap();
    assert_eq!(cli.finish().await.status, 503);
}
