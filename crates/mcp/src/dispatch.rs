//! One call, from typed arguments to answer: who may, checking, running, logging.
//!
//! Both faces over HTTP (MCP and the command line's calls) come through here, so that they validate and
//! log alike.

use crate::arguments;
use crate::backend::{Backend, CallContext, Identity};
use crate::call_log::{CallLog, Entry};
use crate::schema;
use crate::tool::Tool;
use crate::toolset::Selection;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use taskyard_domain::{Error, Result};
use tokio::time::Instant;

/// How long a reading call may go on after its caller has gone.
const GRACE: Duration = Duration::from_millis(200);

/// Runs calls on a backend. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    backend: Arc<dyn Backend>,
    log: Option<Arc<CallLog>>,
}

impl Dispatcher {
    /// Calls go to `backend`.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, log: None }
    }

    /// The same, with a line in `log` for every call.
    #[must_use]
    pub fn with_log(mut self, log: CallLog) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// What stands behind the calls.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Runs `tool` for a caller who sees `selection`.
    ///
    /// # Errors
    /// `FORBIDDEN` outside the selection, `INVALID_ARGUMENT` before anything happens, whatever the command
    /// says, and `UNAVAILABLE` when the caller called a read off, or the server is stopping.
    pub async fn tool(&self, tool: &'static Tool, selection: &Selection, typed: Map<String, Value>, context: CallContext) -> Result<Value> {
        let names = typed.keys().cloned().collect();
        let connection = context.connection.clone();
        let started = Instant::now();
        let result = self.checked(tool, selection, typed, context).await;
        self.record(tool.name, connection, names, started.elapsed(), &result);
        if let Ok(answer) = &result
            && let Some(breach) = schema::breach(tool, answer)
        {
            tracing::error!(breach, "an answer breaks its published schema");
        }
        result
    }

    async fn checked(&self, tool: &'static Tool, selection: &Selection, typed: Map<String, Value>, context: CallContext) -> Result<Value> {
        if !selection.contains(tool) {
            return Err(selection.refusal(tool));
        }
        let (values, spelling) = arguments::check(tool, typed)?;
        let cancel = context.cancel.child_token();
        // Dropping this call, as a broken connection does, calls it off too.
        let _guard = cancel.clone().drop_guard();
        let context = CallContext { cancel: cancel.clone(), ..context };
        let work = tokio::spawn(run(self.backend.clone(), tool, values, context));
        // A write goes on whoever still listens, so nobody is told that it failed before it has come to its end.
        let result = tokio::select! { done = work => joined(done), () = cancel.cancelled(), if tool.read_only => Err(called_off()) };
        result.map_err(|error| spelling.restore(error))
    }

    /// Runs an operation that is no tool, for a person only.
    ///
    /// # Errors
    /// `FORBIDDEN` for a run's token; whatever the command says.
    pub async fn operation(&self, operation: &str, arguments: Map<String, Value>, context: CallContext) -> Result<Value> {
        let names = arguments.keys().cloned().collect();
        let connection = context.connection.clone();
        let started = Instant::now();
        let result = self.operated(operation, arguments, context).await;
        self.record(operation, connection, names, started.elapsed(), &result);
        result
    }

    async fn operated(&self, operation: &str, arguments: Map<String, Value>, context: CallContext) -> Result<Value> {
        if self.backend.identify(context.token.as_deref()).await? == Identity::Run {
            return Err(Error::forbidden(format!("{operation} is the operator's, not an agent's")));
        }
        let (backend, operation) = (self.backend.clone(), operation.to_owned());
        let work = tokio::spawn(async move { backend.operate(&operation, arguments, &context).await });
        joined(work.await)
    }

    fn record(&self, call: &str, connection: String, mut names: Vec<String>, took: Duration, result: &Result<Value>) {
        names.sort_unstable();
        let outcome = match result {
            Ok(_) => "ok",
            Err(error) => error.class.code(),
        };
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if result.is_ok() {
            tracing::debug!(call, connection, milliseconds, arguments = names.join(","), "call");
        } else {
            tracing::info!(call, connection, milliseconds, outcome, arguments = names.join(","), "call");
        }
        if let Some(log) = &self.log {
            log.write(&Entry { call, connection: &connection, milliseconds, outcome, arguments: &names });
        }
    }
}

/// Runs a call to its end. A write whose caller has gone is finished, not torn; a read gets a moment to wind
/// up and is dropped.
async fn run(backend: Arc<dyn Backend>, tool: &'static Tool, values: Map<String, Value>, context: CallContext) -> Result<Value> {
    let cancel = context.cancel.clone();
    let mut work = backend.call(tool.name, values, &context);
    tokio::select! {
        done = &mut work => done,
        () = cancel.cancelled(), if tool.read_only => tokio::time::timeout(GRACE, work).await.unwrap_or_else(|_| Err(called_off())),
    }
}

fn joined(done: std::result::Result<Result<Value>, tokio::task::JoinError>) -> Result<Value> {
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a call broke off");
        Err(Error::internal("the call broke off by a fault of the server; its log says where"))
    })
}

fn called_off() -> Error {
    Error::unavailable("the call was cancelled")
}
