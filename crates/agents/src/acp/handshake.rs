//! From a started process to a conversation that takes prompts: initialize, log in where that works
//! without a person, open or take up the session, set mode and model.

use super::pump::Stream;
use super::rpc::{Failure, call};
use crate::contract::{Launch, McpServer};
use crate::emit::Emitter;
use agent_client_protocol::Agent;
use agent_client_protocol::v1::ConnectionTo;
use serde_json::{Map, Value, json};

/// Modes in which a model decides about permissions, and those of the same agents in which the client is asked: there
/// the profile's policy decides.
const ASKING: &[(&str, &str)] = &[("auto", "default"), ("agent", "workspace-write")];

/// What the handshake came to.
#[derive(Debug)]
pub(super) struct Opened {
    /// The agent's id of the conversation.
    pub session_id: String,
    /// Whether it is the one of before.
    pub resumed: bool,
    /// A system prompt that the agent couldn't be given as such: goes before the first prompt.
    pub preface: Option<String>,
}

/// Does it all.
pub(super) async fn open(cx: &ConnectionTo<Agent>, launch: &Launch, stream: &Stream, emitter: &Emitter) -> Result<Opened, Failure> {
    let hello = call(cx, "initialize", initialize()).await?;
    let agent = Offer { hello: &hello, launch };
    if !launch.mcp_servers.is_empty() && !agent.has("mcpCapabilities/http") {
        let text = "The agent doesn't take MCP servers over HTTP: it works without Taskyard's tools";
        emitter.notice("warning", text).await;
    }
    if launch.max_turns.is_some() {
        emitter.notice("info", "Agents of this protocol take no limit of turns; the profile's is not applied").await;
    }
    let opened = match session(cx, &agent, stream, emitter).await {
        Err(failure) if failure.is_auth() => {
            let Some(method) = agent.key_method() else { return Err(failure) };
            call(cx, "authenticate", json!({ "methodId": method })).await?;
            session(cx, &agent, stream, emitter).await?
        }
        other => other?,
    };
    let (answer, session_id, resumed) = opened;
    let settings = Settings { cx, session_id: &session_id, answer: &answer };
    let mode = launch.mode.as_deref().or_else(|| settings.asking_mode());
    for (what, wanted) in [("mode", mode), ("model", launch.model.as_deref())] {
        if let Some(wanted) = wanted
            && let Err(reason) = settings.choose(what, wanted).await
        {
            emitter.notice("warning", format!("The agent's {what} couldn't be set to {wanted}: {reason}")).await;
        }
    }
    let preface = launch.system_prompt.clone().filter(|_| !resumed && !agent.has("sessionCapabilities/systemPrompt"));
    Ok(Opened { session_id, resumed, preface })
}

/// No file system and no terminal: agents work in the worktree themselves, through its hooks and its git.
fn initialize() -> Value {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "taskyard", "title": "Taskyard", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Takes up the conversation of before where there is one and the agent can, else begins one.
async fn session(
    cx: &ConnectionTo<Agent>,
    agent: &Offer<'_>,
    stream: &Stream,
    emitter: &Emitter,
) -> Result<(Value, String, bool), Failure> {
    if let Some(resume) = &agent.launch.resume {
        let id = resume.agent_session_id.as_str();
        match take_up(cx, agent, stream, id).await {
            Ok(answer) => return Ok((answer, id.to_owned(), true)),
            Err(failure) if failure.closed || failure.is_auth() => return Err(failure),
            Err(failure) => {
                let text = format!("The earlier conversation couldn't be taken up, a new one begins: {}", failure.text);
                emitter.notice("warning", text).await;
            }
        }
    }
    let answer = call(cx, "session/new", agent.session_params(None)).await?;
    match answer["sessionId"].as_str() {
        Some(id) => Ok((answer.clone(), id.to_owned(), false)),
        None => Err(Failure::own("the agent's answer to session/new has no sessionId")),
    }
}

async fn take_up(cx: &ConnectionTo<Agent>, agent: &Offer<'_>, stream: &Stream, id: &str) -> Result<Value, Failure> {
    if agent.has("sessionCapabilities/resume") {
        return call(cx, "session/resume", agent.session_params(Some(id))).await;
    }
    if agent.has("loadSession") {
        stream.begin_replay();
        return call(cx, "session/load", agent.session_params(Some(id))).await;
    }
    Err(Failure::own("the agent can't"))
}

/// What the agent said it can.
struct Offer<'a> {
    hello: &'a Value,
    launch: &'a Launch,
}

impl Offer<'_> {
    /// Whether a capability is offered: `true` or an object.
    fn has(&self, path: &str) -> bool {
        let capability = self.hello.pointer(&format!("/agentCapabilities/{path}"));
        capability.is_some_and(|value| value.as_bool().unwrap_or(value.is_object()))
    }

    fn session_params(&self, id: Option<&str>) -> Value {
        let mut params = Map::new();
        params.insert("cwd".into(), json!(self.launch.cwd));
        let servers = self.launch.mcp_servers.iter().filter(|_| self.has("mcpCapabilities/http")).map(mcp_server);
        params.insert("mcpServers".into(), servers.collect());
        if let Some(id) = id {
            params.insert("sessionId".into(), json!(id));
        }
        if !self.launch.writable_dirs.is_empty() && self.has("sessionCapabilities/additionalDirectories") {
            params.insert("additionalDirectories".into(), json!(self.launch.writable_dirs));
        }
        if let Some(text) = &self.launch.system_prompt
            && self.has("sessionCapabilities/systemPrompt")
        {
            params.insert("systemPrompt".into(), json!({ "mode": "append", "content": [{ "type": "text", "text": text }] }));
        }
        Value::Object(params)
    }

    /// A way to log in that needs no person: by a key in the environment.
    fn key_method(&self) -> Option<&str> {
        let methods = self.hello["authMethods"].as_array()?;
        let by_key = |method: &&Value| {
            let id = method["id"].as_str().unwrap_or_default().to_lowercase().replace(['_', ' '], "-");
            match method["type"].as_str() {
                Some("env_var") => self.has_variables(method),
                None | Some("agent") => id.contains("api-key") || id.contains("apikey"),
                Some(_) => false,
            }
        };
        methods.iter().find(by_key)?["id"].as_str()
    }

    fn has_variables(&self, method: &Value) -> bool {
        let vars = method["vars"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = vars.iter().chain([&method["varName"]]).filter_map(|var| var["name"].as_str().or(var.as_str()));
        names.map(|name| self.launch.env.get(name).is_some()).reduce(|all, one| all && one).unwrap_or(false)
    }
}

fn mcp_server(server: &McpServer) -> Value {
    let headers: Vec<Value> = server.headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "type": "http", "name": server.name, "url": server.url, "headers": headers })
}

/// What can be chosen in an open session.
struct Settings<'a> {
    cx: &'a ConnectionTo<Agent>,
    session_id: &'a str,
    answer: &'a Value,
}

impl Settings<'_> {
    /// Sets the mode or the model to `wanted`, by whichever way the agent offers; else why not.
    async fn choose(&self, what: &str, wanted: &str) -> Result<(), String> {
        if let Some((option, value)) = self.option(what, wanted) {
            let params = json!({ "sessionId": self.session_id, "configId": option, "value": value });
            return self.set("session/set_config_option", params).await;
        }
        let (place, list, id, method, param) = match what {
            "mode" => ("modes", "availableModes", "id", "session/set_mode", "modeId"),
            _ => ("models", "availableModels", "modelId", "session/set_model", "modelId"),
        };
        let offered = self.answer[place][list].as_array().map(Vec::as_slice).unwrap_or_default();
        match matching(offered, id, wanted) {
            Some(value) => self.set(method, json!({ "sessionId": self.session_id, param: value })).await,
            None => Err(known(offered.iter().chain(self.values(what)).filter_map(|value| value[id].as_str().or(value["value"].as_str())))),
        }
    }

    /// The mode to take when none is chosen and the agent would decide about permissions without asking.
    fn asking_mode(&self) -> Option<&'static str> {
        let current = self.answer["modes"]["currentModeId"].as_str();
        let current = current.or_else(|| self.options("mode").find_map(|option| option["currentValue"].as_str()))?;
        let (_, asking) = ASKING.iter().find(|(deciding, _)| *deciding == current)?;
        let listed = self.answer["modes"]["availableModes"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let offered = listed.map(|mode| &mode["id"]).chain(self.values("mode").map(|value| &value["value"]));
        offered.into_iter().any(|id| id == asking).then_some(asking)
    }

    async fn set(&self, method: &str, params: Value) -> Result<(), String> {
        call(self.cx, method, params).await.map(|_| ()).map_err(|failure| failure.text)
    }

    fn options(&self, what: &str) -> impl Iterator<Item = &Value> {
        let options = self.answer["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        options.iter().filter(move |option| option["category"] == what || option["id"] == what)
    }

    /// All values of the options for `what`, those in groups too.
    fn values(&self, what: &str) -> impl Iterator<Item = &Value> {
        self.options(what).flat_map(option_values)
    }

    fn option(&self, what: &str, wanted: &str) -> Option<(&str, &str)> {
        self.options(what).find_map(|option| {
            let values: Vec<Value> = option_values(option).cloned().collect();
            let value = matching(&values, "value", wanted)?.to_owned();
            let value = option_values(option).find_map(|offered| offered["value"].as_str().filter(|offered| *offered == value))?;
            Some((option["id"].as_str()?, value))
        })
    }
}

fn option_values(option: &Value) -> impl Iterator<Item = &Value> {
    let list = option["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().flat_map(|entry| match entry["options"].as_array() {
        Some(group) => group.iter(),
        None => std::slice::from_ref(entry).iter(),
    })
}

/// The id among `offered` that `wanted` means: the same id, else the same name, letter case aside.
fn matching<'a>(offered: &'a [Value], id: &str, wanted: &str) -> Option<&'a str> {
    let same = |text: &Value| text.as_str().is_some_and(|text| text.eq_ignore_ascii_case(wanted));
    let exact = offered.iter().find(|value| value[id] == wanted);
    let alike = || offered.iter().find(|value| same(&value[id]) || same(&value["name"]));
    exact.or_else(alike)?[id].as_str()
}

fn known<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let ids: Vec<&str> = ids.collect();
    if ids.is_empty() { "it offers none to choose".into() } else { format!("it knows {}", ids.join(", ")) }
}
