//! The protocol handler over the registry: what a connection lists and calls.
//!
//! Which tools a caller sees is decided per request from its URL and token, so it is the same for every
//! protocol revision and survives restarts. Owns nothing.

use crate::announcing::Announcing;
use crate::backend::{CallContext, Identity};
use crate::dispatch::Dispatcher;
use crate::tool::Tool;
use crate::toolset::Selection;
use crate::transport::{BriefCall, Departure, ProtocolHandler};
use crate::{result, schema, tools};
use http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode, ErrorData,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use std::time::Duration;
use taskyard_domain::{Face, Result};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// For those who write tasks and decide on them.
const FOR_A_PERSON: &str = "Taskyard runs coding agents on tasks, each in its own git worktree. \
Find a list with list_task_lists, write tasks with add_task (queue: true starts them), wait with wait_for_task_change, \
read the work with get_task_diff, check it with preview_merge, land it with review_task. \
Tasks are named by UUID or short id such as TY-42.";

/// For an agent of somebody's own that takes work from the backlog.
const FOR_A_CLAIMER: &str = "Taskyard keeps a backlog that agents take their work from. \
Claim a task with claim_task or claim_next_task before you begin, do what its workflow_prompt says, \
and end the claim with complete_task (abandoned gives it back). list_backlog shows what there is, create_object adds to it.";
/// For an agent that Taskyard runs, and whoever sees only some of the tools.
const FOR_AN_AGENT: &str = "Taskyard runs coding agents on tasks, each in its own git worktree. \
Tasks are named by UUID or short id such as TY-42.";

/// What a connection is told that sees these tools: only of tools that it has.
fn instructions(selection: &Selection) -> &'static str {
    let has = |tool: &str| tools::find(tool).is_some_and(|tool| selection.contains(tool));
    let names_only_what_is_there = |text: &&str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| tools::find(word).is_some()).all(has)
    };
    [FOR_A_PERSON, FOR_A_CLAIMER].into_iter().find(names_only_what_is_there).unwrap_or(FOR_AN_AGENT)
}

/// The handler of one connection or request. Cheap to clone.
#[derive(Clone)]
pub struct Handler {
    dispatcher: Dispatcher,
    progress_every: Duration,
    shutdown: CancellationToken,
    announcing: Announcing,
}

impl Handler {
    /// Calls go through `dispatcher`; long ones report progress every `progress_every`. Those who listen are let go
    /// with `shutdown`.
    pub fn new(dispatcher: Dispatcher, progress_every: Duration, shutdown: CancellationToken) -> Self {
        Self { dispatcher, progress_every, shutdown, announcing: Announcing::default() }
    }

    async fn selection(&self, parts: Option<&Parts>) -> Result<Selection> {
        let token = parts.and_then(bearer);
        match self.dispatcher.backend().identify(token.as_deref()).await {
            Ok(Identity::Person) => Selection::from_query(parts.and_then(|p| p.uri.query()).unwrap_or("")),
            // A token that is dead lists what a live one would; its calls say what is wrong.
            Ok(Identity::Run) | Err(_) => Ok(Selection::agent()),
        }
    }

    async fn instructions(&self, parts: Option<&Parts>) -> &'static str {
        self.selection(parts).await.map_or(FOR_AN_AGENT, |selection| instructions(&selection))
    }

    async fn find(&self, name: &str) -> Option<&'static Tool> {
        if let Some(tool) = find_plain(name) {
            return Some(tool);
        }
        let suffix = self.dispatcher.backend().suffix().await;
        name.strip_suffix(suffix.as_str()).and_then(tools::find).or_else(|| tools::find(name))
    }

    /// Makes a call until it is done, or `cancel` calls it off, its caller goes or the server stops.
    async fn call(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        parts: Option<&Parts>,
        cancel: CancellationToken,
    ) -> std::result::Result<CallToolResult, ErrorData> {
        let selection = self.selection(parts).await.map_err(|e| ErrorData::invalid_params(e.message, None))?;
        let departure = parts.and_then(|p| p.extensions.get::<Departure>()).cloned();
        let call = CallContext {
            token: parts.and_then(bearer),
            face: Face::Mcp,
            workspace: None,
            connection: connection(parts),
            cancel: cancel.clone(),
        };
        let work = self.dispatcher.tool(tool, &selection, arguments, call);
        tokio::pin!(work);
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = over(departure.as_ref(), &self.shutdown) => {
                cancel.cancel();
                work.await
            }
        };
        Ok(result::result(outcome))
    }

    /// Sends progress until the handle is dropped. A task of its own: a slow reader delays only progress.
    fn heartbeat(&self, context: &RequestContext<RoleServer>) -> Option<AbortOnDropHandle<()>> {
        let token = context.meta.get_progress_token()?;
        let (peer, every) = (context.peer.clone(), self.progress_every);
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut waited = Duration::ZERO;
            loop {
                tokio::time::sleep(every).await;
                waited += every;
                let message = format!("still working after {} s", waited.as_secs());
                let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64()).with_message(message);
                if peer.notify_progress(progress).await.is_err() {
                    return;
                }
            }
        })))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new("taskyard", env!("CARGO_PKG_VERSION")))
            .with_instructions(FOR_AN_AGENT)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut answer = self.negotiate_initialize(&request)?;
        answer.instructions = Some(self.instructions(context.extensions.get::<Parts>()).await.into());
        Ok(answer)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> std::result::Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        info.instructions = Some(self.instructions(context.extensions.get::<Parts>()).await.into());
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let selection = self.selection(context.extensions.get::<Parts>()).await.map_err(|e| ErrorData::invalid_params(e.message, None))?;
        let suffix = self.dispatcher.backend().suffix().await;
        let tools = selection.tools().into_iter().map(|tool| schema::listed(tool, &suffix)).collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(60_000).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.find(&request.name).await else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        };
        let _heartbeat = self.heartbeat(&context);
        let arguments = request.arguments.unwrap_or_default();
        Ok(self.call(tool, arguments, context.extensions.get::<Parts>(), context.ct.child_token()).await?.into())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.announcing.start(self.dispatcher.clone(), context.peer).await;
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> std::result::Result<(), ErrorData> {
        let backend = self.dispatcher.backend();
        let mut suffix = backend.suffix().await;
        let wanted = context.accepted().tools_list_changed == Some(true);
        loop {
            tokio::select! {
                now = backend.suffix_after(&suffix), if wanted => suffix = now,
                () = context.cancelled() => return Ok(()),
                () = self.shutdown.cancelled() => return Ok(()),
            }
            if context.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<CustomResult, ErrorData> {
        // A known method whose parameters don't fit arrives here.
        if request.method == "tools/call" {
            return Err(ErrorData::invalid_params("tools/call takes {name: text, arguments: object}", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

impl ProtocolHandler for Handler {
    fn brief(&self, tool: &str) -> Option<BriefCall> {
        let (handler, tool) = (self.clone(), find_plain(tool).filter(|tool| tool.brief)?);
        Some(Box::new(move |arguments, parts, cancel| Box::pin(async move { handler.call(tool, arguments, Some(&parts), cancel).await })))
    }
}

/// The tool that is called `name` whatever the suffix is: only a name that another tool's begins can mean that tool
/// with the suffix.
fn find_plain(name: &str) -> Option<&'static Tool> {
    tools::find(name).filter(|_| tools::all().all(|tool| tool.name == name || !name.starts_with(tool.name)))
}

/// Ends when the caller's connection has gone; never without one.
async fn gone(departure: Option<&Departure>) {
    match departure {
        Some(departure) => departure.gone().await,
        None => std::future::pending().await,
    }
}

/// Ends when nobody can wait any longer: the caller has gone, or the server is stopping.
async fn over(departure: Option<&Departure>, shutdown: &CancellationToken) {
    tokio::select! {
        () = gone(departure) => {}
        () = shutdown.cancelled() => {}
    }
}

/// The bearer token of a request.
pub fn bearer(parts: &Parts) -> Option<String> {
    let value = parts.headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// What names the connection in logs: the start of its id, which alone opens nothing.
fn connection(parts: Option<&Parts>) -> String {
    let id = parts.and_then(|p| p.headers.get("mcp-session-id")).and_then(|id| id.to_str().ok());
    id.map_or_else(|| "-".to_owned(), |id| id.chars().take(8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolset::MODES;

    #[test]
    fn every_mode_is_told_of_tools_that_it_has() {
        let mut told = Vec::new();
        for (mode, _) in MODES {
            let selection = Selection::mode(mode).unwrap();
            let text = instructions(&selection);
            for tool in
                tools::all().filter(|tool| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == tool.name))
            {
                assert!(selection.contains(tool), "{mode}: {}", tool.name);
            }
            told.push((*mode, text));
        }
        let of = |mode: &str| told.iter().find(|(known, _)| *known == mode).unwrap().1;
        assert_eq!((of("external"), of("core"), of("claims"), of("agent")), (FOR_A_PERSON, FOR_A_PERSON, FOR_A_CLAIMER, FOR_AN_AGENT));
    }
}
