//! The agent's side of ACP: handshake, sessions, one task per turn, cancelling.

use super::mcp::Server;
use super::peer::{Answer, Peer, error};
use super::scenario::{Login, Scenario};
use super::state::{self, Journal};
use super::turn::Turn;
use super::{API_KEY, nasty};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{mpsc, watch};

const AUTH_REQUIRED: i32 = -32000;
const NO_RESOURCE: i32 = -32002;

/// One open session.
pub(super) struct Session {
    pub id: String,
    pub cwd: PathBuf,
    pub servers: Vec<Server>,
    /// The system prompt it was given.
    pub system: String,
    pub journal: Mutex<Journal>,
    /// Turns that began.
    pub turns: Mutex<usize>,
    /// Counts cancels.
    pub cancels: watch::Sender<u64>,
    /// Where steering messages go while a turn runs.
    pub steering: Mutex<Option<mpsc::UnboundedSender<String>>>,
}

/// The agent.
pub(super) struct Agent {
    pub scenario: Scenario,
    pub peer: Peer,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    logged_in: AtomicBool,
    opened: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until standard input ends.
pub(super) async fn serve(scenario: Scenario) -> ExitCode {
    if scenario.agent.ignore_sigterm {
        nasty::ignore_sigterm();
    }
    let agent = Arc::new(Agent {
        scenario,
        peer: Peer::default(),
        sessions: Mutex::default(),
        logged_in: AtomicBool::new(false),
        opened: AtomicU64::new(0),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            agent.message(message);
        }
    }
    if agent.scenario.agent.ignore_eof {
        std::future::pending::<()>().await;
    }
    // Turns that still run mustn't keep the process.
    std::process::exit(0)
}

impl Agent {
    fn message(self: &Arc<Self>, message: Value) {
        let id = message.get("id").cloned();
        match (message["method"].as_str(), id) {
            (None, _) => self.peer.answered(&message),
            (Some("session/cancel"), None) => {
                if let Some(session) = self.session(&message["params"]) {
                    session.cancels.send_modify(|count| *count += 1);
                }
            }
            (Some(_), None) => {}
            (Some("session/prompt"), Some(id)) => self.prompt(id, &message["params"]),
            (Some("initialize"), Some(_)) if self.scenario.agent.silent_start => {}
            (Some(method), Some(id)) => {
                let answer = self.request(method, &message["params"]);
                self.peer.answer(&id, answer);
            }
        }
    }

    fn session(&self, params: &Value) -> Option<Arc<Session>> {
        lock(&self.sessions).get(params["sessionId"].as_str()?).cloned()
    }

    fn request(&self, method: &str, params: &Value) -> Answer {
        match method {
            "initialize" => Ok(self.initialize()),
            "authenticate" => self.authenticate(params),
            "session/new" => self.new_session(params),
            "session/load" => self.load(params, true),
            "session/resume" => self.load(params, false),
            "session/set_mode" => self.set(params, &self.scenario.agent.modes, "modeId"),
            "session/set_config_option" => self.set(params, &self.scenario.agent.models, "value"),
            "_session/steering" if self.scenario.agent.steering => self.steer(params),
            _ => Err(error(-32601, format!("Method not found: {method}"))),
        }
    }

    fn initialize(&self) -> Value {
        let traits = &self.scenario.agent;
        let mut sessions = json!({});
        if traits.extras {
            sessions = json!({ "additionalDirectories": {}, "systemPrompt": {} });
        }
        if traits.resume {
            sessions["resume"] = json!({});
        }
        let methods = match traits.login {
            Login::None => json!([]),
            Login::Person => json!([{ "id": "browser", "name": "Log in with a browser" }]),
            Login::Key => json!([{ "id": "browser", "name": "Log in" }, { "id": "api-key", "name": "Use an API key" }]),
        };
        json!({
            "protocolVersion": 1,
            "agentInfo": { "name": "taskyard-scripted-agent", "version": env!("CARGO_PKG_VERSION") },
            "agentCapabilities": {
                "loadSession": traits.load,
                "mcpCapabilities": { "http": traits.http_mcp },
                "sessionCapabilities": sessions,
            },
            "authMethods": methods,
        })
    }

    fn authenticate(&self, params: &Value) -> Answer {
        let given = std::env::var_os(API_KEY).is_some();
        if self.scenario.agent.login == Login::Key && params["methodId"] == "api-key" && given {
            self.logged_in.store(true, Ordering::Relaxed);
            return Ok(json!({}));
        }
        Err(error(AUTH_REQUIRED, "Authentication required"))
    }

    fn may_open(&self) -> Result<(), Value> {
        if self.scenario.agent.login != Login::None && !self.logged_in.load(Ordering::Relaxed) {
            return Err(error(AUTH_REQUIRED, "Authentication required"));
        }
        Ok(())
    }

    fn new_session(&self, params: &Value) -> Answer {
        self.may_open()?;
        if let Some(wrong) = &self.scenario.agent.new_error {
            return Err(json!(wrong));
        }
        let count = self.opened.fetch_add(1, Ordering::Relaxed);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let id = format!("scripted-{}-{}-{count}", now.as_nanos(), std::process::id());
        if let Some(text) = &self.scenario.agent.early_text {
            self.peer.notify("session/update", json!({ "sessionId": id, "update": chunk("agent_message_chunk", text) }));
        }
        self.open(&id, params, 0);
        let mut answer = self.offers();
        answer["sessionId"] = json!(id);
        Ok(answer)
    }

    fn load(&self, params: &Value, replay: bool) -> Answer {
        let traits = &self.scenario.agent;
        if !(if replay { traits.load } else { traits.resume }) {
            return Err(error(-32601, "Method not found"));
        }
        self.may_open()?;
        let id = params["sessionId"].as_str().unwrap_or_default();
        let past = state::past(id).ok_or_else(|| error(NO_RESOURCE, format!("Session not found: {id}")))?;
        self.open(id, params, past.turns);
        if replay {
            for update in past.updates {
                self.peer.notify("session/update", json!({ "sessionId": id, "update": update }));
            }
        }
        Ok(self.offers())
    }

    fn open(&self, id: &str, params: &Value, turns: usize) {
        let servers = params["mcpServers"].as_array().map(|all| all.iter().filter_map(Server::read).collect());
        let blocks = params["systemPrompt"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let session = Session {
            id: id.to_owned(),
            cwd: params["cwd"].as_str().map(PathBuf::from).unwrap_or_default(),
            servers: servers.unwrap_or_default(),
            system: blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
            journal: Mutex::new(Journal::open(id)),
            turns: Mutex::new(turns),
            cancels: watch::Sender::new(0),
            steering: Mutex::default(),
        };
        lock(&self.sessions).insert(id.to_owned(), Arc::new(session));
    }

    /// The modes and models, as the answers that open a session list them.
    fn offers(&self) -> Value {
        let traits = &self.scenario.agent;
        let mut answer = json!({});
        if let Some(first) = traits.modes.first() {
            let modes: Vec<Value> = traits.modes.iter().map(|mode| json!({ "id": mode, "name": mode })).collect();
            answer["modes"] = json!({ "currentModeId": first, "availableModes": modes });
        }
        if let Some(first) = traits.models.first() {
            let models: Vec<Value> = traits.models.iter().map(|model| json!({ "value": model, "name": model })).collect();
            let option =
                json!({ "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": first, "options": models });
            answer["configOptions"] = json!([option]);
        }
        answer
    }

    fn set(&self, params: &Value, known: &[String], name: &str) -> Answer {
        if !known.iter().any(|known| params[name] == *known) {
            return Err(error(-32602, format!("Unknown value {}", params[name])));
        }
        let update = chunk("agent_message_chunk", &format!("{name} is {}", params[name].as_str().unwrap_or_default()));
        self.peer.notify("session/update", json!({ "sessionId": params["sessionId"], "update": update }));
        Ok(if name == "value" { json!({ "configOptions": self.offers()["configOptions"] }) } else { json!({}) })
    }

    fn steer(&self, params: &Value) -> Answer {
        let session = self.session(params).ok_or_else(|| error(NO_RESOURCE, "Session not found"))?;
        let text = prompt_text(params);
        let taken = lock(&session.steering).as_ref().is_some_and(|turn| turn.send(text).is_ok());
        Ok(json!({ "outcome": if taken { "injected" } else { "not_running" } }))
    }

    fn prompt(self: &Arc<Self>, id: Value, params: &Value) {
        let Some(session) = self.session(params) else {
            return self.peer.answer(&id, Err(error(NO_RESOURCE, "Session not found")));
        };
        let number = {
            let mut turns = lock(&session.turns);
            *turns += 1;
            *turns - 1
        };
        // A turn counts from its start, so that a crash doesn't repeat it.
        lock(&session.journal).turn();
        let prompt = prompt_text(params);
        let steps = match self.scenario.steps(number, &prompt) {
            Ok(steps) => steps,
            Err(problem) => return self.peer.answer(&id, Err(error(-32602, problem))),
        };
        let (agent, cancels) = (self.clone(), session.cancels.subscribe());
        tokio::spawn(Turn::new(agent, session, prompt, number, cancels).run(id, steps));
    }
}

fn prompt_text(params: &Value) -> String {
    let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// An update with a piece of text.
pub(super) fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}
