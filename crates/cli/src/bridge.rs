//! `taskyard mcp`: MCP on standard input and output, bridged to the running server's HTTP endpoint.
//!
//! Each line from the client is posted as it is; what comes back, at once or as an event stream, goes out line by
//! line. The bridge owns no state but the protocol session's id and the requests under way, and takes a server that was
//! restarted in between for the same one.

mod events;

use crate::args::{Global, Mcp};
use crate::discover;
use crate::fail::{Result, machine};
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use taskyard_domain::Error;
use taskyard_mcp::toolset::Selection;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// How long requests that were read are seen through once there is no more input; clients end us soon after.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs until standard input ends.
pub async fn run(global: &Global, flags: &Mcp) -> Result<()> {
    // A mode that doesn't exist is said at once, not to the client's first request.
    Selection::from_query(&query(flags))?;
    let base = match discover::find(global) {
        Ok(url) => url,
        Err(error) if flags.no_start || global.server.is_some() => return Err(error),
        Err(_) => discover::start_detached(global).await?,
    };
    let (out, lines) = mpsc::channel(64);
    let writer = tokio::spawn(write(lines));
    let bridge = Bridge::new(global.clone(), endpoint(&base, flags), flags.clone(), out)?;
    let mut input = BufReader::new(tokio::io::stdin());
    let mut open = Open::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = input.read_until(b'\n', &mut line).await.map_err(|e| machine("reading standard input", e))?;
        if n == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let message = Message::read(line.clone());
        if message.is("initialize") {
            // What follows needs the session's id.
            bridge.clone().forward(message).await;
            continue;
        }
        open.hang_up(&message);
        if message.is("notifications/initialized") {
            open.following.spawn(events::follow(bridge.clone()));
        }
        open.begin(&bridge, message);
    }
    // Standard input has ended. What was asked before is still answered; nobody waits for what takes long.
    let answers = async { while open.all.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, answers).await;
    open.all.shutdown().await;
    open.following.shutdown().await;
    bridge.end_session().await;
    drop(bridge);
    writer.await.map_err(|e| machine("writing standard output", e))
}

fn endpoint(base: &str, flags: &Mcp) -> String {
    let query = query(flags);
    if query.is_empty() { format!("{base}/mcp") } else { format!("{base}/mcp?{query}") }
}

fn query(flags: &Mcp) -> String {
    let mut query = Vec::new();
    query.extend(flags.mode.as_ref().map(|mode| format!("mode={mode}")));
    query.extend(flags.toolsets.as_ref().map(|sets| format!("toolsets={sets}")));
    query.extend(flags.readonly.then(|| "readonly=true".to_owned()));
    query.join("&")
}

/// A line of the client.
struct Message {
    bytes: Vec<u8>,
    parsed: Value,
}

impl Message {
    /// What isn't JSON is null here; the server says what it thinks of it.
    fn read(bytes: Vec<u8>) -> Self {
        let parsed = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Self { bytes, parsed }
    }

    fn is(&self, method: &str) -> bool {
        self.parsed["method"] == method
    }

    /// The revision, where every request says it: from 2026-07-28 on.
    fn version(&self) -> Option<&str> {
        self.parsed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
    }

    fn is_notification(&self) -> bool {
        self.parsed.get("method").is_some() && self.parsed.get("id").is_none()
    }

    /// The id, of a request only.
    fn request_id(&self) -> Option<&Value> {
        self.parsed.get("id").filter(|_| self.parsed.get("method").is_some())
    }
}

/// The requests under way.
#[derive(Default)]
struct Open {
    all: JoinSet<()>,
    /// What listens to the server, without a request.
    following: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

impl Open {
    fn begin(&mut self, bridge: &Bridge, message: Message) {
        while self.all.try_join_next().is_some() {}
        self.by_id.retain(|_, call| !call.is_finished());
        let id = message.request_id().map(Value::to_string);
        let call = self.all.spawn(bridge.clone().forward(message));
        if let Some(id) = id {
            self.by_id.insert(id, call);
        }
    }

    /// Hangs up on the request that `message` calls off, if it does. Where there are no sessions, this is how HTTP says
    /// it; and nothing is said any more to a client that doesn't expect an answer.
    fn hang_up(&mut self, message: &Message) {
        if message.is("notifications/cancelled")
            && let Some(call) = self.by_id.remove(&message.parsed["params"]["requestId"].to_string())
        {
            call.abort();
        }
    }
}

async fn write(mut lines: mpsc::Receiver<String>) {
    let mut out = tokio::io::stdout();
    while let Some(line) = lines.recv().await {
        let sent = out.write_all(line.as_bytes()).await.is_ok() && out.write_all(b"\n").await.is_ok() && out.flush().await.is_ok();
        if !sent {
            return;
        }
    }
}

#[derive(Clone)]
struct Bridge {
    http: reqwest::Client,
    global: Global,
    flags: Mcp,
    url: Arc<Mutex<String>>,
    session: Arc<Mutex<Option<String>>>,
    version: Arc<Mutex<Option<String>>>,
    out: mpsc::Sender<String>,
}

impl Bridge {
    fn new(global: Global, url: String, flags: Mcp, out: mpsc::Sender<String>) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().map_err(|e| machine("setting up HTTP", e))?;
        let url = Arc::new(Mutex::new(url));
        Ok(Self { http, global, flags, url, session: Arc::default(), version: Arc::default(), out })
    }

    async fn forward(self, message: Message) {
        if let Err(error) = self.exchange(&message).await
            && let Some(id) = message.request_id()
        {
            self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": error.message, "data": error } })).await;
        }
    }

    async fn exchange(&self, message: &Message) -> Result<()> {
        let response = match self.post(message).await {
            // The server may have been restarted elsewhere: look once more where it is now.
            Err(error) if error.is_connect() && self.rediscover() => self.post(message).await,
            other => other,
        };
        let response = response.map_err(|e| Error::unavailable(format!("the Taskyard server doesn't answer: {e}")))?;
        self.remember(response.headers());
        let status = response.status();
        let kind = response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        if kind.starts_with("text/event-stream") {
            return self.relay(message.request_id(), response).await;
        }
        let body = response.bytes().await.map_err(|e| Error::unavailable(format!("the answer broke off: {e}")))?;
        match serde_json::from_slice::<Value>(&body) {
            Ok(refusal) if message.is_notification() => {
                tracing::debug!(%refusal, "the server refused a notification");
                Ok(())
            }
            Ok(answer) => {
                self.learn_version(&answer);
                self.say(&answer).await;
                Ok(())
            }
            Err(_) if body.is_empty() && status.is_success() => Ok(()),
            Err(_) => Err(Error::unavailable(format!("the server answered {status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    async fn post(&self, message: &Message) -> reqwest::Result<reqwest::Response> {
        let url = lock(&self.url).clone();
        let mut request = self.http.post(url).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        let parsed = &message.parsed;
        if let Some(version) = message.version().map(str::to_owned).or_else(|| lock(&self.version).clone()) {
            request = request.header("mcp-protocol-version", version);
        }
        if message.version().is_some() {
            request = request.header("mcp-method", parsed["method"].as_str().unwrap_or_default());
            let name = parsed["params"]["name"].as_str().or_else(|| parsed["params"]["uri"].as_str());
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        if let Some(session) = lock(&self.session).clone() {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = self.token() {
            request = request.bearer_auth(token);
        }
        request.body(message.bytes.clone()).send().await
    }

    /// The token of the run that this bridge serves, if it serves one.
    fn token(&self) -> Option<String> {
        std::env::var("TASKYARD_TOKEN").ok().filter(|token| !token.is_empty())
    }

    /// Passes an event stream on, message by message, framed on bytes. It has to hold the answer to `request`, if any.
    async fn relay(&self, request: Option<&Value>, response: reqwest::Response) -> Result<()> {
        let mut stream = response.bytes_stream();
        let (mut line, mut data) = (Vec::new(), Vec::new());
        let mut answered = request.is_none();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|e| Error::unavailable(format!("the answer broke off: {e}")))?;
            for byte in chunk {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let text = std::mem::take(&mut line);
                let text = text.strip_suffix(b"\r").unwrap_or(&text);
                if let Some(rest) = text.strip_prefix(b"data:") {
                    data.extend_from_slice(rest.strip_prefix(b" ").unwrap_or(rest));
                } else if text.is_empty()
                    && !data.is_empty()
                    && let Ok(said) = serde_json::from_slice::<Value>(&std::mem::take(&mut data))
                {
                    answered |= said.get("id") == request && said.get("method").is_none();
                    self.learn_version(&said);
                    self.say(&said).await;
                }
            }
        }
        // A client on a pipe would wait for ever.
        if answered { Ok(()) } else { Err(Error::unavailable("the answer broke off: the server has stopped")) }
    }

    fn remember(&self, headers: &reqwest::header::HeaderMap) {
        if let Some(id) = headers.get("mcp-session-id").and_then(|v| v.to_str().ok()) {
            *lock(&self.session) = Some(id.to_owned());
        }
    }

    fn learn_version(&self, answer: &Value) {
        if let Some(version) = answer["result"]["protocolVersion"].as_str() {
            *lock(&self.version) = Some(version.to_owned());
        }
    }

    fn rediscover(&self) -> bool {
        let Ok(base) = discover::find(&self.global) else { return false };
        *lock(&self.url) = endpoint(&base, &self.flags);
        true
    }

    async fn say(&self, message: &Value) {
        let _ = self.out.send(message.to_string()).await;
    }

    async fn end_session(&self) {
        let (url, session) = (lock(&self.url).clone(), lock(&self.session).take());
        if let Some(session) = session {
            let _ = self.http.delete(url).header("mcp-session-id", session).send().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
