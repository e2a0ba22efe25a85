//! What stands behind the tools: the seam between this face and the engine.
//!
//! A face only translates; every rule is behind this trait.

use async_trait::async_trait;
use serde_json::{Map, Value};
use taskyard_domain::{Face, Result};
use tokio_util::sync::CancellationToken;

/// Who makes a call, how it came in and how it is called off.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The bearer token that came with the call.
    pub token: Option<String>,
    /// The face it came through.
    pub face: Face,
    /// The workspace that the call is confined to, by slug or UUID, where a person named one.
    pub workspace: Option<String>,
    /// What names the connection in the log: the start of its id.
    pub connection: String,
    /// Cancelled when the caller cancels or goes away.
    pub cancel: CancellationToken,
}

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A person or their own client.
    Person,
    /// An agent that Taskyard runs.
    Run,
}

/// The commands behind the tools.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Finds out whom `token` stands for.
    ///
    /// # Errors
    /// `FORBIDDEN` for a token that isn't valid (any more).
    async fn identify(&self, token: Option<&str>) -> Result<Identity>;

    /// Runs the tool `tool` with arguments that have been checked. A reading call may be dropped at any
    /// point; a writing one runs to its end even when nobody waits for it.
    ///
    /// # Errors
    /// Whatever the command says.
    async fn call(&self, tool: &str, arguments: Map<String, Value>, context: &CallContext) -> Result<Value>;

    /// Runs an operation that is no tool: what the command line does for the operator.
    ///
    /// # Errors
    /// `NOT_FOUND` for an operation that doesn't exist; whatever the command says.
    async fn operate(&self, operation: &str, arguments: Map<String, Value>, context: &CallContext) -> Result<Value>;

    /// What is put behind every tool name.
    async fn suffix(&self) -> String;

    /// Returns once [`suffix`](Self::suffix) is another than `known`, with what it is then. May be dropped at any
    /// point.
    async fn suffix_after(&self, known: &str) -> String;
}
