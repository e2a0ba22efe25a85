//! Calls of the command line: one operation by name, JSON in, JSON out.
//!
//! Reaches every tool and, for a person, the operator's operations that are no tools.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Map, Value, json};
use taskyard_domain::{Error, Face, Result};
use taskyard_mcp::toolset::Selection;
use taskyard_mcp::{CallContext, Dispatcher, Identity, result, server, tools};
use tokio_util::sync::CancellationToken;

/// The header that confines a call to one workspace, by slug or UUID.
const WORKSPACE: &str = "taskyard-workspace";

/// What the route needs.
#[derive(Clone)]
pub(crate) struct Calls {
    pub dispatcher: Dispatcher,
    pub shutdown: CancellationToken,
}

pub(crate) async fn call(State(calls): State<Calls>, Path(operation): Path<String>, parts: Parts, body: Bytes) -> Response {
    match run(calls, &operation, &parts, &body).await {
        Ok(result) => (StatusCode::OK, Json(json!({ "result": result }))).into_response(),
        Err(error) => (result::status(error.class), Json(json!({ "error": error }))).into_response(),
    }
}

async fn run(calls: Calls, operation: &str, parts: &Parts, body: &[u8]) -> Result<Value> {
    let arguments = read(body)?;
    let cancel = calls.shutdown.child_token();
    // When the caller hangs up this future is dropped, and the call is told.
    let _guard = cancel.clone().drop_guard();
    let token = server::bearer(parts);
    let workspace = parts.headers.get(WORKSPACE).map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
    let context = CallContext { token: token.clone(), face: Face::Cli, workspace, connection: "-".into(), cancel: cancel.clone() };
    let Some(tool) = tools::find(operation) else {
        return calls.dispatcher.operation(operation, arguments, context).await;
    };
    let selection = match calls.dispatcher.backend().identify(token.as_deref()).await? {
        Identity::Person => Selection::everything(),
        Identity::Run => Selection::agent(),
    };
    calls.dispatcher.tool(tool, &selection, arguments, context).await
}

fn read(body: &[u8]) -> Result<Map<String, Value>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Error::invalid("arguments", "the body has to be a JSON object")),
        Err(error) => Err(Error::invalid("arguments", format!("the body is no JSON at line {} column {}", error.line(), error.column()))),
    }
}
