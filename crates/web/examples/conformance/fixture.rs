//! The protocol handler of the fixture: hands each request to the tools, questions, resources and prompts.
//!
//! Shares one seal and one signal of changes between all connections; keeps nothing else.

#![expect(deprecated, reason = "the suites of the older revisions ask for logging")]

use crate::asking::{self, Replies, Seal};
use crate::{content, shelf, tools};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientResult, CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, ServerRequest, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// The pause that the suite wants between two reports.
const STEP: Duration = Duration::from_millis(50);

/// What can change while somebody listens.
#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// The handler. A clone serves each connection or request.
#[derive(Clone)]
pub struct Fixture {
    seal: Arc<Seal>,
    changes: broadcast::Sender<Change>,
    shutdown: CancellationToken,
}

impl Fixture {
    /// Subscriptions end with `shutdown`.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { seal: Arc::default(), changes: broadcast::channel(16).0, shutdown }
    }

    /// Tools that report, ask the client directly or change something; `None` for another.
    async fn act(&self, name: &str, arguments: &JsonObject, context: &RequestContext<RoleServer>) -> Option<Result<Value, ErrorData>> {
        let given = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = match name {
            "test_tool_with_logging" | "test_logging_tool" => log_thrice(name, context).await,
            "test_tool_with_progress" => report(context).await,
            "test_sampling" => {
                let params = asking::sampling(&given("prompt"), 100);
                request(context, "sampling/createMessage", params).await.map(|reply| format!("LLM response: {}", reply["content"]["text"]))
            }
            "test_elicitation" => {
                let fields = json!({ "username": { "type": "string", "description": "User's response" },
                    "email": { "type": "string", "description": "User's email address" } });
                let schema = json!({ "type": "object", "properties": fields, "required": ["username", "email"] });
                elicit(context, &given("message"), schema).await.map(|reply| format!("User response: {reply}"))
            }
            "test_elicitation_sep1034_defaults" => elicited(context, tools::defaults()).await,
            "test_elicitation_sep1330_enums" => elicited(context, tools::choices()).await,
            "test_missing_capability" => match capabilities(context).get("sampling") {
                Some(_) => Ok("sampling is there".to_owned()),
                None => Err(ErrorData::missing_required_client_capability(shape(json!({ "sampling": {} })))),
            },
            "test_trigger_tool_change" => Ok(self.announce(Change::Tools)),
            "test_trigger_prompt_change" => Ok(self.announce(Change::Prompts)),
            _ => return None,
        };
        Some(text.map(|text| json!({ "content": [content::text(text)] })))
    }

    fn announce(&self, change: Change) -> String {
        let listeners = self.changes.send(change).unwrap_or(0);
        format!("{listeners} listeners were told")
    }
}

/// A value of the protocol from its JSON.
fn shape<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value that the protocol knows")
}

/// A whole result from its JSON. The SDK takes the mark away for peers that don't know it.
fn complete<T: DeserializeOwned>(mut result: Value) -> T {
    result["resultType"] = "complete".into();
    shape(result)
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// What the client says it can do, as JSON.
fn capabilities(context: &RequestContext<RoleServer>) -> Value {
    context.client_capabilities().map_or(Value::Null, |all| serde_json::to_value(all).expect("capabilities"))
}

/// Three messages to the client's log. Since 2026-07-28 only for a request that asks for them.
async fn log_thrice(name: &str, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    let wanted = if is_modern(context) { context.meta.log_level().is_some() } else { name == "test_tool_with_logging" };
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, message.into());
            context.peer.notify_logging_message(message).await.map_err(broken)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok("Logged".to_owned())
}

async fn report(context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            context.peer.notify_progress(ProgressNotificationParam::new(token, done).with_total(100.0)).await.map_err(broken)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok("Done".to_owned())
}

fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(format!("the client can't be reached: {error}"), None)
}

async fn elicited(context: &RequestContext<RoleServer>, schema: Value) -> Result<String, ErrorData> {
    let reply = elicit(context, "Please fill this in", schema).await?;
    Ok(format!("Elicitation completed: action={}, content={}", reply["action"].as_str().unwrap_or_default(), reply["content"]))
}

async fn elicit(context: &RequestContext<RoleServer>, message: &str, schema: Value) -> Result<Value, ErrorData> {
    request(context, "elicitation/create", json!({ "message": message, "requestedSchema": schema })).await
}

/// Sends a request to the client, as servers could until 2025-11-25.
async fn request(context: &RequestContext<RoleServer>, method: &str, params: Value) -> Result<Value, ErrorData> {
    let request: ServerRequest = shape(json!({ "method": method, "params": params }));
    let reply: ClientResult = context.peer.send_request(request).await.map_err(broken)?;
    serde_json::to_value(reply).map_err(broken)
}

/// The JSON of a tool's result.
fn told(text: String) -> Value {
    json!({ "content": [content::text(text)] })
}

impl taskyard_mcp::transport::ProtocolHandler for Fixture {}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities: ServerCapabilities = shape(json!({
            "completions": {},
            "logging": {},
            "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
            "tools": { "listChanged": true },
        }));
        ServerConfig::new(capabilities).with_server_info(Implementation::new("taskyard-conformance", env!("CARGO_PKG_VERSION")))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(&self, params: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let name = params.name.as_ref();
        if let Some(answer) = tools::answer(name) {
            return Ok(CallToolResponse::Complete(complete(answer)));
        }
        let replies = Replies { responses: params.input_responses.as_ref(), state: params.request_state.as_deref() };
        if let Some(outcome) = asking::run(name, &replies, &capabilities(&context), &self.seal) {
            return Ok(match outcome? {
                Ok(text) => CallToolResponse::Complete(complete(told(text))),
                Err(question) => CallToolResponse::InputRequired(question),
            });
        }
        let arguments = params.arguments.clone().unwrap_or_default();
        match self.act(name, &arguments, &context).await {
            Some(result) => Ok(CallToolResponse::Complete(complete(result?))),
            None => Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None)),
        }
    }

    async fn list_prompts(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(shape(shelf::prompts())))
    }

    async fn get_prompt(&self, params: GetPromptRequestParams, _: RequestContext<RoleServer>) -> Result<GetPromptResponse, ErrorData> {
        if params.name == "test_input_required_result_prompt" {
            let replies = Replies { responses: params.input_responses.as_ref(), state: params.request_state.as_deref() };
            return Ok(match asking::filled(&replies, "user_context") {
                Some(context) => GetPromptResponse::Complete(complete(shelf::messages(vec![content::text(format!("Context: {context}"))]))),
                None => {
                    let question = asking::form("user_context", "What context should the prompt use?", "context", "string");
                    GetPromptResponse::InputRequired(asking::ask(vec![question], None))
                }
            });
        }
        let arguments: Map<String, Value> = shape(json!(params.arguments.clone().unwrap_or_default()));
        match shelf::prompt(&params.name, &arguments) {
            Some(prompt) => Ok(GetPromptResponse::Complete(complete(prompt))),
            None => Err(ErrorData::invalid_params(format!("Unknown prompt: {}", params.name), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(shape(shelf::resources())))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(shape(shelf::templates())))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match shelf::read(&params.uri) {
            Some(resource) => Ok(ReadResourceResponse::Complete(complete(resource))),
            None => Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": params.uri })))),
        }
    }

    async fn complete(&self, _: CompleteRequestParams, _: RequestContext<RoleServer>) -> Result<CompleteResult, ErrorData> {
        Ok(complete(json!({ "completion": { "values": ["paris", "park", "party"], "total": 3, "hasMore": false } })))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = context.cancelled() => return Ok(()),
                () = self.shutdown.cancelled() => return Ok(()),
            };
            let (sink, accepted) = (context.sink(), context.accepted());
            let sent = match change {
                Ok(Change::Tools) if accepted.tools_list_changed == Some(true) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) if accepted.prompts_list_changed == Some(true) => sink.notify_prompt_list_changed().await,
                _ => Ok(()),
            };
            sent.map_err(broken)?;
        }
    }
}
