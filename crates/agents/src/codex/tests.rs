//! Lines as Codex's app-server writes them, against the conversation's state; what a thread is opened with.

use super::session::Session;
use super::*;
use crate::contract::{Answer, Command, Event, Permission, Resume, TurnEnd, TurnStop};
use crate::dialogue::{Dialogue, Fate, Out};
use pretty_assertions::assert_eq;
use std::path::Path;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::{Item, PlanEntry};
use taskyard_process::Environment;

/// A conversation that isn't open yet.
pub(crate) fn conversation() -> Box<dyn Dialogue> {
    Box::new(Session::new(Settings::from(launch())))
}

fn launch() -> Launch {
    Launch {
        driver: DriverKind::Codex,
        command: vec!["codex".into()],
        cwd: "/wt".into(),
        writable_dirs: vec!["/repo/.git".into(), "/repo/.git/worktrees/wt".into()],
        env: Environment::default(),
        marker: "X=1".into(),
        model: Some("gpt-5.5".into()),
        mode: None,
        max_turns: None,
        system_prompt: Some("Be brief.".into()),
        mcp_servers: ["taskyard", "other"]
            .map(|name| McpServer {
                name: name.into(),
                url: "http://127.0.0.1:1/mcp".into(),
                headers: vec![("Authorization".into(), "Bearer secret".into())],
                tool_timeout_s: 90,
            })
            .into(),
        resume: None,
        raw_log: "/logs/raw".into(),
        heard: crate::Heard::default(),
        stderr_log: "/logs/err".into(),
        line_cap: 1 << 20,
        start_limit: std::time::Duration::from_secs(5),
    }
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

fn sent(out: &Out) -> Vec<Value> {
    out.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const INITIALIZED: &str = r#"{"id":1,"result":{"userAgent":"x"}}"#;
const OPENED: &str = r#"{"id":2,"result":{"thread":{"id":"th"}}}"#;
const STARTING: &str = r#"{"id":3,"result":{"turn":{"id":"tu","status":"inProgress"}}}"#;
const STARTED: &str = r#"{"method":"turn/started","params":{"threadId":"th","turn":{"id":"tu"}}}"#;

/// A conversation that is open.
fn open() -> Session {
    let mut session = Session::new(Settings::from(launch()));
    session.begin(&mut Out::default());
    feed(&mut session, &[INITIALIZED, OPENED]);
    session
}

/// A conversation in which the prompt `go` runs.
fn running() -> Session {
    let mut session = open();
    tell(&mut session, Command::Prompt("go".into()));
    feed(&mut session, &[STARTING, STARTED]);
    session
}

fn completed(status: &str, error: &str) -> String {
    format!(r#"{{"method":"turn/completed","params":{{"threadId":"th","turn":{{"id":"tu","status":"{status}","error":{error}}}}}}}"#)
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

#[test]
fn a_thread_is_opened_with_git_folders_and_our_server() {
    let mut session = Session::new(Settings::from(launch()));
    let mut out = Out::default();
    session.begin(&mut out);
    assert_eq!(sent(&out)[0]["method"], "initialize");
    let lines = sent(&feed(&mut session, &[INITIALIZED]));
    assert_eq!((&lines[0]["method"], &lines[1]["method"]), (&json!("initialized"), &json!("thread/start")));
    let params = &lines[1]["params"];
    assert_eq!((&params["sandbox"], &params["approvalPolicy"]), (&json!("workspace-write"), &json!("on-request")));
    let config = &params["config"];
    assert_eq!(config["sandbox_workspace_write"]["writable_roots"], json!(["/repo/.git", "/repo/.git/worktrees/wt"]));
    let own = &config["mcp_servers"]["taskyard"];
    assert_eq!((&own["default_tools_approval_mode"], &own["tool_timeout_sec"]), (&json!("approve"), &json!(90)));
    assert_eq!(own["http_headers"]["Authorization"], "Bearer secret");
    assert_eq!(config["mcp_servers"]["other"]["default_tools_approval_mode"], Value::Null);
    let out = feed(&mut session, &[OPENED]);
    assert!(matches!(&out.events[..], [Event::Ready { agent_session_id: Some(id), resumed: false }] if id == "th"));
}

#[test]
fn modes_name_sandbox_and_approval() {
    for (mode, sandbox, approval) in [
        ("untrusted", "workspace-write", "untrusted"),
        ("read-only", "read-only", "on-request"),
        ("danger-full-access never", "danger-full-access", "never"),
        ("novel", "novel", "on-request"),
    ] {
        let settings = Settings::from(Launch { mode: Some(mode.into()), ..launch() });
        assert_eq!((settings.sandbox.as_str(), settings.approval.as_str()), (sandbox, approval));
    }
}

#[test]
fn a_thread_that_is_gone_begins_anew() {
    let resume = Some(Resume { agent_session_id: "old".into() });
    let mut session = Session::new(Settings::from(Launch { resume: resume.clone(), ..launch() }));
    session.begin(&mut Out::default());
    assert_eq!(sent(&feed(&mut session, &[INITIALIZED]))[1]["params"]["threadId"], "old");
    let out = feed(&mut session, &[r#"{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#]);
    assert_eq!(sent(&out)[0]["method"], "thread/start");
    let out = feed(&mut session, &[r#"{"id":3,"result":{"thread":{"id":"new"}}}"#]);
    assert!(matches!(&out.events[..], [Event::Ready { agent_session_id: Some(id), resumed: false }] if id == "new"));

    let mut session = Session::new(Settings::from(Launch { resume, ..launch() }));
    session.begin(&mut Out::default());
    let out = feed(&mut session, &[INITIALIZED, r#"{"id":2,"result":{"thread":{"id":"old"}}}"#]);
    assert!(matches!(&out.events[..], [Event::Ready { resumed: true, .. }]));
}

#[test]
fn a_failed_handshake_ends_with_its_reason() {
    let mut session = Session::new(Settings::from(launch()));
    session.begin(&mut Out::default());
    let out = feed(&mut session, &[INITIALIZED, r#"{"id":2,"error":{"code":-32600,"message":"unknown sandbox novel"}}"#]);
    assert_eq!((ends(&out)[0].stop, out.fate), (TurnStop::Failed, Some(Fate::End)));
    assert_eq!(ends(&out)[0].errors, ["unknown sandbox novel"]);
}

#[test]
fn a_turn_becomes_items_usage_and_an_end() {
    let mut session = running();
    let item = |what: &str, item: &str| format!(r#"{{"method":"item/{what}","params":{{"threadId":"th","turnId":"tu","item":{item}}}}}"#);
    let command = r#""type":"commandExecution","id":"c1","command":"/bin/bash -lc 'git status'","cwd":"/wt""#;
    let lines = [
        r#"{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"th","itemId":"r1","delta":"hm"}}"#.to_owned(),
        item("completed", r#"{"type":"reasoning","id":"r1","summary":["hm"],"content":[]}"#),
        item("started", &format!(r#"{{{command},"status":"inProgress"}}"#)),
        item("completed", &format!(r#"{{{command},"status":"completed","aggregatedOutput":"x\n","exitCode":1}}"#)),
        r#"{"method":"item/agentMessage/delta","params":{"threadId":"th","itemId":"m1","delta":"Do"}}"#.to_owned(),
        r#"{"method":"item/agentMessage/delta","params":{"threadId":"th","itemId":"m1","delta":"ne."}}"#.to_owned(),
        item("completed", r#"{"type":"agentMessage","id":"m1","text":"Done."}"#),
        r#"{"method":"turn/plan/updated","params":{"threadId":"th","plan":[{"step":"a","status":"inProgress"}]}}"#.to_owned(),
        r#"{"method":"error","params":{"threadId":"th","willRetry":true,"error":{"message":"Reconnecting... 1/4","additionalDetails":"429"}}}"#.to_owned(),
        r#"{"method":"account/updated","params":{}}"#.to_owned(),
        r#"{"method":"novel/thing","params":{}}"#.to_owned(),
        "\u{1b}[2mgarbage".to_owned(),
        completed("completed", "null"),
    ];
    let out = feed(&mut session, &lines.each_ref().map(String::as_str));
    assert_eq!(*ends(&out)[0], TurnEnd { stop: TurnStop::Ended, errors: vec![], last_text: "Done.".into() });
    let text = |text: &str| Item::Text { message_id: "m1".into(), text: text.into() };
    let notice = |level: &str, text: &str| Item::Notice { level: level.into(), text: text.into() };
    assert_eq!(
        items(out),
        [
            Item::Thought { message_id: "r1".into(), text: "hm".into() },
            Item::ToolCall {
                call_id: "c1".into(),
                title: "git status".into(),
                kind: "execute".into(),
                input: json!({"command": "git status", "cwd": "/wt"}),
            },
            Item::ToolUpdate { call_id: "c1".into(), status: "failed".into(), output: Some("x\n\n(exit code 1)".into()) },
            text("Do"),
            text("ne."),
            Item::Plan { entries: vec![PlanEntry { text: "a".into(), status: "in_progress".into() }] },
            notice("warning", "Reconnecting... 1/4: 429"),
            Item::Unknown { raw: json!({"method": "novel/thing", "params": {}}) },
            notice("info", "Codex wrote: \u{1b}[2mgarbage"),
        ]
    );
}

#[test]
fn usage_counts_from_where_this_process_began() {
    let usage = |turn: &str, total: i64, last: i64| {
        format!(
            r#"{{"method":"thread/tokenUsage/updated","params":{{"threadId":"th","turnId":"{turn}","tokenUsage":{{"total":{{"inputTokens":{total},"outputTokens":{total}}},"last":{{"inputTokens":{last},"outputTokens":{last}}}}}}}}}"#
        )
    };
    let figures = |out: Out| -> Vec<(i64, i64)> {
        let of = |event| if let Event::Usage(usage) = event { Some((usage.turns, usage.input_tokens)) } else { None };
        out.events.into_iter().filter_map(of).collect()
    };
    assert_eq!(figures(feed(&mut running(), &[&usage("tu", 100, 100), &usage("tu", 250, 150)])), [(1, 100), (2, 250)]);

    let resume = Some(Resume { agent_session_id: "th".into() });
    let mut session = Session::new(Settings::from(Launch { resume, ..launch() }));
    session.begin(&mut Out::default());
    feed(&mut session, &[INITIALIZED, OPENED]);
    let told_again = feed(&mut session, &[&usage("earlier", 1000, 100)]);
    assert_eq!(figures(told_again), []);
    tell(&mut session, Command::Prompt("go".into()));
    assert_eq!(figures(feed(&mut session, &[STARTING, STARTED, &usage("tu", 1070, 70)])), [(1, 70)]);
}

#[test]
fn permissions_are_asked_and_answered_in_their_own_form() {
    let mut session = running();
    let change = r#"{"method":"item/started","params":{"threadId":"th","item":{"type":"fileChange","id":"f1","changes":[{"path":"/wt/a","kind":{"type":"add"},"diff":"x"}]}}}"#;
    let patch = r#"{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"th","itemId":"f1","reason":null}}"#;
    let command = r#"{"method":"item/commandExecution/requestApproval","id":"b","params":{"threadId":"th","itemId":"c1","command":"/bin/bash -lc 'git push'","cwd":"/wt","reason":"network"}}"#;
    let tool = r#"{"method":"mcpServer/elicitation/request","id":2,"params":{"threadId":"th","serverName":"gh","mode":"form","message":"Allow?","_meta":{"tool_name":"search","tool_params":{"q":1}},"requestedSchema":{"properties":{}}}}"#;
    let more = r#"{"method":"item/permissions/requestApproval","id":3,"params":{"threadId":"th","itemId":"p","reason":"tests","permissions":{"fileSystem":{"write":["/tmp/x"]}}}}"#;
    let cases = [
        (patch, "edit", "apply_patch", vec!["/wt/a"], json!({"decision": "accept"}), json!({"decision": "decline"})),
        (command, "execute", "shell", vec!["/wt"], json!({"decision": "accept"}), json!({"decision": "decline"})),
        (tool, "mcp", "mcp__gh__search", vec![], json!({"action": "accept", "content": {}}), json!({"action": "decline"})),
        (
            more,
            "edit",
            "request_permissions",
            vec!["/tmp/x"],
            json!({"permissions": {"fileSystem": {"write": ["/tmp/x"]}}, "scope": "turn"}),
            json!({"permissions": {}, "scope": "turn"}),
        ),
    ];
    for (line, kind, tool, paths, yes, no) in cases {
        for (answer, result) in [(Answer::Allow(None), yes), (Answer::Deny { reason: "no".into(), option_id: None }, no)] {
            let out = feed(&mut session, &[change, line]);
            let asked = permission(&out);
            assert_eq!((asked.kind.as_str(), asked.tool.as_deref()), (kind, Some(tool)));
            assert_eq!(asked.paths.iter().map(|path| path.as_path()).collect::<Vec<_>>(), paths.iter().map(Path::new).collect::<Vec<_>>());
            let request_id = asked.request_id.clone();
            let lines = sent(&tell(&mut session, Command::Permission { request_id, answer }));
            assert_eq!(lines[0]["result"], result);
            assert_eq!(lines[0]["id"], serde_json::from_str::<Value>(line).unwrap()["id"]);
        }
    }
    let out = feed(&mut session, &[command, r#"{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":"b"}}"#]);
    assert!(matches!(&out.events[..], [Event::Permission(_), Event::PermissionWithdrawn { request_id }] if request_id == "b"));
}

#[test]
fn questions_that_cannot_be_answered_do_not_hang() {
    let form = r#"{"method":"mcpServer/elicitation/request","id":1,"params":{"serverName":"gh","mode":"form","message":"Token?","requestedSchema":{"properties":{"token":{}}}}}"#;
    let ask = r#"{"method":"item/tool/requestUserInput","id":2,"params":{"questions":[]}}"#;
    let novel = r#"{"method":"novel/request","id":3,"params":{}}"#;
    let lines = sent(&feed(&mut running(), &[form, ask, novel]));
    assert_eq!(lines[0]["result"]["action"], "decline");
    assert_eq!(lines[1]["result"], json!({"answers": {}}));
    assert_eq!(lines[2]["error"]["code"], -32601);
}

#[test]
fn failed_turns_say_why() {
    let cases = [
        (r#"{"message":"m","codexErrorInfo":"contextWindowExceeded"}"#, TurnStop::Failed, false),
        (r#"{"message":"m","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}"#, TurnStop::AuthRequired, false),
        (r#"{"message":"m","codexErrorInfo":"unauthorized"}"#, TurnStop::AuthRequired, false),
        (
            r#"{"message":"You've hit your usage limit. Try again in 2 hours.","codexErrorInfo":"usageLimitExceeded"}"#,
            TurnStop::Failed,
            true,
        ),
        (r#"{"message":"m","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}"#, TurnStop::Failed, true),
        (r#"{"message":"Incomplete response returned, reason: max_output_tokens","codexErrorInfo":"other"}"#, TurnStop::MaxTokens, false),
        (r#"{"message":"m","codexErrorInfo":"cyberPolicy"}"#, TurnStop::Refused, false),
        (r#"{"message":"m","codexErrorInfo":"serverOverloaded"}"#, TurnStop::Failed, false),
        ("null", TurnStop::Failed, false),
    ];
    for (error, stop, limit) in cases {
        let out = feed(&mut running(), &[&completed("failed", error)]);
        assert_eq!(ends(&out)[0].stop, stop, "{error}");
        // The output limit is no error, whatever Codex calls it.
        assert_eq!(ends(&out)[0].errors.is_empty(), stop == TurnStop::MaxTokens || error == "null", "{error}");
        assert_eq!(out.events.iter().any(|event| matches!(event, Event::Limit(_))), limit, "{error}");
    }
}

#[test]
fn a_limit_without_words_on_its_end_takes_it_from_the_full_window() {
    let windows = r#"{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":100,"resetsAt":1896000000},"secondary":{"usedPercent":20,"resetsAt":1999000000}}}}"#;
    let error = r#"{"message":"You've hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}"#;
    let out = feed(&mut running(), &[windows, &completed("failed", error)]);
    let limit = out.events.iter().find_map(|event| if let Event::Limit(limit) = event { Some(limit) } else { None }).unwrap();
    assert_eq!(limit.reset_at.map(|time| time.as_second()), Some(1_896_000_000));
}

#[test]
fn cancelling_waits_for_the_turn_to_run_and_is_said_again() {
    let mut session = open();
    tell(&mut session, Command::Prompt("go".into()));
    tell(&mut session, Command::Steer("hurry".into()));
    let out = tell(&mut session, Command::CancelTurn);
    assert!(matches!(&out.events[..], [Event::SteerRefused { .. }]) && out.lines.is_empty());
    let interrupts =
        |out: Out| sent(&out).iter().filter(|line| line["method"] == "turn/interrupt" && line["params"]["turnId"] == "tu").count();
    assert_eq!(interrupts(feed(&mut session, &[STARTING])), 0);
    assert_eq!(interrupts(feed(&mut session, &[STARTED])), 1);
    assert_eq!(
        interrupts(feed(&mut session, &[r#"{"method":"item/started","params":{"threadId":"th","item":{"type":"reasoning","id":"r"}}}"#])),
        1
    );
    assert!(session.deadline().is_some());
    let out = feed(&mut session, &[&completed("interrupted", "null")]);
    assert_eq!(ends(&out)[0].stop, TurnStop::Cancelled);
    assert_eq!(session.deadline(), None);
}

#[test]
fn cancelling_answers_open_questions() {
    let mut session = running();
    let asks =
        r#"{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"th","itemId":"c1","command":"ls","cwd":"/wt"}}"#;
    feed(&mut session, &[asks]);
    let lines = sent(&tell(&mut session, Command::CancelTurn));
    assert_eq!((&lines[0]["id"], &lines[0]["result"]["decision"]), (&json!(7), &json!("cancel")));
    assert_eq!(lines[1]["method"], "turn/interrupt");
    assert_eq!(sent(&feed(&mut session, &[asks]))[0]["result"]["decision"], "cancel");
}

#[test]
fn steering_goes_into_the_running_turn_or_comes_back() {
    let mut session = open();
    assert!(matches!(&tell(&mut session, Command::Steer("early".into())).events[..], [Event::SteerRefused { .. }]));
    tell(&mut session, Command::Prompt("go".into()));
    assert!(tell(&mut session, Command::Steer("hurry".into())).lines.is_empty());
    let lines = sent(&feed(&mut session, &[STARTING]));
    assert_eq!((&lines[0]["method"], &lines[0]["params"]["expectedTurnId"]), (&json!("turn/steer"), &json!("tu")));
    let out = feed(&mut session, &[r#"{"id":4,"error":{"message":"no active turn"}}"#]);
    assert!(matches!(&out.events[..], [Event::SteerRefused { text }] if text == "hurry"));
}

#[test]
fn turns_of_other_threads_and_late_ends_end_nothing() {
    let mut session = running();
    let other = r#"{"method":"turn/completed","params":{"threadId":"sub","turn":{"id":"x","status":"completed"}}}"#;
    let late = r#"{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"earlier","status":"interrupted"}}}"#;
    assert_eq!(ends(&feed(&mut session, &[other, late])).len(), 0);
    tell(&mut session, Command::Prompt("more".into()));
    let out = feed(&mut session, &[&completed("completed", "null")]);
    assert_eq!((ends(&out).len(), &sent(&out)[0]["method"]), (1, &json!("turn/start")));
}

#[test]
fn a_turn_that_cannot_begin_ends() {
    let mut session = open();
    tell(&mut session, Command::Prompt("go".into()));
    let out = feed(&mut session, &[r#"{"id":3,"error":{"message":"thread is busy"}}"#]);
    assert_eq!(*ends(&out)[0], TurnEnd { stop: TurnStop::Failed, errors: vec!["thread is busy".into()], last_text: String::new() });
}
