//! `taskyard mcp`: a client that wants a command speaks to the server through it.

use crate::support::{PATIENCE, PROGRAM, Server, Setup, Yard, eventually};
use serde_json::{Value, json};
use taskyard_process::{Child, Spawn, spawn, tree};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

/// A running bridge.
struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl Bridge {
    fn start(server: &Server, args: &[&str]) -> Self {
        let args = std::iter::once("mcp").chain(args.iter().copied()).map(Into::into).collect();
        let what = Spawn { program: PROGRAM.into(), args, cwd: server.folder().into(), env: server.env(), stdin: true, marker: None };
        let mut child = spawn(what).unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout).lines(), asked: 0 }
    }

    async fn send(&mut self, message: &Value) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request; the answer with its id.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("the bridge closed its output");
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?} is no JSON: {error}"));
                if message["id"] == id {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.expect("no answer from the bridge")
    }

    /// Waits for a notification.
    async fn hear(&mut self, method: &str) {
        let heard = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("the bridge closed its output");
                if serde_json::from_str::<Value>(&line).unwrap()["method"] == method {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.expect("the bridge says nothing");
    }

    async fn hello(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } });
        let hello = self.ask("initialize", params).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        hello
    }

    /// Calls a tool; its structured content.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer["result"]["structuredContent"].clone()
    }

    /// Closes its input; its exit code.
    async fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the bridge stays").unwrap().code
    }
}

#[tokio::test]
async fn a_session_outlives_the_servers_restart() {
    let mut yard = Yard::new().await;
    let mut bridge = Bridge::start(&yard.server, &[]);
    let hello = bridge.hello().await;
    assert_eq!(hello["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"), "{hello}");
    let tools = bridge.ask("tools/list", json!({})).await;
    assert!(tools["result"]["tools"].as_array().unwrap().len() > 30, "{tools}");
    let added = bridge.call("add_task", json!({ "list_id": yard.list, "title": "By the bridge" })).await;
    assert_eq!(added["added"], true, "{added}");
    let before = yard.server.url().to_owned();
    yard.server.restart().await;
    assert_ne!(yard.server.url(), before, "the restart took the same port, which proves less");
    let shown = bridge.call("get_task", json!({ "task_id": added["task_id"] })).await;
    assert_eq!(shown["title"], "By the bridge", "{shown}");
    yard.server.crash().await;
    let shown = bridge.call("get_task", json!({ "task_id": added["task_id"] })).await;
    assert_eq!(shown["title"], "By the bridge", "{shown}");
    assert_eq!(bridge.end().await, Some(0));
}

/// A client that closes its end right after its last request still has it done, and its answer.
#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let yard = Yard::new().await;
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "pipe", "version": "1" } });
    let mut lines = vec![
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    for id in 2..12 {
        let add = json!({ "name": "add_task", "arguments": { "list_id": yard.list, "title": format!("Task {id}") } });
        lines.push(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": add }));
    }
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let told = yard.server.cli_with(&["mcp"], &input).await;
    let mut answered: Vec<i64> =
        told.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).filter_map(|said| said["id"].as_i64()).collect();
    answered.sort_unstable();
    assert_eq!((told.code, answered), (0, (1..12).collect::<Vec<i64>>()), "{told:?}");
    assert_eq!(yard.server.call("list_tasks", json!({})).await["tasks"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn modes_and_toolsets_narrow_the_list() {
    let yard = Yard::new().await;
    let names = async |args: &[&str]| {
        let mut bridge = Bridge::start(&yard.server, args);
        bridge.hello().await;
        let answer = bridge.ask("tools/list", json!({})).await;
        let names: Vec<String> = answer["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().into()).collect();
        names
    };
    let core = names(&["--mode", "core"]).await;
    assert!(core.contains(&"review_task".to_owned()) && !core.contains(&"create_list".to_owned()), "{core:?}");
    let reading = names(&["--readonly"]).await;
    assert!(reading.contains(&"get_task".to_owned()) && !reading.contains(&"add_task".to_owned()), "{reading:?}");
    let set = names(&["--toolsets", "runs"]).await;
    assert!(set.contains(&"list_runs".to_owned()) && !set.contains(&"get_task".to_owned()), "{set:?}");
}

#[tokio::test]
async fn where_no_server_runs_one_is_started_and_stays() {
    let server = Setup::new().config("listen = \"127.0.0.1:0\"\n").unstarted();
    let refused = Bridge::start(&server, &["--no-start"]);
    assert_eq!(refused.end().await, Some(9));
    // Two at once: one of them starts it, the other finds it.
    let (mut one, mut two) = (Bridge::start(&server, &[]), Bridge::start(&server, &[]));
    let (first, second) = tokio::join!(one.hello(), two.hello());
    assert!(first["result"].is_object() && second["result"].is_object(), "{first} {second}");
    let lists = one.call("list_task_lists", json!({})).await;
    assert!(lists["lists"].is_array(), "{lists}");
    assert_eq!((one.end().await, two.end().await), (Some(0), Some(0)));
    let told = server.cli(&["queue"]).await;
    assert_eq!(told.code, 0, "the started server is gone: {told:?}");
    let file: Value = serde_json::from_slice(&std::fs::read(server.data().join("server.json")).unwrap()).unwrap();
    let pid = i32::try_from(file["pid"].as_i64().unwrap()).unwrap();
    tree::signal_group(pid, tree::Signal::Term);
    eventually("the started server to end", async || server.processes().is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_client_on_a_pipe_hears_when_its_tools_change_and_after_a_restart() {
    let mut yard = Yard::new().await;
    let mut bridge = Bridge::start(&yard.server, &[]);
    bridge.hello().await;
    // The first changes may come before the server is listened to: one after the other until one is heard of.
    let changes = async {
        for n in 0.. {
            let set = yard.server.cli(&["settings", "set", "tool_suffix", &format!("_{n}")]).await;
            assert_eq!(set.code, 0, "{set:?}");
        }
    };
    tokio::select! {
        () = bridge.hear("notifications/tools/list_changed") => {}
        () = changes => {}
    }
    yard.server.restart().await;
    bridge.hear("notifications/tools/list_changed").await;
    assert_eq!(bridge.end().await, Some(0));
}

#[tokio::test]
async fn bad_lines_are_answered_and_harm_nothing() {
    let yard = Yard::new().await;
    let mut bridge = Bridge::start(&yard.server, &[]);
    bridge.hello().await;
    bridge.stdin.as_mut().unwrap().write_all(b"this is no JSON\n\n").await.unwrap();
    let answer = bridge.ask("tools/call", json!({ "name": "get_task", "arguments": { "task_id": "TY-9" } })).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "NOT_FOUND", "{answer}");
    let unknown = bridge.ask("tools/call", json!({ "name": "no_such_tool", "arguments": {} })).await;
    assert!(unknown.to_string().contains("no_such_tool"), "{unknown}");
}

/// A request of the revision without sessions.
fn sessionless(id: u64, tool: &str, arguments: Value) -> Value {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn a_call_without_a_session_is_called_off_at_the_server_too() {
    let setup = Setup::new();
    let log = setup.folder().join("calls");
    let yard = Yard::with(setup.args(&["--listen", "127.0.0.1:0", "--mcp-log", log.to_str().unwrap()])).await;
    let steps = json!([{ "wait_file": yard.gate("never") }]);
    let task = yard.queue("Held", steps).await;
    let mut bridge = Bridge::start(&yard.server, &[]);
    bridge.send(&sessionless(71, "wait_for_task_change", json!({ "task_ids": [task], "timeout_seconds": 300 }))).await;
    // An answer to what was sent later says that the wait has begun.
    bridge.send(&sessionless(72, "get_task", json!({ "task_id": task }))).await;
    let line = tokio::time::timeout(PATIENCE, bridge.lines.next_line()).await.expect("no answer").unwrap().unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]["id"]), (&json!(72), &json!(task)), "{answer}");
    bridge.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 71 } })).await;
    let ended = eventually("the wait to end at the server", async || {
        let calls = std::fs::read_to_string(&log).unwrap_or_default();
        calls.lines().find(|line| line.contains("wait_for_task_change")).map(str::to_owned)
    })
    .await;
    assert!(ended.contains("UNAVAILABLE"), "{ended}");
    // Nothing more is said about it.
    bridge.send(&sessionless(73, "get_task", json!({ "task_id": task }))).await;
    let line = tokio::time::timeout(PATIENCE, bridge.lines.next_line()).await.expect("no answer").unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], 73, "{line}");
    assert_eq!(bridge.end().await, Some(0));
}
