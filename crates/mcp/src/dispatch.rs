//! One call, from typed arguments to answer: who may, checking, running, logging.
//!
//! Both faces over HTTP (MCP and the command line's calls) come through here, so that they validate and
//! log alike.

use crate::arguments::{self, Spelling};
use crate::backend::{Backend, CallContext, Identity};
use crate::call_log::{CallLog, Entry};
use crate::schema;
use crate::tool::Tool;
use crate::tools;
use crate::toolset::Selection;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use taskyard_domain::{Class, Error, Result};
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
        let line = self.line(tool.name, &typed, &context);
        let (values, spelling) = match admitted(tool, selection, typed) {
            Ok(admitted) => admitted,
            Err(error) => return line.end(Err(error)),
        };
        let cancel = context.cancel.child_token();
        // Dropping this call, as a broken connection does, calls it off too.
        let _guard = cancel.clone().drop_guard();
        let context = CallContext { cancel: cancel.clone(), ..context };
        let call = run(self.backend.clone(), tool, values, context);
        // Told of by the task that comes to the call's end, whoever still listens.
        let work = tokio::spawn(async move { line.end(call.await) });
        // A write goes on whoever still listens, so nobody is told that it failed before it has come to its end.
        let result = tokio::select! { done = work => joined(done), () = cancel.cancelled(), if tool.read_only => Err(called_off()) };
        result.map_err(|error| spelling.restore(error))
    }

    /// Runs an operation that is no tool, for a person only.
    ///
    /// # Errors
    /// `FORBIDDEN` for a run's token; whatever the command says.
    pub async fn operation(&self, operation: &str, arguments: Map<String, Value>, context: CallContext) -> Result<Value> {
        let line = self.line(operation, &arguments, &context);
        match self.backend.identify(context.token.as_deref()).await {
            Ok(Identity::Run) => return line.end(Err(Error::forbidden(format!("{operation} is the operator's, not an agent's")))),
            Ok(Identity::Person) => {}
            Err(error) => return line.end(Err(error)),
        }
        let (backend, operation) = (self.backend.clone(), operation.to_owned());
        let work = tokio::spawn(async move { line.end(backend.operate(&operation, arguments, &context).await) });
        joined(work.await)
    }

    fn line(&self, call: &str, arguments: &Map<String, Value>, context: &CallContext) -> Line {
        let mut names: Vec<String> = arguments.keys().cloned().collect();
        names.sort_unstable();
        let (log, connection) = (self.log.clone(), context.connection.clone());
        Line { log, call: call.to_owned(), connection, names, started: Instant::now(), is_told: false }
    }
}

/// What a caller who sees `selection` may ask `tool`, in the words that it is called with.
fn admitted(tool: &'static Tool, selection: &Selection, typed: Map<String, Value>) -> Result<(Map<String, Value>, Spelling)> {
    if !selection.contains(tool) {
        return Err(selection.refusal(tool));
    }
    arguments::check(tool, typed)
}

/// A call's line in the log, written once it has come to its end, also when that is a panic.
struct Line {
    log: Option<Arc<CallLog>>,
    call: String,
    connection: String,
    names: Vec<String>,
    started: Instant,
    is_told: bool,
}

impl Line {
    fn end(mut self, result: Result<Value>) -> Result<Value> {
        self.tell(result.as_ref().map_or_else(|error| error.class.code(), |_| "ok"));
        if let Ok(answer) = &result
            && let Some(breach) = tools::find(&self.call).and_then(|tool| schema::breach(tool, answer))
        {
            tracing::error!(breach, "an answer breaks its published schema");
        }
        result
    }

    fn tell(&mut self, outcome: &'static str) {
        self.is_told = true;
        let (call, connection, names) = (self.call.as_str(), self.connection.as_str(), &self.names);
        let milliseconds = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if outcome == "ok" {
            tracing::debug!(call, connection, milliseconds, arguments = names.join(","), "call");
        } else {
            tracing::info!(call, connection, milliseconds, outcome, arguments = names.join(","), "call");
        }
        if let Some(log) = &self.log {
            log.write(&Entry { call, connection, milliseconds, outcome, arguments: names });
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Class::Internal.code());
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
