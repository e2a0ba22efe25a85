//! The wire: JSON-RPC messages as lines on standard input and output, and requests of our own.
//!
//! Writes block until they are through, on purpose: an agent whose client doesn't read stands still.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// What a request of ours came to: a result, or an error object.
pub(super) type Answer = Result<Value, Value>;

/// The client as the agent sees it.
#[derive(Debug, Default)]
pub(super) struct Peer {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    /// One writer at a time, so that lines stay whole.
    writing: Mutex<()>,
}

impl Peer {
    /// Writes bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        // A client that is gone shows as the end of standard input.
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }

    fn send(&self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Answers a request.
    pub fn answer(&self, id: &Value, answer: Answer) {
        let message = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        self.send(&message);
    }

    /// Sends a request; its id and the place where the answer arrives.
    pub fn request(&self, method: &str, params: Value) -> (u64, oneshot::Receiver<Answer>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tx, rx) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, tx);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        (id, rx)
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&self, method: &str, params: Value) -> Answer {
        self.request(method, params).1.await.unwrap_or_else(|_| Err(error(-32603, "the client is gone")))
    }

    /// Takes in an answer of the client's.
    pub fn answered(&self, message: &Value) {
        let id = message["id"].as_u64().unwrap_or(u64::MAX);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            let answer = message.get("error").map_or_else(|| Ok(message["result"].clone()), |error| Err(error.clone()));
            let _ = waiting.send(answer);
        }
    }
}

/// An error object.
pub(super) fn error(code: i32, message: impl Into<String>) -> Value {
    json!({ "code": code, "message": message.into() })
}
