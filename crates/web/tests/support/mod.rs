//! A server in this process with a scripted backend, and a raw HTTP client.
#![allow(dead_code, reason = "each test file uses its part")]

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use taskyard_domain::{Error, Result};
use taskyard_mcp::transport::{SessionStore, Timing};
use taskyard_mcp::{Backend, CallContext, Dispatcher, Identity};
use taskyard_web::guard::Guard;
use taskyard_web::{App, Readiness};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub const RUN_TOKEN: &str = "ty_run";
/// A task that every call waits for.
pub const SLOW: &str = "TY-9";

/// What a call did, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Trace {
    Called(String, Value),
    Finished(String),
    Dropped(String),
}

/// A backend whose long calls, and those about [`SLOW`], wait for `release`.
pub struct Script {
    pub traces: mpsc::UnboundedSender<Trace>,
    pub release: Notify,
    pub suffix: watch::Sender<String>,
}

struct Watch<'a>(&'a Script, String, bool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let end = if self.2 { Trace::Finished(self.1.clone()) } else { Trace::Dropped(self.1.clone()) };
        let _ = self.0.traces.send(end);
    }
}

#[async_trait]
impl Backend for Script {
    async fn identify(&self, token: Option<&str>) -> Result<Identity> {
        match token {
            None => Ok(Identity::Person),
            Some(RUN_TOKEN) => Ok(Identity::Run),
            Some(_) => Err(Error::forbidden("the token isn't that of an open run")),
        }
    }

    async fn call(&self, tool: &str, arguments: Map<String, Value>, context: &CallContext) -> Result<Value> {
        self.identify(context.token.as_deref()).await?;
        let _ = self.traces.send(Trace::Called(tool.to_owned(), Value::Object(arguments.clone())));
        let mut watch = Watch(self, tool.to_owned(), false);
        let is_slow = arguments.values().any(|value| value == SLOW);
        if matches!(tool, "wait_for_task_change" | "merge_task") || is_slow {
            self.release.notified().await;
        }
        watch.2 = true;
        match arguments.get("task_id").and_then(Value::as_str) {
            Some("TY-404") => Err(Error::not_found("task", "TY-404").with_field("task_id").with_hint("task_id is a UUID or TY-42")),
            Some("TY-409") => Err(Error::conflict("it conflicts").with_details(json!({ "files": ["a"] }))),
            _ => Ok(json!({ "task": { "title": "t" }, "arguments": arguments })),
        }
    }

    async fn operate(&self, operation: &str, _arguments: Map<String, Value>, _context: &CallContext) -> Result<Value> {
        match operation {
            "add_repository" => Ok(json!({ "added": true })),
            other => Err(Error::not_found("operation", other)),
        }
    }

    async fn suffix(&self) -> String {
        self.suffix.borrow().clone()
    }

    async fn suffix_after(&self, known: &str) -> String {
        let mut changes = self.suffix.subscribe();
        changes.wait_for(|suffix| suffix != known).await.unwrap().clone()
    }
}

/// A session table in memory.
#[derive(Default)]
pub struct Table(Mutex<HashMap<String, Value>>);

#[async_trait]
impl SessionStore for Table {
    async fn load(&self, id: &str) -> Result<Option<Value>> {
        Ok(self.0.lock().unwrap().get(id).cloned())
    }
    async fn store(&self, id: &str, state: Value) -> Result<()> {
        self.0.lock().unwrap().insert(id.to_owned(), state);
        Ok(())
    }
    async fn delete(&self, id: &str) -> Result<()> {
        self.0.lock().unwrap().remove(id);
        Ok(())
    }
}

/// A running server.
pub struct Server {
    pub addr: SocketAddr,
    pub script: Arc<Script>,
    pub traces: mpsc::UnboundedReceiver<Trace>,
    pub shutdown: CancellationToken,
    pub ended: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Arc::new(Table::default()), "", |dispatcher| dispatcher).await
    }

    pub async fn with(sessions: Arc<Table>, suffix: &'static str, adjust: impl FnOnce(Dispatcher) -> Dispatcher) -> Self {
        let (sender, traces) = mpsc::unbounded_channel();
        let script = Arc::new(Script { traces: sender, release: Notify::new(), suffix: watch::Sender::new(suffix.to_owned()) });
        let (addr, shutdown, ended) = serve(adjust(Dispatcher::new(script.clone())), sessions).await;
        Self { addr, script, traces, shutdown, ended }
    }

    pub async fn stop(self) {
        self.shutdown.cancel();
        self.ended.await.unwrap();
    }

    /// The next thing that a call did.
    pub async fn trace(&mut self) -> Trace {
        self.traces.recv().await.unwrap()
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: Request) -> Reply {
        self.open(request).await.finish().await
    }

    /// Sends a request and leaves the answer to be read.
    pub async fn open(&self, request: Request) -> Open {
        open(self.addr, request).await
    }

    /// A POST of `message` to `/mcp` with `headers`.
    pub async fn mcp(&self, headers: &[(&str, &str)], message: Value) -> Reply {
        self.send(Request::mcp(headers, &message)).await
    }

    /// Opens a connection of the 2025-11-25 revision at `path`; gives its session id.
    pub async fn initialize(&self, path: &str) -> String {
        let reply = self.send(Request::mcp(&[], &initialize()).at(path)).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let id = reply.headers["mcp-session-id"].clone();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send(Request::mcp(&[("mcp-session-id", &id)], &done).at(path)).await.status, 202);
        id
    }
}

/// Serves on a port of its own: where, what stops it, and when it has stopped.
pub async fn serve(
    dispatcher: Dispatcher,
    sessions: Arc<dyn SessionStore>,
) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let shutdown = CancellationToken::new();
    let readiness = Readiness::default();
    readiness.set();
    let guard = Guard::new(&["yard.example".into()], &["https://front.example".into()]).unwrap();
    let timing = Timing { early: Duration::from_millis(30), progress: Duration::from_millis(30), ..Timing::default() };
    let router = taskyard_web::router(App { dispatcher, sessions, readiness, guard, timing, shutdown: shutdown.clone() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let token = shutdown.clone();
    let ended = tokio::spawn(async move { taskyard_web::serve(listener, router, token, Duration::from_secs(30)).await.unwrap() });
    (addr, shutdown, ended)
}

/// Sends a request to `addr` and leaves the answer to be read.
pub async fn open(addr: SocketAddr, request: Request) -> Open {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.bytes(addr).as_bytes()).await.unwrap();
    Open { stream, read: Vec::new() }
}

pub fn initialize() -> Value {
    request("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } }))
}

pub fn request(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

pub fn call(tool: &str, arguments: Value) -> Value {
    request("tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// `message` as the revision of 2026-07-28 sends it, with its headers.
pub fn modern(mut message: Value) -> Request {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let given = message["params"]["_meta"].take();
    message["params"]["_meta"] = meta;
    for (key, value) in given.as_object().into_iter().flatten() {
        message["params"]["_meta"][key] = value.clone();
    }
    let method = message["method"].as_str().unwrap().to_owned();
    let mut headers = vec![("mcp-protocol-version".to_owned(), "2026-07-28".to_owned()), ("mcp-method".to_owned(), method)];
    if let Some(name) = message["params"]["name"].as_str() {
        headers.push(("mcp-name".to_owned(), name.to_owned()));
    }
    let mut request = Request::mcp(&[], &message);
    request.headers.extend(headers);
    request
}

/// A request to send.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.into(), path: path.into(), headers: Vec::new(), body: String::new() }
    }
    pub fn mcp(headers: &[(&str, &str)], message: &Value) -> Self {
        let mut request = Self::new("POST", "/mcp").with("content-type", "application/json");
        request = request.with("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.with(name, value);
        }
        request.body = message.to_string();
        request
    }
    /// The same with one header set.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }
    pub fn at(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }
    pub fn body(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }
    fn bytes(&self, addr: SocketAddr) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", self.method, self.path, self.body.len());
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("host: {addr}\r\n");
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        format!("{text}\r\n{}", self.body)
    }
}

/// An answer that is being read.
pub struct Open {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Open {
    /// Reads until the bytes so far contain `text`; gives all of them.
    pub async fn until(&mut self, text: &str) -> String {
        loop {
            let so_far = String::from_utf8_lossy(&self.read).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            let mut buffer = [0; 4096];
            let count = self.stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the answer ended without {text:?}: {so_far}");
            self.read.extend_from_slice(&buffer[..count]);
        }
    }

    /// Reads to the end.
    pub async fn finish(mut self) -> Reply {
        self.stream.read_to_end(&mut self.read).await.unwrap();
        Reply::parse(&self.read)
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: HashMap<String, String> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let chunked = headers.get("transfer-encoding").is_some_and(|value| value == "chunked");
        let body = if chunked { unchunk(body) } else { body.to_owned() };
        Self { status, headers, body }
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The last JSON-RPC message, whether the body is JSON or an event stream.
    pub fn message(&self) -> Value {
        let mut data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.next_back().map_or_else(|| self.json(), |data| serde_json::from_str(data).unwrap())
    }

    /// The names of the tools it lists.
    pub fn tools(&self) -> Vec<String> {
        self.message()["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        out += &rest[..size];
        body = &rest[size + 2..];
    }
    out
}
