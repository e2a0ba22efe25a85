//! From process to first prompt: capabilities, logins, sessions, modes, models, MCP.

use crate::support::{Yard, text};
use axum::Json;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use taskyard_agents::{McpServer, StartError, TurnStop, start};
use taskyard_testkit::scripted::scenario::{Login, Mcp, RpcError, Traits};
use taskyard_testkit::scripted::{API_KEY, Step};

#[tokio::test]
async fn a_program_that_is_not_there_cannot_be_started() {
    let yard = Yard::new(vec![]).await;
    let mut launch = yard.launch();
    launch.command = vec!["/nowhere/agent".into()];
    assert!(matches!(start(launch.clone()), Err(StartError::Spawn(_))));
    launch.command = vec![];
    assert!(matches!(start(launch), Err(StartError::NoCommand)));
}

#[tokio::test]
async fn a_login_by_a_person_ends_the_start() {
    let yard = Yard::with(Traits { login: Login::Person, ..Traits::default() }, vec![]).await;
    let mut agent = yard.begin();
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.errors), (TurnStop::AuthRequired, vec!["Authentication required".to_owned()]));
    agent.until_exit().await;
}

#[tokio::test]
async fn a_login_by_key_needs_nobody() {
    let mut yard = Yard::with(Traits { login: Login::Key, ..Traits::default() }, vec![text("in")]).await;
    let mut agent = yard.begin();
    assert_eq!(agent.until_end().await.stop, TurnStop::AuthRequired);
    agent.until_exit().await;
    yard.edit = Box::new(|launch| launch.env.set(API_KEY, "sk-test"));
    let (_, end) = yard.turn().await;
    assert_eq!(end.last_text, "in");
}

#[tokio::test]
async fn an_agent_that_opens_no_session_fails_with_its_words() {
    let new_error = Some(RpcError { code: -32603, message: "Internal error".into(), data: Some(json!({"details": "no model"})) });
    let yard = Yard::with(Traits { new_error, ..Traits::default() }, vec![]).await;
    let mut agent = yard.begin();
    agent.prompt("Never seen");
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.errors), (TurnStop::Failed, vec!["Internal error: no model".to_owned()]));
    agent.until_exit().await;
}

#[tokio::test]
async fn a_start_that_takes_too_long_fails() {
    let mut yard = Yard::with(Traits { silent_start: true, ..Traits::default() }, vec![]).await;
    yard.edit = Box::new(|launch| launch.start_limit = Duration::from_millis(50));
    let mut agent = yard.begin();
    let end = agent.until_end().await;
    assert_eq!(end.stop, TurnStop::Failed);
    assert!(end.errors[0].contains("50ms"), "{:?}", end.errors);
    agent.until_exit().await;
    yard.assert_swept();
}

#[tokio::test]
async fn closing_works_before_the_handshake_is_through() {
    let yard = Yard::with(Traits { silent_start: true, ..Traits::default() }, vec![]).await;
    let mut agent = yard.begin();
    assert_eq!(agent.close().await.code, Some(0));
    assert_eq!(agent.seen, ["exited"]);
}

#[tokio::test]
async fn a_program_that_ends_at_once_tells_why() {
    let mut yard = Yard::new(vec![]).await;
    yard.edit = Box::new(|launch| launch.command = ["sh", "-c", "echo 'not a git folder' >&2; exit 9"].map(String::from).to_vec());
    let mut agent = yard.begin();
    let exit = agent.until_exit().await;
    assert_eq!((exit.code, exit.stderr_tail.as_str()), (Some(9), "not a git folder"));
}

#[tokio::test]
async fn a_session_is_resumed_without_repetition_or_begun_anew_when_it_is_gone() {
    let mut yard = Yard::with(Traits { resume: true, ..Traits::default() }, vec![text("turn ${turn};")]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("1");
    agent.until_end().await;
    agent.close().await;
    yard.resume = Some("no-such-session".into());
    let mut agent = yard.begin();
    let (id, resumed) = agent.until_ready().await;
    assert!(!resumed && id != "no-such-session");
    assert!(agent.notices()[0].contains("couldn't be taken up"));
}

#[tokio::test]
async fn an_agent_that_cannot_take_up_begins_anew() {
    let mut yard = Yard::with(Traits { load: false, ..Traits::default() }, vec![text("new")]).await;
    yard.resume = Some("old".into());
    let mut agent = yard.begin();
    assert!(!agent.until_ready().await.1);
}

#[tokio::test]
async fn mode_and_model_are_set_where_they_are_known() {
    let traits = || Traits { modes: vec!["ask".into(), "auto".into()], models: vec!["small".into(), "Large".into()], ..Traits::default() };
    let mut yard = Yard::with(traits(), vec![]).await;
    yard.edit = Box::new(|launch| (launch.mode, launch.model) = (Some("auto".into()), Some("large".into())));
    let (mut agent, _) = yard.ready().await;
    agent.close().await;
    assert_eq!(agent.text(), "modeId is autovalue is Large");
    yard.edit = Box::new(|launch| (launch.mode, launch.model) = (Some("yolo".into()), Some("huge".into())));
    let (agent, _) = yard.ready().await;
    let notices = agent.notices();
    assert!(notices[0].contains("mode couldn't be set to yolo: it knows ask, auto"), "{notices:?}");
    assert!(notices[1].contains("model couldn't be set to huge: it knows small, Large"), "{notices:?}");
}

#[tokio::test]
async fn an_agent_whose_model_would_decide_about_permissions_is_made_to_ask() {
    for (modes, chosen, said) in [
        (["auto", "default"], None, "modeId is default"),
        (["agent", "workspace-write"], None, "modeId is workspace-write"),
        (["auto", "yolo"], None, ""),
        (["build", "default"], None, ""),
        (["auto", "default"], Some("auto"), "modeId is auto"),
    ] {
        let mut yard = Yard::with(Traits { modes: modes.map(Into::into).into(), ..Traits::default() }, vec![]).await;
        yard.edit = Box::new(move |launch| launch.mode = chosen.map(Into::into));
        let (mut agent, _) = yard.ready().await;
        agent.close().await;
        assert_eq!(agent.text(), said, "{modes:?} {chosen:?}");
    }
}

#[tokio::test]
async fn the_system_prompt_arrives_whichever_way_the_agent_takes_it() {
    for extras in [true, false] {
        let steps = vec![text("system <${system}> prompt <${prompt}>")];
        let mut yard = Yard::with(Traits { extras, ..Traits::default() }, steps).await;
        yard.edit = Box::new(|launch| {
            launch.system_prompt = Some("Be brief".into());
            launch.writable_dirs = vec![PathBuf::from("/somewhere")];
        });
        let (_, end) = yard.turn().await;
        let expected = if extras { "system <Be brief> prompt <Do it>" } else { "system <> prompt <Be brief\nDo it>" };
        assert_eq!(end.last_text, expected);
    }
}

async fn mcp_server() -> String {
    let handle = async |headers: HeaderMap, Json(message): Json<Value>| {
        let token = headers.get("authorization").and_then(|token| token.to_str().ok()).unwrap_or("none").to_owned();
        let result = match message["method"].as_str() {
            Some("tools/call") => {
                let args = &message["params"]["arguments"];
                json!({ "content": [{ "type": "text", "text": format!("{} {args} {token}", message["params"]["name"]) }] })
            }
            _ => json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "t", "version": "0" } }),
        };
        ([("mcp-session-id", "s1")], Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/mcp", axum::routing::post(handle));
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

fn call() -> Step {
    Step::Mcp(Mcp { server: None, tool: "report".into(), args: json!({"where": "${env:TASKYARD_RUN_ID}"}) })
}

#[tokio::test]
async fn an_mcp_tool_is_called_with_the_runs_token() {
    let mut yard = Yard::new(vec![call()]).await;
    let headers = vec![("authorization".to_owned(), "Bearer secret".to_owned())];
    yard.mcp = vec![McpServer { name: "taskyard".into(), url: mcp_server().await, headers, tool_timeout_s: 60 }];
    let (agent, _) = yard.turn().await;
    let expected = format!("\"report\" {{\"where\":\"{}\"}} Bearer secret", yard.repo.outside().display());
    assert_eq!(agent.outputs(), [("completed", expected.as_str())]);
}

#[tokio::test]
async fn an_agent_without_http_mcp_is_given_no_server_and_that_is_told() {
    let mut yard = Yard::with(Traits { http_mcp: false, ..Traits::default() }, vec![call()]).await;
    yard.mcp = vec![McpServer { name: "taskyard".into(), url: "http://127.0.0.1:1/".into(), headers: vec![], tool_timeout_s: 60 }];
    let (agent, _) = yard.turn().await;
    assert_eq!(agent.outputs(), [("failed", "no such MCP server")]);
    assert!(agent.notices()[0].contains("doesn't take MCP servers"));
}
