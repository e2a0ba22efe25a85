//! The HTTP face: one router with the MCP endpoint, the command line's calls and the health check.
//!
//! Translates and delegates: holds no rule about tasks and no state but whether the server is ready.
//! Every route, whichever it is, stands behind [`guard`].

pub mod bind;
mod call;
pub mod guard;
mod health;
mod home;
mod serve;

pub use bind::check_bind;
pub use health::Readiness;
pub use serve::serve;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use guard::Guard;
use std::sync::Arc;
use taskyard_mcp::transport::{self, ProtocolHandler, SessionStore, Timing};
use taskyard_mcp::{Dispatcher, server};
use tokio_util::sync::CancellationToken;

/// Largest body of a call of the command line, bytes: an attachment in base64 fits.
const MAX_CALL: usize = 16 << 20;

/// What the router is made of.
pub struct App {
    /// Runs the calls.
    pub dispatcher: Dispatcher,
    /// Keeps protocol sessions across restarts.
    pub sessions: Arc<dyn SessionStore>,
    /// Whether the server has started.
    pub readiness: Readiness,
    /// Hosts and origins beside the loopback ones.
    pub guard: Guard,
    /// Times of the MCP transport.
    pub timing: Timing,
    /// Cancelled when the server stops; ends every stream and waiting call.
    pub shutdown: CancellationToken,
}

/// Every route of the server.
pub fn router(app: App) -> Router {
    let handler = server::Handler::new(app.dispatcher.clone(), app.timing.progress, app.shutdown.clone());
    router_around(handler, app)
}

/// The same routes with `handler` behind the MCP endpoint: for test programs that put the transport and everything
/// before it under test with a handler of their own.
pub fn router_around(handler: impl ProtocolHandler, app: App) -> Router {
    let calls = Router::new()
        .route("/api/internal/call/{operation}", post(call::call))
        .layer(DefaultBodyLimit::max(MAX_CALL))
        .with_state(call::Calls { dispatcher: app.dispatcher.clone(), shutdown: app.shutdown.clone() });
    Router::new()
        .route("/", get(home::home))
        .route("/healthz", get(health::healthz).with_state(app.readiness))
        // Clients probe these; anything but a plain 404 makes some of them try to log in.
        .route("/.well-known/{*rest}", any(health::nothing))
        .merge(calls)
        .merge(transport::router(handler, app.sessions, app.timing, &app.shutdown))
        .fallback(health::nothing)
        .layer(from_fn_with_state(Arc::new(app.guard), guard::check))
}
