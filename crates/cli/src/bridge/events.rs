//! What the server says to a session by itself, such as that its tools have changed: passed on as long as the session
//! lasts, over restarts of the server. Owns nothing.

use super::{Bridge, lock};
use serde_json::json;
use std::time::Duration;

/// How long to wait before a stream that broke off is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Passes on what the server says until there is no session any more.
pub(super) async fn follow(bridge: Bridge) {
    let mut missed = false;
    loop {
        match open(&bridge).await {
            Some(Ok(response)) if response.status().is_success() => {
                if missed {
                    // What was said in between is lost, and the server may be a newer one.
                    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })).await;
                }
                if let Err(error) = bridge.relay(None, response).await {
                    tracing::debug!(%error, "the server's events broke off");
                }
            }
            None => return,
            Some(Ok(response)) if response.status().is_client_error() => return,
            Some(Ok(_)) => {}
            Some(Err(error)) if error.is_connect() => {
                bridge.rediscover();
            }
            Some(Err(error)) => tracing::debug!(%error, "the server's events can't be had"),
        }
        missed = true;
        tokio::time::sleep(AGAIN).await;
    }
}

/// Asks for the session's events; `None` without a session.
async fn open(bridge: &Bridge) -> Option<reqwest::Result<reqwest::Response>> {
    let session = lock(&bridge.session).clone()?;
    let url = lock(&bridge.url).clone();
    let mut request = bridge.http.get(url).header("accept", "text/event-stream").header("mcp-session-id", session);
    if let Some(version) = lock(&bridge.version).clone() {
        request = request.header("mcp-protocol-version", version);
    }
    if let Some(token) = bridge.token() {
        request = request.bearer_auth(token);
    }
    Some(request.send().await)
}
