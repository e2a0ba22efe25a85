//! Lines as Claude writes them, against the conversation's state; arguments and files of a start.

use super::session::Session;
use super::*;
use crate::contract::{Answer, McpServer, Permission, Resume};
use crate::dialogue::{Dialogue, Fate, Out};
use pretty_assertions::assert_eq;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::{Item, Usage};
use taskyard_process::Environment;

const READY: &str = r#"{"type":"control_response","response":{"subtype":"success","request_id":"taskyard-1","response":{"commands":[]}}}"#;
const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","mcp_servers":[{"name":"taskyard","status":"failed"}]}"#;
const READ_GO: &str = r#"{"type":"user","message":{"role":"user","content":"go"},"isReplay":true}"#;
const READ_HURRY: &str = r#"{"type":"user","message":{"role":"user","content":"hurry"},"isReplay":true}"#;
const DONE: &str = r#"{"stop_reason":"end_turn","total_cost_usd":0.5,"modelUsage":{"m":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":3}},"is_error":false,"num_turns":2,"subtype":"success","result":"Done.","type":"result"}"#;
const ABORTED: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","errors":["[ede_diagnostic] x"],"num_turns":1}"#;
const ASKS: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"git push"},"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"allow","destination":"localSettings"}],"blocked_path":"/etc/x"}}"#;

/// A conversation that isn't open yet, with an id that is the same every time.
pub(crate) fn conversation() -> Box<dyn Dialogue> {
    Box::new(Session::new(Some("s".into())))
}

fn feed(session: &mut Session, lines: &[&str]) -> Out {
    let mut out = Out::default();
    for line in lines {
        session.line(line, &mut out);
    }
    out
}

fn tell(session: &mut Session, command: Command) -> Out {
    let mut out = Out::default();
    session.command(command, &mut out);
    out
}

/// A conversation in which the prompt `go` runs.
fn running() -> Session {
    let mut session = Session::new(None);
    session.begin(&mut Out::default());
    feed(&mut session, &[READY]);
    tell(&mut session, Command::Prompt("go".into()));
    feed(&mut session, &[READ_GO]);
    session
}

fn ends(out: &Out) -> Vec<&TurnEnd> {
    out.events.iter().filter_map(|event| if let Event::TurnEnded(end) = event { Some(end) } else { None }).collect()
}

fn items(out: Out) -> Vec<Item> {
    out.events.into_iter().filter_map(|event| if let Event::Item(item) = event { Some(item) } else { None }).collect()
}

fn permission(out: &Out) -> &Permission {
    out.events.iter().find_map(|event| if let Event::Permission(permission) = event { Some(permission) } else { None }).unwrap()
}

fn sent(out: &Out) -> Vec<Value> {
    out.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prompts_wait_for_the_handshake_and_for_each_other() {
    let mut session = Session::new(None);
    session.begin(&mut Out::default());
    assert_eq!(tell(&mut session, Command::Prompt("go".into())).lines.len(), 0);
    tell(&mut session, Command::Prompt("more".into()));
    let out = feed(&mut session, &[READY]);
    assert!(matches!(&out.events[..], [Event::Ready { agent_session_id: Some(id), resumed: false }] if *id == session.id));
    assert_eq!(sent(&out)[0]["message"]["content"], "go");
    let out = feed(&mut session, &[READ_GO, DONE]);
    assert_eq!(ends(&out).len(), 1);
    assert_eq!(sent(&out)[0]["message"]["content"], "more");
}

#[test]
fn a_turn_becomes_items_usage_and_an_end() {
    let mut session = running();
    let said = |content: &str| format!(r#"{{"type":"assistant","message":{{"id":"m1","content":[{content}]}},"parent_tool_use_id":null}}"#);
    let lines = [
        INIT.to_owned(),
        INIT.to_owned(),
        said(r#"{"type":"thinking","thinking":"hm","signature":"x"}"#),
        said(r#"{"type":"text","text":"Writing."}"#),
        said(r#"{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}"#),
        r#"{"type":"user","message":{"content":[{"tool_use_id":"t1","type":"tool_result","content":"a\nb","is_error":false}]}}"#.to_owned(),
        r#"{"type":"system","subtype":"thinking_tokens","estimated_tokens":4}"#.to_owned(),
        r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":5,"retry_delay_ms":1100,"error_status":529,"error":"overloaded"}"#.to_owned(),
        r#"{"type":"future","x":1}"#.to_owned(),
        "not json".to_owned(),
        DONE.to_owned(),
    ];
    let out = feed(&mut session, &lines.each_ref().map(String::as_str));
    assert_eq!(*ends(&out)[0], TurnEnd { stop: TurnStop::Ended, errors: vec![], last_text: "Writing.".into() });
    let usage = Usage { turns: 2, input_tokens: 13, output_tokens: 5, cost_usd: Some(0.5) };
    assert!(out.events.iter().any(|event| matches!(event, Event::Usage(found) if *found == usage)));
    let notice = |level: &str, text: &str| Item::Notice { level: level.into(), text: text.into() };
    assert_eq!(
        items(out),
        [
            notice("warning", "Claude can't use the MCP server taskyard: failed"),
            Item::Thought { message_id: "m1".into(), text: "hm".into() },
            Item::Text { message_id: "m1".into(), text: "Writing.".into() },
            Item::ToolCall { call_id: "t1".into(), title: "ls".into(), kind: "execute".into(), input: json!({"command": "ls"}) },
            Item::ToolUpdate { call_id: "t1".into(), status: "completed".into(), output: Some("a\nb".into()) },
            notice("warning", "The model's API failed (overloaded 529); retry 1 of 5 in 1.1 s"),
            Item::Unknown { raw: json!({"type": "future", "x": 1}) },
            notice("info", "Claude wrote: not json"),
        ]
    );
}

#[test]
fn permissions_are_asked_and_answered_with_the_whole_input() {
    let mut session = running();
    let out = feed(&mut session, &[ASKS]);
    let asked = permission(&out);
    assert_eq!((asked.kind.as_str(), asked.title.as_str(), asked.paths.clone()), ("execute", "git push", vec![PathBuf::from("/etc/x")]));
    let out =
        tell(&mut session, Command::Permission { request_id: "r1".into(), answer: Answer::Allow(Some("allow-for-this-session".into())) });
    let answer = &sent(&out)[0]["response"]["response"];
    assert_eq!((&answer["behavior"], &answer["updatedInput"]), (&json!("allow"), &json!({"command": "git push"})));
    // Nothing may be written into settings files.
    assert_eq!(answer["updatedPermissions"][0]["destination"], "session");
    assert_eq!(tell(&mut session, Command::Permission { request_id: "r1".into(), answer: Answer::Allow(None) }).lines.len(), 0);

    feed(&mut session, &[ASKS]);
    let deny = Answer::Deny { reason: "not today".into(), option_id: None };
    let out = tell(&mut session, Command::Permission { request_id: "r1".into(), answer: deny });
    assert_eq!(sent(&out)[0]["response"]["response"], json!({"behavior": "deny", "message": "not today"}));

    feed(&mut session, &[ASKS]);
    let out = feed(&mut session, &[r#"{"type":"control_cancel_request","request_id":"r1"}"#]);
    assert!(matches!(&out.events[..], [Event::PermissionWithdrawn { request_id }] if request_id == "r1"));
}

#[test]
fn requests_nobody_knows_are_answered_with_an_error() {
    let out = feed(&mut running(), &[r#"{"type":"control_request","request_id":"r2","request":{"subtype":"novel"}}"#]);
    assert_eq!(sent(&out)[0]["response"]["subtype"], "error");
}

#[test]
fn failed_turns_say_why() {
    let result = |rest: &str| format!(r#"{{"type":"result","subtype":"success","is_error":true,"num_turns":1,{rest}}}"#);
    let soon = crate::limits::now().as_second() + 3600;
    let limited = result(&format!(r#""result":"Claude AI usage limit reached|{soon}""#));
    let cases = [
        (result(r#""api_error_status":401,"result":"Invalid API key""#), TurnStop::AuthRequired, None),
        (result(r#""result":"Not logged in · Please run /login""#), TurnStop::AuthRequired, None),
        (result(r#""api_error_status":400,"terminal_reason":"prompt_too_long","result":"Prompt is too long""#), TurnStop::Failed, None),
        (result(r#""api_error_status":529,"result":"API Error: Overloaded""#), TurnStop::Failed, None),
        (result(r#""api_error_status":429,"result":"API Error: Request rejected (429)""#), TurnStop::Failed, Some(None)),
        (limited, TurnStop::Failed, Some(Some(soon))),
        (r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum"]}"#.into(), TurnStop::MaxTurns, None),
        (r#"{"type":"result","subtype":"success","is_error":false,"stop_reason":"refusal"}"#.into(), TurnStop::Refused, None),
        (r#"{"type":"result","subtype":"success","is_error":false,"stop_reason":"max_tokens"}"#.into(), TurnStop::MaxTokens, None),
        (r#"{"type":"result","subtype":"novel_error","is_error":true}"#.into(), TurnStop::Failed, None),
    ];
    for (line, stop, limit) in cases {
        let out = feed(&mut running(), &[&line]);
        let end = ends(&out)[0];
        assert_eq!(end.stop, stop, "{line}");
        assert_eq!(end.errors.is_empty(), !line.contains("\"is_error\":true"), "{line}");
        let found = out.events.iter().find_map(|event| if let Event::Limit(limit) = event { Some(limit.reset_at) } else { None });
        assert_eq!(found.map(|time| time.map(|time| time.as_second())), limit, "{line}");
    }
}

#[test]
fn a_limit_told_beside_the_result_gives_its_end() {
    let mut session = running();
    let told = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1896000000,"rateLimitType":"five_hour"}}"#;
    let failed = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You've hit your limit"}"#;
    let out = feed(&mut session, &[told, failed]);
    let limit = out.events.iter().find_map(|event| if let Event::Limit(limit) = event { Some(limit) } else { None }).unwrap();
    assert_eq!(limit.reset_at.map(|time| time.as_second()), Some(1_896_000_000));
    assert_eq!(ends(&out)[0].stop, TurnStop::Failed);
}

#[test]
fn a_retry_that_succeeds_is_no_limit() {
    let retry =
        r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":5,"retry_delay_ms":5,"error_status":429,"error":"rate_limit"}"#;
    let out = feed(&mut running(), &[retry, DONE]);
    assert!(!out.events.iter().any(|event| matches!(event, Event::Limit(_))));
    assert_eq!(ends(&out)[0].stop, TurnStop::Ended);
}

#[test]
fn cancelling_interrupts_answers_questions_and_leaves_later_prompts() {
    let mut session = running();
    feed(&mut session, &[ASKS]);
    tell(&mut session, Command::Prompt("later".into()));
    let out = tell(&mut session, Command::CancelTurn);
    let lines = sent(&out);
    assert_eq!(lines[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(lines[1]["request"]["subtype"], "interrupt");
    assert!(session.deadline().is_some());
    // Steering isn't taken any more, a new question is answered at once, a second cancel says nothing new.
    assert!(matches!(&tell(&mut session, Command::Steer("hurry".into())).events[..], [Event::SteerRefused { .. }]));
    assert_eq!(sent(&feed(&mut session, &[ASKS]))[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(tell(&mut session, Command::CancelTurn).lines.len(), 0);
    let out = feed(&mut session, &[ABORTED]);
    assert_eq!(*ends(&out)[0], TurnEnd { stop: TurnStop::Cancelled, errors: vec![], last_text: String::new() });
    assert_eq!(sent(&out)[0]["message"]["content"], "later");
    assert_eq!(session.deadline(), None);
}

#[test]
fn a_cancel_before_claude_began_is_said_again() {
    let mut session = running();
    tell(&mut session, Command::CancelTurn);
    assert_eq!(sent(&feed(&mut session, &[INIT]))[0]["request"]["subtype"], "interrupt");
    let mut out = Out::default();
    session.overdue(&mut out);
    assert_eq!(out.fate, Some(Fate::End));
}

#[test]
fn a_prompt_cancelled_before_it_was_sent_ends_too() {
    let mut session = Session::new(None);
    tell(&mut session, Command::Prompt("go".into()));
    assert_eq!(ends(&tell(&mut session, Command::CancelTurn))[0].stop, TurnStop::Cancelled);
    session.begin(&mut Out::default());
    assert_eq!(feed(&mut session, &[READY]).lines.len(), 0);
}

#[test]
fn steering_that_was_read_in_the_turn_gives_one_end() {
    let mut session = running();
    assert_eq!(sent(&tell(&mut session, Command::Steer("hurry".into())))[0]["message"]["content"], "hurry");
    assert_eq!(ends(&feed(&mut session, &[READ_HURRY, DONE])).len(), 1);
    assert_eq!(ends(&feed(&mut session, &[DONE])).len(), 0);
    assert!(matches!(&tell(&mut session, Command::Steer("again".into())).events[..], [Event::SteerRefused { text }] if text == "again"));
}

#[test]
fn steering_that_came_too_late_still_belongs_to_the_prompt() {
    let mut session = running();
    tell(&mut session, Command::Steer("hurry".into()));
    assert_eq!(ends(&feed(&mut session, &[DONE])).len(), 0);
    assert!(session.deadline().is_some());
    assert_eq!(ends(&feed(&mut session, &[INIT, READ_HURRY, DONE])).len(), 1);
}

#[test]
fn steering_that_is_never_read_is_refused_and_the_turn_ends() {
    let mut session = running();
    tell(&mut session, Command::Steer("hurry".into()));
    feed(&mut session, &[DONE]);
    let mut out = Out::default();
    session.overdue(&mut out);
    assert!(matches!(&out.events[..], [Event::SteerRefused { .. }, Event::TurnEnded(TurnEnd { stop: TurnStop::Ended, .. })]));
    assert_eq!(out.fate, None);
}

#[test]
fn a_conversation_that_is_gone_begins_anew() {
    let gone =
        r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: old"]}"#;
    let mut session = Session::new(Some("old".into()));
    session.begin(&mut Out::default());
    let out = feed(&mut session, &[gone]);
    assert_eq!(out.fate, Some(Fate::Restart));
    assert!(!session.resume && session.id != "old");
    session.begin(&mut Out::default());
    assert!(matches!(&feed(&mut session, &[READY]).events[..], [Event::Ready { resumed: false, .. }]));

    let mut session = Session::new(Some("old".into()));
    session.begin(&mut Out::default());
    assert!(matches!(&feed(&mut session, &[READY]).events[..], [Event::Ready { resumed: true, .. }]));
}

#[test]
fn a_failed_handshake_ends_with_its_reason() {
    let mut session = Session::new(None);
    session.begin(&mut Out::default());
    let out = feed(&mut session, &[r#"{"type":"result","subtype":"x","is_error":true,"errors":["Not logged in"]}"#]);
    assert_eq!((ends(&out)[0].stop, out.fate), (TurnStop::AuthRequired, Some(Fate::End)));
}

fn launch(folder: &Path) -> Launch {
    Launch {
        driver: DriverKind::Claude,
        command: vec!["claude".into()],
        cwd: folder.to_owned(),
        writable_dirs: vec![],
        env: Environment::default().with("DISABLE_AUTOUPDATER", "0"),
        marker: "X=1".into(),
        model: Some("haiku".into()),
        mode: Some("bypassPermissions".into()),
        max_turns: Some(7),
        system_prompt: Some("Be brief.".into()),
        mcp_servers: vec![McpServer {
            name: "taskyard".into(),
            url: "http://127.0.0.1:1/mcp".into(),
            headers: vec![("Authorization".into(), "Bearer secret".into())],
            tool_timeout_s: 90,
        }],
        resume: Some(Resume { agent_session_id: "old".into() }),
        raw_log: folder.join("logs/run.raw.log"),
        heard: crate::Heard::default(),
        stderr_log: folder.join("logs/run.err.log"),
        line_cap: 1 << 20,
        start_limit: std::time::Duration::from_secs(5),
    }
}

#[test]
fn arguments_never_bypass_and_never_hold_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let (launch, files) = prepare(launch(folder.path())).unwrap();
    let args = arguments(&launch, &files, &Session::new(Some("old".into()))).join(" ");
    for part in ["--permission-mode default", "--resume old", "--model haiku", "--max-turns 7", "--append-system-prompt Be brief."] {
        assert!(args.contains(part), "{part} in {args}");
    }
    assert!(!args.contains("bypass") && !args.contains("dangerously") && !args.contains("secret"), "{args}");
    let anew = Session::new(None);
    assert!(arguments(&launch, &files, &anew).join(" ").contains(&format!("--session-id {}", anew.id)));
}

#[test]
fn the_configuration_is_private_outside_the_worktree_and_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let (launch, files) = prepare(launch(folder.path())).unwrap();
    let config: Value = serde_json::from_slice(&std::fs::read(&files.mcp).unwrap()).unwrap();
    assert_eq!(config["mcpServers"]["taskyard"]["headers"]["Authorization"], "Bearer secret");
    assert_eq!(std::fs::metadata(&files.mcp).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(launch.env.get("MCP_TOOL_TIMEOUT").unwrap(), "90000");
    assert_eq!(launch.env.get("DISABLE_AUTOUPDATER").unwrap(), "0");
    let (mcp, sockets) = (files.mcp.clone(), files.sockets.clone().unwrap());
    assert!(sockets.is_dir() && launch.env.get("XDG_RUNTIME_DIR").unwrap() == sockets);
    drop(files);
    assert!(!mcp.exists() && !sockets.exists());
}

#[test]
fn a_long_system_prompt_goes_through_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let long = Launch { system_prompt: Some("x".repeat(200 << 10)), ..launch(folder.path()) };
    let (launch, files) = prepare(long).unwrap();
    let args = arguments(&launch, &files, &Session::new(None));
    assert!(args.iter().all(|arg| arg.len() < 1000) && args.contains(&"--append-system-prompt-file".to_owned()));
}
