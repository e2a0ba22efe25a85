//! One call of an MCP tool over streamable HTTP: initialize, initialized, tools/call.

use serde_json::{Value, json};
use std::time::Duration;

/// A server as `session/new` gave it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub name: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
}

impl Server {
    /// Reads an entry of `mcpServers`; only HTTP ones.
    pub fn read(value: &Value) -> Option<Self> {
        let header = |header: &Value| Some((header["name"].as_str()?.to_owned(), header["value"].as_str()?.to_owned()));
        let headers = value["headers"].as_array().map(|all| all.iter().filter_map(header).collect()).unwrap_or_default();
        Some(Self { name: value["name"].as_str()?.to_owned(), url: value["url"].as_str()?.to_owned(), headers })
    }

    /// Calls `tool`: its text, or why there is none.
    pub async fn call(&self, tool: &str, args: &Value) -> Result<String, String> {
        let http = reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_secs(10)).build().map_err(|e| e.to_string())?;
        let info = json!({ "name": "taskyard-scripted-agent", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let (session, _) = self.post(&http, None, Some(1), "initialize", hello).await?;
        self.post(&http, session.as_deref(), None, "notifications/initialized", json!({})).await?;
        let args = if args.is_null() { json!({}) } else { args.clone() };
        let (_, answer) = self.post(&http, session.as_deref(), Some(2), "tools/call", json!({ "name": tool, "arguments": args })).await?;
        let blocks = answer["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        if answer["isError"] == true { Err(text) } else { Ok(text) }
    }

    async fn post(
        &self,
        http: &reqwest::Client,
        session: Option<&str>,
        id: Option<u64>,
        method: &str,
        params: Value,
    ) -> Result<(Option<String>, Value), String> {
        let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        let mut request = http.post(&self.url).header("accept", "application/json, text/event-stream").json(&message);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18");
        }
        let mut response = request.send().await.map_err(|error| format!("{method}: {error}"))?;
        let status = response.status();
        let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let Some(id) = id.filter(|_| status.is_success()) else {
            let body = if status.is_success() { String::new() } else { response.text().await.unwrap_or_default() };
            return if status.is_success() { Ok((session, Value::Null)) } else { Err(format!("{method}: HTTP {status}: {body}")) };
        };
        let mut body = Vec::new();
        // A stream of events may stay open after the answer: read only until it is there.
        while let Some(chunk) = response.chunk().await.map_err(|error| format!("{method}: {error}"))? {
            body.extend_from_slice(&chunk);
            if let Some(answer) = find_answer(&String::from_utf8_lossy(&body), id) {
                return answer.map(|answer| (session, answer));
            }
        }
        Err(format!("{method}: no answer in {}", String::from_utf8_lossy(&body)))
    }
}

/// The answer to request `id` in a body of JSON or of server-sent events.
fn find_answer(body: &str, id: u64) -> Option<Result<Value, String>> {
    let whole = serde_json::from_str::<Value>(body).ok().into_iter();
    let events = body.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n") || event.ends_with("\r\n\r\n"));
    let events = events.chain(body.split_inclusive("\r\n\r\n")).filter_map(|event| {
        let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect();
        serde_json::from_str::<Value>(&data.join("\n")).ok()
    });
    let message = whole.chain(events).find(|message| message["id"] == id)?;
    Some(match message.get("error") {
        Some(error) => Err(error.to_string()),
        None => Ok(message["result"].clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_in_json_and_in_events() {
        assert_eq!(find_answer(r#"{"id":2,"result":5}"#, 2), Some(Ok(json!(5))));
        assert_eq!(
            find_answer("data: {\"id\":1,\"result\":0}\n\nevent: message\ndata: {\"id\":2,\"result\":5}\n\n", 2),
            Some(Ok(json!(5)))
        );
        assert_eq!(find_answer("data: {\"id\":2,\"res", 2), None);
        assert!(matches!(find_answer(r#"{"id":2,"error":{"code":1}}"#, 2), Some(Err(_))));
    }
}
