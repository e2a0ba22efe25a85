//! The HTTP side of MCP: streamable HTTP at `/mcp`, the older HTTP+SSE beside it.
//!
//! The protocol itself is the SDK's; this module sets the switches that real clients need and corrects
//! at the edge what the SDK answers in a way they can't use. Host and Origin are checked by the web
//! face on every route, not here.

mod answer;
mod direct;
mod early;
mod front;
mod in_flight;
mod plain;
mod sessions;
mod sse;

pub use sessions::SessionStore;

use axum::Router;
use axum::middleware::from_fn_with_state;
use futures::future::BoxFuture;
use http::request::Parts;
use rmcp::ServerHandler;
use rmcp::model::{CallToolResult, ErrorData, JsonObject};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Largest request body, bytes.
pub const MAX_BODY: usize = 4 << 20;

/// Times of the transport.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// A call that takes longer gets its headers and a first byte now.
    pub early: Duration,
    /// How often bytes and progress are sent while a call takes long.
    pub progress: Duration,
    /// A session through which nothing went is dropped from memory after this, and its open stream ends; its id stays
    /// good. Brief calls don't go through it.
    pub keep_alive: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { early: Duration::from_secs(1), progress: Duration::from_secs(10), keep_alive: Duration::from_secs(24 * 3600) }
    }
}

/// Fires when the caller's connection has gone.
#[derive(Debug, Clone)]
pub struct Departure(CancellationToken);

impl Departure {
    pub(crate) async fn gone(&self) {
        self.0.cancelled().await;
    }
}

/// What answers the protocol's requests behind the routes: [`crate::server::Handler`] in the server, a fixture of
/// the conformance suite in its test program. A clone serves each connection or request.
pub trait ProtocolHandler: ServerHandler + Clone {
    /// How to call `tool` without the SDK's session, if its answer waits for nothing and needs nothing of it. What it
    /// answers has to be what [`ServerHandler::call_tool`] would.
    fn brief(&self, _tool: &str) -> Option<BriefCall> {
        None
    }
}

/// The answer of a tool.
pub type Answering = BoxFuture<'static, Result<CallToolResult, ErrorData>>;

/// Calls a tool with arguments for the request with that head, until the token calls it off.
pub type BriefCall = Box<dyn FnOnce(JsonObject, Parts, CancellationToken) -> Answering + Send>;

/// How long calls under way get to be answered, and those who listen to hear that it is over.
const FAREWELL: Duration = Duration::from_secs(3);

/// Cancels `streams` after `shutdown`, but not before the answers that are `owed` are given: the SDK breaks a stream
/// off where it is, and its client would wait for an answer until its patience ends.
async fn end_streams(shutdown: CancellationToken, owed: TaskTracker, streams: CancellationToken) {
    shutdown.cancelled().await;
    owed.close();
    if tokio::time::timeout(FAREWELL, owed.wait()).await.is_err() {
        tracing::debug!(owed = owed.len(), "some answers aren't given or aren't taken");
    }
    streams.cancel();
}

/// The routes `/mcp`, `/mcp/sse` and `/mcp/message` in front of `handler`. Cancelling `shutdown` ends every open
/// stream; a handler that lets its listeners go then has them told so. Has to be called within a runtime.
pub fn router(handler: impl ProtocolHandler, store: Arc<dyn SessionStore>, timing: Timing, shutdown: &CancellationToken) -> Router {
    let owed = TaskTracker::new();
    let streams = CancellationToken::new();
    tokio::spawn(end_streams(shutdown.clone(), owed.clone(), streams.clone()));
    let mut manager = LocalSessionManager::default();
    manager.session_config.sse_retry = None;
    manager.session_config.keep_alive = Some(timing.keep_alive);
    let manager = Arc::new(manager);
    // Host and Origin are checked before a request gets here.
    let mut config = StreamableHttpServerConfig::default()
        .with_sse_retry(None)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(streams.clone());
    config.session_store = Some(Arc::new(sessions::Adapter(store.clone())));
    let starter = direct::starter(handler.clone());
    let service = {
        let handler = handler.clone();
        StreamableHttpService::new(move || Ok(handler.clone()), manager.clone(), config)
    };
    let front = front::Front { timing, manager, in_flight: in_flight::InFlight::default(), owed, store, starter };
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(front, front::front))
        .merge(sse::router(handler, shutdown.clone()))
}
