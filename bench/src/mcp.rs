//! MCP clients: over HTTP, and over the standard input and output of a program.

use crate::http::{Address, Http, Reply};
use crate::process::Process;
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::oneshot;

/// The protocol revision that is spoken.
const PROTOCOL: &str = "2025-06-18";

fn hello() -> Value {
    json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": { "name": "taskyard-bench", "version": "0" } })
}

/// A call's answer and what it cost.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The JSON-RPC message.
    pub body: Vec<u8>,
    /// From sending to having read it, without parsing.
    pub took: Duration,
    /// When it had been read.
    pub at: Instant,
}

impl Answered {
    /// The tool's result: its structured content, or its text where there is none.
    ///
    /// # Errors
    /// When the call was refused.
    pub fn value(&self) -> Result<Value> {
        let message: Value = serde_json::from_slice(&self.body).context("no JSON")?;
        let result = message.get("result").with_context(|| format!("refused: {message}"))?;
        let text = || result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect::<String>();
        if result["isError"] == true {
            bail!("refused: {}", text());
        }
        match result.get("structuredContent") {
            Some(content) => Ok(content.clone()),
            None => Ok(serde_json::from_str(&text()).unwrap_or_else(|_| Value::String(text()))),
        }
    }

    /// Whether the call was done; cheaper than [`Self::value`].
    ///
    /// # Errors
    /// When it was refused.
    pub fn ok(&self) -> Result<()> {
        let text = String::from_utf8_lossy(&self.body);
        let refused = text.contains("\"isError\":true") || (text.contains("\"error\":{\"code\"") && !text.contains("\"result\""));
        if refused { bail!("refused: {text}") } else { Ok(()) }
    }
}

/// A protocol session over HTTP on a connection of its own.
pub struct Mcp {
    http: Http,
    path: String,
    headers: String,
    next: u64,
}

impl Mcp {
    /// Connects to the endpoint at `url`.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn connect(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let mut this = Self { http: Http::new(&address.host), path: address.path, headers: String::new(), next: 0 };
        let (reply, _) = this.post("initialize", Some(&hello())).await?;
        let session = reply.session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let answer: Value = serde_json::from_slice(&reply.body)?;
        let version = answer["result"]["protocolVersion"].as_str().with_context(|| format!("no handshake: {answer}"))?;
        this.headers = format!("{session}MCP-Protocol-Version: {version}\r\n");
        let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        this.http.request("POST", &this.path, &this.headers, note).await?;
        Ok(this)
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When the connection breaks or HTTP says no; what the tool says is in the answer.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Answered> {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments })).await
    }

    /// Sends any request.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn request(&mut self, method: &str, params: &Value) -> Result<Answered> {
        let (reply, took) = self.post(method, Some(params)).await?;
        Ok(Answered { body: reply.body, took, at: reply.at })
    }

    async fn post(&mut self, method: &str, params: Option<&Value>) -> Result<(Reply, Duration)> {
        self.next += 1;
        let body = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }).to_string();
        let sent = Instant::now();
        let reply = self.http.request("POST", &self.path, &self.headers, body.as_bytes()).await?;
        if reply.status >= 300 {
            bail!("HTTP {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        let took = reply.at.duration_since(sent);
        Ok((reply, took))
    }
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<(Vec<u8>, Instant)>>>>;

/// A program that speaks MCP on its standard input and output; many calls may be under way at once.
pub struct Stdio {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
}

impl Stdio {
    /// Takes over the pipes of `process` and shakes hands.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn connect(process: &mut Process) -> Result<Self> {
        let (input, output) = process.pipes().context("the program has no pipes")?;
        let waiting = Waiting::default();
        let table = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::with_capacity(256 << 10, output);
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line).await, Ok(count) if count > 0) {
                let at = Instant::now();
                let id = serde_json::from_slice::<Value>(&line).ok().and_then(|message| message["id"].as_u64());
                let waiter = id.and_then(|id| table.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
                if let Some(waiter) = waiter {
                    let _ = waiter.send((std::mem::take(&mut line), at));
                }
                line.clear();
            }
            table.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        let this = Self { input: tokio::sync::Mutex::new(input), waiting, next: AtomicU64::new(1) };
        this.request("initialize", &hello()).await?;
        this.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        Ok(this)
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// When the program goes away.
    pub async fn request(&self, method: &str, params: &Value) -> Result<Answered> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let sent = Instant::now();
        self.send(body.as_bytes()).await?;
        let (body, at) = answer.await.context("the program closed its output")?;
        Ok(Answered { body, took: at.duration_since(sent), at })
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When the program goes away.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Answered> {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments })).await
    }

    async fn send(&self, line: &[u8]) -> Result<()> {
        let mut line = line.to_vec();
        line.push(b'\n');
        let mut input = self.input.lock().await;
        input.write_all(&line).await?;
        input.flush().await?;
        Ok(())
    }
}
