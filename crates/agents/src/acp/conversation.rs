//! The state of one conversation: prompts one after another, open permission requests, steering,
//! cancelling. One task owns it all and takes commands, the agent's questions and its answers in turn.

use super::connection::Asked;
use super::handshake::{self, Opened};
use super::pump::{Course, Stream};
use super::rpc::{Failure, call};
use super::{GRACE, ask};
use crate::contract::{Answer, Command, Event, Launch, LimitNotice, PermissionOption, TurnEnd, TurnStop};
use crate::emit::Emitter;
use crate::limits;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, UntypedMessage};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long an agent may take to end a turn that was cancelled, before its process is ended.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// How long an agent may take to answer whether it takes a steering message.
const STEER_LIMIT: Duration = Duration::from_secs(5);
/// A last message longer than this is work, not an error message in disguise.
const ERROR_TEXT: usize = 600;

/// Why a turn is over that nobody cancelled.
const BROKEN_OFF: &str = "it broke the turn off by itself, as some agents do when they are refused something";

/// What a conversation is given.
#[derive(Debug)]
pub(super) struct Context {
    pub launch: Launch,
    pub emitter: Emitter,
    pub stream: Arc<Stream>,
    pub commands: mpsc::UnboundedReceiver<Command>,
}

/// Holds the conversation from handshake to end; how long each step of ending the process may take.
pub(super) async fn run(cx: ConnectionTo<Agent>, mut context: Context, asks: mpsc::UnboundedReceiver<Asked>) -> Duration {
    let mut early = VecDeque::new();
    let handshake = handshake::open(&cx, &context.launch, &context.stream, &context.emitter);
    let opened = tokio::select! {
        opened = tokio::time::timeout(context.launch.start_limit, handshake) => opened,
        grace = closed_early(&mut context.commands, &mut early) => return grace,
        () = context.emitter.closed() => return GRACE,
    };
    let failure = match opened {
        Ok(Ok(opened)) => return Conversation::new(cx, context, opened, early).go(asks).await,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::own(format!("the agent wasn't ready within {:?}", context.launch.start_limit)),
    };
    if !failure.closed {
        if let Some(limit) = limits::notice(&failure.text) {
            context.emitter.send(Event::Limit(limit)).await;
        }
        let stop = if failure.is_auth() { TurnStop::AuthRequired } else { TurnStop::Failed };
        let end = TurnEnd { stop, errors: vec![failure.text], last_text: String::new() };
        context.emitter.send(Event::TurnEnded(end)).await;
    }
    GRACE
}

/// Puts commands aside until one ends the agent.
async fn closed_early(commands: &mut mpsc::UnboundedReceiver<Command>, early: &mut VecDeque<Command>) -> Duration {
    loop {
        match commands.recv().await {
            Some(Command::Close { grace }) => return grace,
            Some(command) => early.push_back(command),
            None => return GRACE,
        }
    }
}

/// A turn that runs.
struct Turn {
    answer: BoxFuture<'static, Result<Value, Failure>>,
    /// Set by a cancel: when the process is ended if the turn still runs.
    deadline: Option<Instant>,
}

struct Open {
    options: Vec<PermissionOption>,
    responder: Responder<Value>,
}

struct Conversation {
    cx: ConnectionTo<Agent>,
    emitter: Emitter,
    stream: Arc<Stream>,
    commands: mpsc::UnboundedReceiver<Command>,
    early: VecDeque<Command>,
    session_id: String,
    resumed: bool,
    preface: Option<String>,
    turn: Option<Turn>,
    prompts: VecDeque<String>,
    permissions: BTreeMap<String, Open>,
    asked: u64,
    withdrawals: FuturesUnordered<BoxFuture<'static, String>>,
    /// Steering messages on their way, by number.
    steers: BTreeMap<u64, String>,
    steered: u64,
    /// A message's number and whether it was taken.
    steering: FuturesUnordered<BoxFuture<'static, (u64, bool)>>,
}

/// What woke the conversation.
enum Wake {
    Command(Option<Command>),
    Asked(Box<Asked>),
    Answered(Result<Value, Failure>),
    Withdrawn(String),
    Steered(u64, bool),
    CancelIgnored,
    Gone,
}

impl Conversation {
    fn new(cx: ConnectionTo<Agent>, context: Context, opened: Opened, early: VecDeque<Command>) -> Self {
        let Context { emitter, stream, commands, .. } = context;
        let Opened { session_id, resumed, preface } = opened;
        Self {
            cx,
            emitter,
            stream,
            commands,
            early,
            session_id,
            resumed,
            preface,
            turn: None,
            prompts: VecDeque::new(),
            permissions: BTreeMap::new(),
            asked: 0,
            withdrawals: FuturesUnordered::new(),
            steers: BTreeMap::new(),
            steered: 0,
            steering: FuturesUnordered::new(),
        }
    }

    async fn go(mut self, mut asks: mpsc::UnboundedReceiver<Asked>) -> Duration {
        self.emitter.send(Event::Ready { agent_session_id: Some(self.session_id.clone()), resumed: self.resumed }).await;
        let grace = loop {
            match self.wait(&mut asks).await {
                Wake::Command(Some(Command::Close { grace })) => break grace,
                Wake::Command(Some(command)) => self.command(command).await,
                Wake::Asked(asked) => self.ask(*asked).await,
                Wake::Answered(Err(failure)) if failure.closed => break GRACE,
                Wake::Answered(answer) => self.end_turn(answer).await,
                Wake::Withdrawn(id) => self.withdraw(&id).await,
                Wake::Steered(number, taken) => {
                    if let Some(text) = self.steers.remove(&number).filter(|_| !taken) {
                        self.refuse(text).await;
                    }
                }
                Wake::CancelIgnored => {
                    self.emitter.notice("warning", "The agent didn't stop when it was asked to; its process is ended").await;
                    break GRACE;
                }
                Wake::Command(None) | Wake::Gone => break GRACE,
            }
        };
        self.cancel_permissions().await;
        while let Some((_, text)) = self.steers.pop_first() {
            self.refuse(text).await;
        }
        grace
    }

    async fn wait(&mut self, asks: &mut mpsc::UnboundedReceiver<Asked>) -> Wake {
        if let Some(command) = self.early.pop_front() {
            return Wake::Command(Some(command));
        }
        let deadline = self.turn.as_ref().and_then(|turn| turn.deadline);
        let answer = async {
            match self.turn.as_mut() {
                Some(turn) => turn.answer.as_mut().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => Wake::Answered(answer),
            Some(id) = self.withdrawals.next() => Wake::Withdrawn(id),
            Some((number, taken)) = self.steering.next() => Wake::Steered(number, taken),
            Some(asked) = asks.recv() => Wake::Asked(Box::new(asked)),
            command = self.commands.recv() => Wake::Command(command),
            () = sleep_until(deadline) => Wake::CancelIgnored,
            () = self.cx.incoming_closed() => Wake::Gone,
            () = self.emitter.closed() => Wake::Gone,
        }
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Prompt(text) => {
                self.prompts.push_back(text);
                self.begin_turn();
            }
            Command::Steer(text) => self.steer(text).await,
            Command::Permission { request_id, answer } => {
                if let Some(open) = self.permissions.remove(&request_id) {
                    let _ = open.responder.respond(ask::outcome(&open.options, &answer));
                }
            }
            Command::CancelTurn => self.cancel().await,
            // Taken care of where the loop is left.
            Command::Close { .. } => {}
        }
    }

    /// Sends the next prompt in line when no turn runs.
    fn begin_turn(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let Some(text) = self.prompts.pop_front() else { return };
        let mut blocks = vec![];
        if let Some(preface) = self.preface.take() {
            blocks.push(json!({ "type": "text", "text": preface }));
        }
        blocks.push(json!({ "type": "text", "text": text }));
        self.stream.begin_turn();
        let params = json!({ "sessionId": self.session_id, "prompt": blocks });
        let answer = Box::pin(call(&self.cx, "session/prompt", params));
        self.turn = Some(Turn { answer, deadline: None });
    }

    async fn end_turn(&mut self, answer: Result<Value, Failure>) {
        let cancelled = self.turn.take().is_some_and(|turn| turn.deadline.is_some());
        let (course, usage) = self.stream.end_turn(answer.as_ref().ok());
        self.cancel_permissions().await;
        self.withdrawals.clear();
        self.emitter.send(Event::Usage(usage)).await;
        let reported = answer.as_ref().is_err_and(|failure| failure.limited || course.limit.is_some());
        let (stop, errors) = judge(answer, cancelled, &course);
        let last_text = course.last_text;
        let short = Some(&last_text).filter(|text| text.len() <= ERROR_TEXT && matches!(stop, TurnStop::Ended | TurnStop::Refused));
        let limit = if reported && stop == TurnStop::Failed {
            let told = limits::certain(&errors.join("; "));
            Some(LimitNotice { reset_at: course.limit.flatten().or(told.reset_at), ..told })
        } else {
            errors.iter().find_map(|text| limits::notice(text))
        };
        if let Some(limit) = limit.or_else(|| short.and_then(|text| limits::told(text))) {
            self.emitter.send(Event::Limit(limit)).await;
        }
        self.emitter.send(Event::TurnEnded(TurnEnd { stop, errors, last_text })).await;
        self.begin_turn();
    }

    async fn cancel(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        turn.deadline.get_or_insert(Instant::now() + CANCEL_LIMIT);
        if let Ok(message) = UntypedMessage::new("session/cancel", json!({ "sessionId": self.session_id })) {
            let _ = self.cx.send_notification(message);
        }
        self.cancel_permissions().await;
    }

    async fn ask(&mut self, asked: Asked) {
        let Asked { params, responder } = asked;
        self.asked += 1;
        let id = format!("permission-{}", self.asked);
        let permission = ask::permission(id.clone(), &params);
        if self.turn.as_ref().is_some_and(|turn| turn.deadline.is_some()) {
            let _ = responder.respond(ask::outcome(&permission.options, &Answer::Cancelled));
            return;
        }
        let (withdrawn, withdrawn_id) = (responder.cancellation(), id.clone());
        self.withdrawals.push(Box::pin(async move {
            withdrawn.cancelled().await;
            withdrawn_id
        }));
        self.permissions.insert(id, Open { options: permission.options.clone(), responder });
        self.emitter.send(Event::Permission(permission)).await;
    }

    /// The agent took its request back.
    async fn withdraw(&mut self, id: &str) {
        if let Some(open) = self.permissions.remove(id) {
            let _ = open.responder.respond(ask::outcome(&open.options, &Answer::Cancelled));
            self.emitter.send(Event::PermissionWithdrawn { request_id: id.to_owned() }).await;
        }
    }

    async fn cancel_permissions(&mut self) {
        while let Some((request_id, open)) = self.permissions.pop_first() {
            let _ = open.responder.respond(ask::outcome(&open.options, &Answer::Cancelled));
            self.emitter.send(Event::PermissionWithdrawn { request_id }).await;
        }
    }

    /// Offers `text` to the running turn by the extension that some agents have.
    async fn steer(&mut self, text: String) {
        if self.turn.as_ref().is_none_or(|turn| turn.deadline.is_some()) {
            return self.refuse(text).await;
        }
        let params = json!({ "sessionId": self.session_id, "prompt": [{ "type": "text", "text": text }] });
        let answer = call(&self.cx, "_session/steering", params);
        self.steered += 1;
        let number = self.steered;
        self.steers.insert(number, text);
        self.steering.push(Box::pin(async move {
            let answer = tokio::time::timeout(STEER_LIMIT, answer).await;
            (number, matches!(&answer, Ok(Ok(answer)) if !is_refusal(answer)))
        }));
    }

    async fn refuse(&mut self, text: String) {
        self.emitter.send(Event::SteerRefused { text }).await;
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether an answer to a steering message says that it wasn't taken.
fn is_refusal(answer: &Value) -> bool {
    let outcome = ["outcome", "status", "result"].iter().find_map(|name| answer[*name].as_str()).unwrap_or_default();
    let refused = answer["accepted"] == false || answer["injected"] == false;
    refused || ["rejected", "refused", "ignored", "unsupported", "not_running", "no_active_turn", "idle", "failed"].contains(&outcome)
}

/// How the turn ended, and the errors to be seen in it. Never whether the work is done.
fn judge(answer: Result<Value, Failure>, cancelled: bool, course: &Course) -> (TurnStop, Vec<String>) {
    let said = Some(course.last_text.trim()).filter(|text| !text.is_empty() && text.len() <= ERROR_TEXT);
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if cancelled || failure.is_cancelled() => return (TurnStop::Cancelled, Vec::new()),
        Err(failure) if failure.is_auth() => {
            // The last words often say more than the answer does.
            let more = said.filter(|said| !failure.text.contains(said)).map(str::to_owned);
            return (TurnStop::AuthRequired, [failure.text].into_iter().chain(more).collect());
        }
        Err(failure) if failure.is_unknown_method() => {
            return (TurnStop::Failed, vec![format!("the agent doesn't take prompts: {}", failure.text)]);
        }
        Err(failure) => return (TurnStop::Failed, vec![failure.text]),
    };
    let stop = match answer["stopReason"].as_str() {
        _ if cancelled => TurnStop::Cancelled,
        Some("cancelled") => TurnStop::Cancelled,
        Some("max_tokens") => TurnStop::MaxTokens,
        Some("max_turn_requests") => TurnStop::MaxTurns,
        Some("refusal") => TurnStop::Refused,
        _ => TurnStop::Ended,
    };
    if stop != TurnStop::Ended {
        let by_itself = stop == TurnStop::Cancelled && !cancelled;
        return (stop, by_itself.then(|| BROKEN_OFF.to_owned()).into_iter().collect());
    }
    if course.broken && said.is_some_and(|said| said.contains("max_output_tokens")) {
        return (TurnStop::MaxTokens, Vec::new());
    }
    // Some agents end a turn that failed as if it were done, and say so beside its messages, or only in words, or not at all.
    let error = match said {
        Some(said) if ["Error:", "API Error", "{\"error\""].iter().any(|start| said.starts_with(start)) => Some(said),
        _ if course.broken => Some(said.unwrap_or("the turn failed (the agent doesn't say why)")),
        _ if course.silent => return (TurnStop::Silent, Vec::new()),
        _ => None,
    };
    (stop, error.map(str::to_owned).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32, text: &str) -> Failure {
        Failure { code, ..Failure::own(text) }
    }

    fn course(last_text: &str) -> Course {
        Course { last_text: last_text.into(), broken: false, silent: false, limit: None }
    }

    #[test]
    fn stop_reasons_have_their_meaning() {
        let of = |reason: &str| judge(Ok(json!({ "stopReason": reason })), false, &course("done")).0;
        assert_eq!(of("end_turn"), TurnStop::Ended);
        assert_eq!(of("max_tokens"), TurnStop::MaxTokens);
        assert_eq!(of("max_turn_requests"), TurnStop::MaxTurns);
        assert_eq!(of("refusal"), TurnStop::Refused);
        assert_eq!(of("cancelled"), TurnStop::Cancelled);
        assert_eq!(judge(Ok(json!({ "stopReason": "cancelled" })), false, &course("")).1, [BROKEN_OFF]);
        assert_eq!(of("reason_of_the_future"), TurnStop::Ended);
    }

    #[test]
    fn errors_are_told_whichever_way_they_come() {
        let end = || Ok(json!({"stopReason": "end_turn"}));
        let (login, terminated) = (|| Err(failure(-32000, "Authentication required")), Err(failure(500, "terminated")));
        assert_eq!(judge(login(), false, &course("")), (TurnStop::AuthRequired, vec!["Authentication required".into()]));
        let (_, both) = judge(login(), false, &course("Invalid API key · Fix external API key"));
        assert_eq!(both, ["Authentication required", "Invalid API key · Fix external API key"]);
        assert_eq!(judge(terminated, false, &course("")), (TurnStop::Failed, vec!["terminated".into()]));
        let said = "Error: Authentication failed";
        assert_eq!(judge(end(), false, &course(said)), (TurnStop::Ended, vec![said.into()]));
        let broken = |text: &str| judge(end(), false, &Course { broken: true, ..course(text) }).1;
        assert_eq!(broken("exceeded retry limit\n\n"), ["exceeded retry limit"]);
        assert_eq!(broken("").len(), 1);
        let cut = Course { broken: true, ..course("Incomplete response returned, reason: max_output_tokens") };
        assert_eq!(judge(end(), false, &cut), (TurnStop::MaxTokens, vec![]));
        assert_eq!(judge(end(), false, &Course { silent: true, ..course("") }), (TurnStop::Silent, vec![]));
        assert_eq!(judge(end(), false, &course("")).1.len(), 0, "a turn of tool calls alone");
    }

    #[test]
    fn a_cancelled_turn_is_cancelled_however_the_agent_ends_it() {
        let silent = Course { silent: true, ..course("") };
        assert_eq!(judge(Err(failure(-32603, "aborted")), true, &silent).0, TurnStop::Cancelled);
        assert_eq!(judge(Err(failure(-32800, "cancelled")), false, &silent).0, TurnStop::Cancelled);
        assert_eq!(judge(Ok(json!({"stopReason": "end_turn"})), true, &silent), (TurnStop::Cancelled, vec![]));
    }

    #[test]
    fn refusals_of_steering_are_recognised() {
        assert!(is_refusal(&json!({"outcome": "rejected"})) && is_refusal(&json!({"accepted": false})));
        assert!(!is_refusal(&json!({"outcome": "injected"})) && !is_refusal(&json!({})));
    }
}
