//! Clients that can be cut off: one HTTP/1.1 request per connection, by hand, so that the connection can be dropped
//! after any number of bytes of the answer.
//!
//! Knows where the server listens now; never decides whether what a call came to is right.

use serde_json::{Value, json};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(40);
const VERSION: &str = "2025-06-18";

/// What a call came to, as far as its client can know.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It said that it was done.
    Done(Value),
    /// It said that it failed.
    Refused(Value),
    /// The client never learnt: refused connection, cut answer, dead server.
    Unclear(String),
}

impl Answer {
    /// The result of a call that was done.
    pub fn done(&self) -> Option<&Value> {
        if let Self::Done(value) = self { Some(value) } else { None }
    }
}

/// Which face a call goes through.
#[derive(Debug, Clone)]
pub enum Face {
    /// The command line's calls.
    Call,
    /// MCP, in this protocol session.
    Mcp(String),
}

/// The way to the server, wherever it listens after its last start.
#[derive(Debug, Default)]
pub struct Wire {
    address: RwLock<String>,
    ids: AtomicU64,
}

impl Wire {
    /// The server listens at `url` (`http://127.0.0.1:4517`) from now on.
    pub fn moved(&self, url: &str) {
        url.trim_start_matches("http://").clone_into(&mut self.address.write().unwrap());
    }

    /// Opens a protocol session of MCP.
    pub async fn connect_mcp(&self) -> Option<Face> {
        let params = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": { "name": "torture", "version": "0" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let reply = self.post("/mcp", "", &hello, None).await.ok()?;
        let session = reply.header("mcp-session-id")?.to_owned();
        let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: {VERSION}\r\n");
        self.post("/mcp", &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), None).await.ok()?;
        Some(Face::Mcp(session))
    }

    /// Calls `tool`. With `cut` the connection is dropped once that many bytes of the answer have come.
    pub async fn call(&self, face: &Face, tool: &str, arguments: &Value, cut: Option<usize>) -> Answer {
        let work = async {
            match face {
                Face::Call => self.post(&format!("/api/internal/call/{tool}"), "", arguments, cut).await.map(|reply| reply.of_call()),
                Face::Mcp(session) => {
                    let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: {VERSION}\r\n");
                    let params = json!({ "name": tool, "arguments": arguments });
                    // Never used twice in a session: an answer that was cut off must not pass for that of the next call.
                    let id = 100 + self.ids.fetch_add(1, Ordering::Relaxed);
                    let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                    self.post("/mcp", &headers, &message, cut).await.map(|reply| reply.of_mcp(id))
                }
            }
        };
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Unclear(error.to_string()),
            Err(_) => Answer::Unclear(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }

    async fn post(&self, path: &str, headers: &str, body: &Value, cut: Option<usize>) -> std::io::Result<Reply> {
        let address = self.address.read().unwrap().clone();
        let mut stream = TcpStream::connect(&address).await?;
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            if cut.is_some_and(|cut| bytes.len() >= cut) {
                return Err(std::io::Error::other(format!("cut off by the client after {} bytes", bytes.len())));
            }
            let room = cut.map_or(chunk.len(), |cut| (cut - bytes.len()).min(chunk.len()));
            match stream.read(&mut chunk[..room]).await? {
                0 => break,
                n => bytes.extend_from_slice(&chunk[..n]),
            }
        }
        Reply::read(&bytes).ok_or_else(|| std::io::Error::other("the answer was cut short"))
    }
}

/// A whole answer of HTTP.
struct Reply {
    head: String,
    body: String,
}

impl Reply {
    /// `None` when it isn't whole.
    fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut reply = Self { head, body: String::new() };
        let rest = &bytes[end + 4..];
        let body = if reply.header("transfer-encoding").is_some() {
            unchunked(rest)?
        } else {
            let length: usize = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            rest.get(..length)?.to_vec()
        };
        reply.body = String::from_utf8_lossy(&body).into_owned();
        Some(reply)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn of_call(&self) -> Answer {
        match serde_json::from_str::<Value>(&self.body) {
            Ok(body) if body.get("result").is_some() => Answer::Done(body["result"].clone()),
            Ok(body) if body.get("error").is_some() => refusal(&body["error"]),
            _ => Answer::Unclear(format!("neither result nor error: {} {}", self.head.lines().next().unwrap_or_default(), self.body)),
        }
    }

    fn of_mcp(&self, id: u64) -> Answer {
        let events = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let messages = events.chain([self.body.as_str()]).filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let Some(answer) = messages.into_iter().find(|message| message["id"] == id) else {
            return Answer::Unclear(format!("no answer in: {} {}", self.head.lines().next().unwrap_or_default(), self.body));
        };
        let result = &answer["result"];
        match (answer.get("error"), result["isError"] == true) {
            (Some(error), _) => Answer::Refused(error.clone()),
            (None, true) => refusal(&result["structuredContent"]["error"]),
            (None, false) => Answer::Done(result["structuredContent"].clone()),
        }
    }
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

/// What an error says: that nothing came of the call, or that it isn't at its end yet.
fn refusal(error: &Value) -> Answer {
    if error["details"]["landed"] == true { Answer::Unclear(error.to_string()) } else { Answer::Refused(error.clone()) }
}
