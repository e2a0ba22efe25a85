//! Whether the server is there.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use taskyard_domain::Error;

/// Whether the server has started; set once.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// From now on the server is ready.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) async fn healthz(State(readiness): State<Readiness>) -> Response {
    let ready = readiness.get();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready, "version": env!("CARGO_PKG_VERSION") }))).into_response()
}

/// There is nothing here.
pub(crate) async fn nothing() -> Response {
    let error = Error::new(taskyard_domain::Class::NotFound, "there is nothing at this address");
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}
