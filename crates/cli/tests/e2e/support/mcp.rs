//! A small MCP client over streamable HTTP: initialize, list tools, call them.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// A connection.
pub struct Mcp {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    session: Option<String>,
    next: AtomicU64,
    /// The answer to `initialize`.
    pub hello: Value,
}

impl Mcp {
    /// Connects to the endpoint at `url`.
    pub async fn connect(url: &str, token: Option<&str>) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut this =
            Self { http, url: url.into(), token: token.map(Into::into), session: None, next: AtomicU64::new(1000), hello: Value::Null };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } });
        let (session, answer) = this.post(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await;
        this.session = session;
        this.hello = answer.unwrap()["result"].clone();
        this.post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        this
    }

    /// Sends a request and gives the whole JSON-RPC answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        // Ids are never used twice: several calls may be under way at once.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.post(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await.1.unwrap()
    }

    /// The names of the tools.
    pub async fn tools(&self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Calls a tool: its structured content, or its structured error.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let Some(result) = answer.get("result") else { return Err(answer["error"].clone()) };
        let content = result["structuredContent"].clone();
        if result["isError"] == true { Err(content["error"].clone()) } else { Ok(content) }
    }

    /// The same client as if it had been given another protocol session.
    pub fn with_session(&self, id: &str) -> Self {
        let (http, url, token) = (self.http.clone(), self.url.clone(), self.token.clone());
        Self { http, url, token, session: Some(id.into()), next: AtomicU64::new(1000), hello: Value::Null }
    }

    /// Sends any message; the answer as it comes in.
    pub async fn send(&self, message: Value) -> reqwest::Response {
        let mut request = self.http.post(&self.url).header("accept", "application/json, text/event-stream").json(&message);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18");
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap()
    }

    async fn post(&self, message: Value) -> (Option<String>, Option<Value>) {
        let response = self.send(message.clone()).await;
        let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let body = response.text().await.unwrap();
        let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
        let messages = events.chain([body.as_str()]).filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let answer = messages.into_iter().find(|found| found.get("id") == message.get("id") && message.get("id").is_some());
        (session, answer)
    }
}
