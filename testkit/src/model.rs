//! A stand-in for the models behind real coding agents: speaks Anthropic's Messages, `OpenAI`'s Responses and Chat
//! Completions, and Gemini on a port of 127.0.0.1, and answers by a script.
//!
//! Each scenario is played under an address of its own, with its own counters, so many agents can use one [`Model`].
//! Everything ends when it is dropped. Knows nothing of Taskyard.

mod asked;
mod chat;
mod gemini;
mod http;
mod messages;
mod play;
mod responses;
pub mod scenario;
mod tools;
mod wire;

pub use asked::Api;
pub use play::Served;

use http::{Connection, Next, Request};
use play::{Answer, Play};
use scenario::Scenario;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// The name of the model that lists of models have.
pub const NAME: &str = "scripted-model";

/// A running server.
#[derive(Debug)]
pub struct Model {
    url: String,
    plays: Arc<Mutex<BTreeMap<String, Arc<Play>>>>,
    accepting: AbortHandle,
}

/// A scenario under its address.
#[derive(Debug, Clone)]
pub struct Playing {
    url: String,
    play: Arc<Play>,
}

impl Playing {
    /// The address that agents are given instead of the vendor's; some want `/v1` behind it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far, in the order they were answered.
    pub fn served(&self) -> Vec<Served> {
        self.play.served()
    }

    /// What didn't go as the scenario needs it: replies asked for that there aren't, tools that the agent doesn't
    /// offer, addresses nobody knows. A test expects none.
    pub fn problems(&self) -> Vec<String> {
        self.play.problems()
    }

    /// How many requests had this outcome (see [`Served::outcome`]).
    pub fn count(&self, outcome: &str) -> usize {
        self.served().iter().filter(|served| served.outcome == outcome).count()
    }
}

impl Model {
    /// Starts a server on a free port of 127.0.0.1. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let plays: Arc<Mutex<BTreeMap<String, Arc<Play>>>> = Arc::default();
        let accepting = tokio::spawn(accept(listener, plays.clone())).abort_handle();
        Ok(Self { url, plays, accepting })
    }

    /// Plays a scenario under an address of its own.
    pub fn play(&self, scenario: Scenario) -> Playing {
        let mut plays = self.plays.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("play-{}", plays.len() + 1);
        let play = Arc::new(Play::new(scenario));
        plays.insert(name.clone(), play.clone());
        Playing { url: format!("{}/{name}", self.url), play }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, plays: Arc<Mutex<BTreeMap<String, Arc<Play>>>>) {
    // Connections end with this.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let plays = plays.clone();
        connections.spawn(async move {
            let mut connection = Connection::new(stream);
            // A client that hangs up is none of our business.
            while let Ok(Some(request)) = connection.request().await {
                if !matches!(answer(&mut connection, request, &plays).await, Ok(Next::Keep)) {
                    return;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(connection: &mut Connection, request: Request, plays: &Mutex<BTreeMap<String, Arc<Play>>>) -> std::io::Result<Next> {
    let with_body = request.method != "HEAD";
    let (name, path) = request.path.trim_start_matches('/').split_once('/').unwrap_or((request.path.trim_start_matches('/'), ""));
    let play = plays.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let Some(play) = play else {
        let nobody = json!({ "error": { "message": format!("nothing is played at {}", request.path) } });
        return connection.object(404, &[], &nobody, with_body).await;
    };
    let path = format!("/{path}");
    if request.method != "POST" {
        return match path.trim_end_matches('/') {
            // Claude Code looks in this way whether it is online.
            _ if !with_body => connection.object(200, &[], &json!({}), false).await,
            "" => connection.object(200, &[], &json!({}), with_body).await,
            path if path.ends_with("/models") => connection.object(200, &[], &models(path), with_body).await,
            path => unknown(connection, &play, &request.method, path).await,
        };
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if path.ends_with("/count_tokens") || path.ends_with(":countTokens") {
        let tokens = request.body.len() / 4 + 1;
        return connection.object(200, &[], &json!({ "input_tokens": tokens, "totalTokens": tokens }), true).await;
    }
    let Some(asked) = wire::parse(&path, &body) else { return unknown(connection, &play, "POST", &path).await };
    match play.answer(&asked) {
        Answer::Error(failure) => connection.object(failure.status, &failure.headers, &wire::error(asked.api, &failure), true).await,
        Answer::Reset => connection.reset().await,
        Answer::Reply(reply) if asked.streams => connection.events(&wire::stream(&asked, &reply)).await,
        Answer::Reply(reply) => connection.object(200, &[], &wire::whole(&asked, &reply), true).await,
    }
}

async fn unknown(connection: &mut Connection, play: &Play, method: &str, path: &str) -> std::io::Result<Next> {
    play.problem(format!("no model's API has {method} {path}"));
    let body = json!({ "type": "error", "error": { "type": "not_found_error", "message": format!("no such path: {path}") } });
    connection.object(404, &[], &body, true).await
}

fn models(path: &str) -> Value {
    if path.contains("v1beta") {
        let methods = ["generateContent", "streamGenerateContent"];
        let model = json!({ "name": format!("models/{NAME}"), "inputTokenLimit": 200_000, "supportedGenerationMethods": methods });
        return json!({ "models": [model] });
    }
    let model = json!({
        "id": NAME, "object": "model", "type": "model", "owned_by": "test", "display_name": NAME,
        "created": 1_767_225_600, "created_at": "2026-01-01T00:00:00Z",
    });
    json!({ "object": "list", "data": [model], "has_more": false, "first_id": NAME, "last_id": NAME })
}
