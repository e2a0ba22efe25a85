//! `taskyard mcp`: MCP on standard input and output, bridged to the running server's HTTP endpoint.
//!
//! Each line from the client is posted as it is; what comes back, at once or as an event stream, goes out line by
//! line. The bridge owns no state but the protocol session's id, and takes a server that was restarted in between
//! for the same one.

use crate::args::{Global, Mcp};
use crate::discover;
use crate::fail::{Result, machine};
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use taskyard_domain::Error;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Runs until standard input ends.
pub async fn run(global: &Global, flags: &Mcp) -> Result<()> {
    let base = match discover::find(global) {
        Ok(url) => url,
        Err(error) if flags.no_start || global.server.is_some() => return Err(error),
        Err(_) => discover::start_detached(global).await?,
    };
    let (out, lines) = mpsc::channel(64);
    let writer = tokio::spawn(write(lines));
    let bridge = Bridge::new(global.clone(), endpoint(&base, flags), flags.clone(), out)?;
    let mut input = BufReader::new(tokio::io::stdin());
    let mut open = JoinSet::new();
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
        let message = line.clone();
        if opens_session(&message) {
            // What follows needs the session's id.
            bridge.clone().forward(message).await;
        } else {
            open.spawn(bridge.clone().forward(message));
        }
        while open.try_join_next().is_some() {}
    }
    // Standard input has ended: nobody waits for what is still open.
    open.shutdown().await;
    bridge.end_session().await;
    drop(bridge);
    writer.await.map_err(|e| machine("writing standard output", e))
}

fn endpoint(base: &str, flags: &Mcp) -> String {
    let mut query = Vec::new();
    query.extend(flags.mode.as_ref().map(|mode| format!("mode={mode}")));
    query.extend(flags.toolsets.as_ref().map(|sets| format!("toolsets={sets}")));
    query.extend(flags.readonly.then(|| "readonly=true".to_owned()));
    if query.is_empty() { format!("{base}/mcp") } else { format!("{base}/mcp?{}", query.join("&")) }
}

fn opens_session(message: &[u8]) -> bool {
    serde_json::from_slice::<Value>(message).is_ok_and(|m| m["method"] == "initialize")
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

    async fn forward(self, message: Vec<u8>) {
        let parsed: Value = serde_json::from_slice(&message).unwrap_or(Value::Null);
        let id = parsed.get("id").cloned();
        if let Err(error) = self.exchange(&parsed, message).await
            && let Some(id) = id
        {
            self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": error.message, "data": error } })).await;
        }
    }

    async fn exchange(&self, parsed: &Value, message: Vec<u8>) -> Result<()> {
        let response = match self.post(parsed, message.clone()).await {
            // The server may have been restarted elsewhere: look once more where it is now.
            Err(error) if error.is_connect() && self.rediscover() => self.post(parsed, message).await,
            other => other,
        };
        let response = response.map_err(|e| Error::unavailable(format!("the Taskyard server doesn't answer: {e}")))?;
        self.remember(response.headers());
        let status = response.status();
        let kind = response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        if kind.starts_with("text/event-stream") {
            return self.relay(response).await;
        }
        let body = response.bytes().await.map_err(|e| Error::unavailable(format!("the answer broke off: {e}")))?;
        if body.is_empty() {
            return Ok(());
        }
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) => {
                self.learn_version(&answer);
                self.say(&answer).await;
                Ok(())
            }
            Err(_) => Err(Error::unavailable(format!("the server answered {status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    async fn post(&self, parsed: &Value, message: Vec<u8>) -> reqwest::Result<reqwest::Response> {
        let url = lock(&self.url).clone();
        let mut request = self.http.post(url).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        let modern = parsed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        if let Some(version) = modern.map(str::to_owned).or_else(|| lock(&self.version).clone()) {
            request = request.header("mcp-protocol-version", version);
        }
        if modern.is_some() {
            request = request.header("mcp-method", parsed["method"].as_str().unwrap_or_default());
            let name = parsed["params"]["name"].as_str().or_else(|| parsed["params"]["uri"].as_str());
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        if let Some(session) = lock(&self.session).clone() {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = std::env::var("TASKYARD_TOKEN").ok().filter(|t| !t.is_empty()) {
            request = request.bearer_auth(token);
        }
        request.body(message).send().await
    }

    /// Passes an event stream on, message by message, framed on bytes.
    async fn relay(&self, response: reqwest::Response) -> Result<()> {
        let mut stream = response.bytes_stream();
        let (mut line, mut data) = (Vec::new(), Vec::new());
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
                    && let Ok(message) = serde_json::from_slice::<Value>(&std::mem::take(&mut data))
                {
                    self.learn_version(&message);
                    self.say(&message).await;
                }
            }
        }
        Ok(())
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
