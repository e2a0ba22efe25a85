//! The transport of 2024-11-05: an event stream that names where to post, and that place.
//!
//! A session lives as long as its stream. Clients that only know this transport keep working.

use super::answer::{self, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
use super::{Departure, MAX_BODY, ProtocolHandler, in_flight};
use crate::toolset::{Selection, pairs};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use http::StatusCode;
use http::request::Parts;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::common::server_side_http::session_id;
use rmcp::{RoleServer, ServiceExt};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// Messages under way in each direction.
const DEPTH: usize = 64;

/// Where the messages of a session go, and what fires when its stream ends.
#[derive(Clone)]
struct Inbox {
    messages: mpsc::Sender<ClientJsonRpcMessage>,
    departure: Departure,
    under_way: UnderWay,
}

/// The requests of a session that have no answer yet, by id.
type UnderWay = Arc<Mutex<HashSet<RequestId>>>;

#[derive(Clone)]
struct Sessions<H> {
    handler: H,
    open: Arc<Mutex<HashMap<String, Inbox>>>,
    shutdown: CancellationToken,
}

impl<H> Sessions<H> {
    fn inbox(&self, id: &str) -> Option<Inbox> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
    fn insert(&self, id: String, inbox: Inbox) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, inbox);
    }
    fn remove(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The two routes of the transport.
pub(super) fn router<H: ProtocolHandler>(handler: H, shutdown: CancellationToken) -> Router {
    let sessions = Sessions { handler, open: Arc::default(), shutdown };
    Router::new()
        .route("/mcp/sse", get(open::<H>))
        .route("/mcp/message", post(message::<H>))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(sessions)
}

async fn open<H: ProtocolHandler>(State(sessions): State<Sessions<H>>, parts: Parts) -> Response {
    let query = parts.uri.query().unwrap_or("");
    if let Err(error) = Selection::from_query(query) {
        return answer::json_response(StatusCode::BAD_REQUEST, &answer::error(&Value::Null, INVALID_PARAMS, &error.message));
    }
    let id = session_id().to_string();
    let (messages, received) = mpsc::channel(DEPTH);
    let (outbox, sent) = mpsc::channel::<ServerJsonRpcMessage>(DEPTH);
    let departed = CancellationToken::new();
    let under_way = UnderWay::default();
    sessions.insert(id.clone(), Inbox { messages, departure: Departure(departed.clone()), under_way: under_way.clone() });
    let separator = if query.is_empty() { "" } else { "&" };
    let endpoint = Event::default().event("endpoint").data(format!("/mcp/message?sessionId={id}{separator}{query}"));
    let shutdown = sessions.shutdown.clone();
    tokio::spawn(async move {
        let transport = Pipe { received, outbox, under_way };
        if let Ok(running) = sessions.handler.clone().serve_with_ct(transport, sessions.shutdown.child_token()).await {
            let _ = running.waiting().await;
        }
        sessions.remove(&id);
    });
    let guard = departed.drop_guard();
    let messages = ReceiverStream::new(sent).filter_map(move |message| {
        let _held_by_the_stream = &guard;
        let text = serde_json::to_string(&message).ok();
        std::future::ready(text.map(|text| Event::default().event("message").data(text)))
    });
    let events = futures::stream::once(async { endpoint }).chain(messages).map(Ok::<_, Infallible>).take_until(shutdown.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

async fn message<H: ProtocolHandler>(State(sessions): State<Sessions<H>>, mut parts: Parts, body: Bytes) -> Response {
    let id = pairs(parts.uri.query().unwrap_or("")).find(|(key, _)| matches!(key.as_str(), "sessionId" | "session_id"));
    let Some(inbox) = id.and_then(|(_, id)| sessions.inbox(&id)) else {
        return answer::text_response(StatusCode::NOT_FOUND, "Not Found: Session not found");
    };
    let mut message = match serde_json::from_slice::<ClientJsonRpcMessage>(&body) {
        Ok(message) => message,
        Err(error) => {
            let (code, text) = if error.is_data() {
                (INVALID_REQUEST, "the message is no JSON-RPC message")
            } else {
                (PARSE_ERROR, "Parse error: the body is no JSON")
            };
            return answer::json_response(StatusCode::BAD_REQUEST, &answer::error(&Value::Null, code, text));
        }
    };
    if let JsonRpcMessage::Request(request) = &message
        && !inbox.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(request.id.clone())
    {
        let id = serde_json::to_value(&request.id).unwrap_or(Value::Null);
        let refusal = answer::error(&id, INVALID_REQUEST, &in_flight::refusal(&id));
        return answer::json_response(StatusCode::BAD_REQUEST, &refusal);
    }
    // The post ends at once; it is the stream whose end ends the call.
    parts.extensions.insert(inbox.departure);
    message.insert_extension(parts);
    match inbox.messages.send(message).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(_) => answer::text_response(StatusCode::NOT_FOUND, "Not Found: Session not found"),
    }
}

/// The two channels of a session as a transport.
struct Pipe {
    received: mpsc::Receiver<ClientJsonRpcMessage>,
    outbox: mpsc::Sender<ServerJsonRpcMessage>,
    under_way: UnderWay,
}

impl Transport<RoleServer> for Pipe {
    type Error = std::io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
        let outbox = self.outbox.clone();
        async move { outbox.send(message).await.map_err(|_| std::io::ErrorKind::BrokenPipe.into()) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        tokio::select! {
            message = self.received.recv() => message,
            () = self.outbox.closed() => None,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.received.close();
        Ok(())
    }
}
