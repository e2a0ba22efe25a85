//! Reads what the agent writes: notifications become events here, requests and answers go on to the SDK.
//!
//! Because updates are sent before the line behind them is handed on, they are in the transcript before
//! the answer that ends their turn is seen. A slow reader of events slows this task and thereby the agent.

use super::update::{Meaning, Normaliser};
use crate::contract::Event;
use crate::cut::{self, Tail};
use crate::emit::Emitter;
use crate::frame::Frame;
use crate::process::Stdout;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use taskyard_domain::transcript::{Item, Usage};
use tokio::sync::mpsc;

/// Lines that aren't JSON and are shown; later ones are only in the raw log.
const STRAY_SHOWN: u32 = 20;

/// What the pump and the conversation share.
#[derive(Debug)]
pub(super) struct Stream {
    prefix: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A `session/load` is being answered: updates repeat what the transcript already has.
    replaying: bool,
    /// The next text starts a new message.
    new_turn: bool,
    /// The last message of the turn so far.
    last: Tail,
    last_id: String,
    /// The last message when the turn's answer came: what is said later isn't of the turn.
    at_answer: Option<String>,
    /// The conversation's cost before this run, and now.
    cost_before: Option<f64>,
    cost: Option<f64>,
    tokens: Tokens,
    turns: i64,
    /// The turn that runs has failed, whatever its answer will say.
    broken: bool,
    /// Something was said or done in this turn.
    active: bool,
    /// The last message has words in it that aren't the agent program's own.
    spoken: bool,
    /// The usage limit that was reached in this turn.
    limit: Option<Option<Timestamp>>,
}

/// How a turn went, as far as its updates tell.
#[derive(Debug)]
pub(super) struct Course {
    /// The turn's last message.
    pub last_text: String,
    /// The agent said beside its messages that the turn has failed.
    pub broken: bool,
    /// Nothing was said and nothing was done.
    pub silent: bool,
    /// The account's usage limit was reached; when it ends, if that was said.
    pub limit: Option<Option<Timestamp>>,
}

/// Token figures of the conversation, whichever way the agent counts.
#[derive(Debug, Default, Clone, Copy)]
struct Tokens {
    /// Of counts that were started again.
    before: (i64, i64),
    /// The agent's last figures.
    latest: (i64, i64),
}

impl Tokens {
    /// Takes the figures of a prompt's answer. They should grow over the session; an agent that counts
    /// each turn by itself shows by a figure that got smaller.
    fn take(&mut self, input: i64, output: i64) {
        if input < self.latest.0 || output < self.latest.1 {
            self.before = (self.before.0.saturating_add(self.latest.0), self.before.1.saturating_add(self.latest.1));
        }
        self.latest = (input, output);
    }
}

impl Stream {
    /// Its message ids begin with `prefix`.
    pub fn new(prefix: String) -> Self {
        Self { prefix, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now to the next answer, updates are repetitions. For the time of a `session/load`.
    pub fn begin_replay(&self) {
        self.state().replaying = true;
    }

    /// A turn begins.
    pub fn begin_turn(&self) {
        let mut state = self.state();
        state.new_turn = true;
        state.last.clear();
        state.at_answer = None;
        state.broken = false;
        state.active = false;
        state.limit = None;
    }

    /// A turn is over: its course, and the run's figures with those of its answer.
    pub fn end_turn(&self, answer: Option<&Value>) -> (Course, Usage) {
        let mut state = self.state();
        state.turns += 1;
        if let Some(usage) = answer.map(|answer| &answer["usage"]).filter(|usage| usage.is_object()) {
            let figure = |name: &str| usage[name].as_i64().unwrap_or_default().max(0);
            let input = ["inputTokens", "cachedReadTokens", "cachedWriteTokens"].map(figure).into_iter().fold(0, i64::saturating_add);
            state.tokens.take(input, figure("outputTokens"));
        }
        let last = state.last.take();
        let last_text = state.at_answer.take().unwrap_or(last);
        (Course { last_text, broken: state.broken, silent: !state.active, limit: state.limit }, state.usage())
    }
}

impl State {
    fn usage(&self) -> Usage {
        let Tokens { before, latest } = self.tokens;
        let cost_usd = self.cost.map(|cost| (cost - self.cost_before.unwrap_or_default()).max(0.0));
        Usage {
            turns: self.turns,
            input_tokens: before.0.saturating_add(latest.0),
            output_tokens: before.1.saturating_add(latest.1),
            cost_usd,
        }
    }
}

/// Whether a text says no more than which program speaks, such as `pi v1.6.0`. Pi's adapter greets after the session is made,
/// and the first turn may have begun by then.
fn is_greeting(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| line.contains(|c| c != '-'));
    let (first, more) = (lines.next().unwrap_or_default(), lines.next());
    let mut words = first.split_whitespace();
    let version = words.nth(1).map(|word| word.strip_prefix('v').unwrap_or(word));
    let is_version = version.is_some_and(|word| word.matches('.').count() > 1 && word.chars().all(|c| c == '.' || c.is_ascii_digit()));
    more.is_none() && words.next().is_none() && (first.is_empty() || is_version)
}

/// Reads until the end of the output.
pub(super) async fn run(mut stdout: Stdout, emitter: Emitter, stream: Arc<Stream>, lines: mpsc::Sender<String>) {
    let mut pump = Pump { normaliser: Normaliser::new(stream.prefix.clone()), emitter, stream, lines: Some(lines), stray: 0 };
    while let Some(frame) = stdout.next().await {
        match frame {
            Frame::Line(line) => pump.line(line).await,
            other => {
                if let Some(item) = other.notice() {
                    pump.emitter.item(item).await;
                }
            }
        }
    }
}

struct Pump {
    normaliser: Normaliser,
    emitter: Emitter,
    stream: Arc<Stream>,
    lines: Option<mpsc::Sender<String>>,
    stray: u32,
}

impl Pump {
    async fn line(&mut self, line: String) {
        let Ok(mut message @ Value::Object(_)) = serde_json::from_str::<Value>(&line) else {
            return self.stray(&line).await;
        };
        let has_id = message.get("id").is_some_and(|id| !id.is_null());
        match (message["method"].as_str(), has_id) {
            (Some("session/update"), false) => self.update(&message["params"]["update"]).await,
            (Some("session/request_permission"), true) => {
                self.normaliser.enrich(&mut message["params"]);
                self.forward(message.to_string()).await;
            }
            // The withdrawal of a request.
            (Some("$/cancel_request"), false) | (Some(_), true) => self.forward(line).await,
            (Some(method), false) => tracing::debug!(method, "notification without a meaning for Taskyard"),
            (None, _) => {
                self.stream.state().answered();
                if message["result"]["stopReason"].is_string() {
                    self.normaliser.break_message();
                }
                self.forward(line).await;
            }
        }
    }

    async fn forward(&mut self, line: String) {
        if let Some(lines) = &self.lines
            && lines.send(line).await.is_err()
        {
            // The conversation is over; what still comes is only for the transcript.
            self.lines = None;
        }
    }

    async fn stray(&mut self, line: &str) {
        self.stray += 1;
        if self.stray > STRAY_SHOWN {
            return;
        }
        let more = if self.stray == STRAY_SHOWN { " (further ones are only in the raw log)" } else { "" };
        let text = format!("The agent wrote a line that isn't a message{more}: {}", cut::text(line, 500));
        self.emitter.notice("info", text).await;
    }

    async fn update(&mut self, update: &Value) {
        let replaying = {
            let mut state = self.stream.state();
            if std::mem::take(&mut state.new_turn) {
                self.normaliser.break_message();
            }
            state.replaying
        };
        for meaning in self.normaliser.read(update) {
            match meaning {
                Meaning::Item(_) if replaying => {}
                Meaning::Item(item) => {
                    self.stream.state().note(&item);
                    self.emitter.item(item).await;
                }
                Meaning::Cost(cost) => {
                    let usage = self.stream.state().charge(cost, replaying);
                    if let Some(usage) = usage {
                        self.emitter.send(Event::Usage(usage)).await;
                    }
                }
                Meaning::Limited(end) => self.stream.state().limit = Some(end).filter(|_| !replaying),
                Meaning::Broken(broken) => self.stream.state().broken = broken && !replaying,
            }
        }
    }
}

impl State {
    /// An answer to a request of ours passes.
    fn answered(&mut self) {
        self.replaying = false;
        self.at_answer = Some(self.last.clone().take());
    }

    /// Follows the last message of the turn.
    fn note(&mut self, item: &Item) {
        self.active |= match item {
            Item::Notice { .. } | Item::Unknown { .. } => false,
            Item::Text { text, .. } => !is_greeting(text),
            _ => true,
        };
        match item {
            Item::Text { message_id, text } => {
                if *message_id != self.last_id {
                    self.last_id.clone_from(message_id);
                    self.last.clear();
                    self.spoken = false;
                }
                // Copilot tells of its retries and of the error behind them in one message: the last of them counts.
                let own = text.starts_with("Info: ") || text.starts_with("Error: ");
                if own && !self.spoken {
                    self.last.clear();
                }
                self.spoken |= !own;
                self.last.push(text);
            }
            Item::ToolCall { .. } => self.last.clear(),
            _ => {}
        }
    }

    /// Takes the conversation's cost; the run's figures when they changed.
    fn charge(&mut self, cost: f64, replaying: bool) -> Option<Usage> {
        if replaying {
            self.cost_before = Some(cost);
            return None;
        }
        self.cost = Some(cost);
        Some(self.usage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(input: i64, output: i64) -> Value {
        json!({"usage": {"inputTokens": input, "outputTokens": output, "totalTokens": 0}})
    }

    #[test]
    fn figures_add_up_whichever_way_the_agent_counts() {
        let growing = Stream::new(String::new());
        growing.end_turn(Some(&answer(10, 1)));
        let (_, usage) = growing.end_turn(Some(&answer(30, 3)));
        assert_eq!((usage.turns, usage.input_tokens, usage.output_tokens), (2, 30, 3));
        let each = Stream::new(String::new());
        each.end_turn(Some(&answer(10, 2)));
        let (_, usage) = each.end_turn(Some(&answer(8, 1)));
        assert_eq!((usage.input_tokens, usage.output_tokens), (18, 3));
    }

    #[test]
    fn figures_that_no_agent_can_mean_add_up_to_the_largest() {
        let stream = Stream::new(String::new());
        let absurd = json!({"usage": {"inputTokens": i64::MAX, "cachedReadTokens": i64::MAX, "outputTokens": i64::MAX}});
        stream.end_turn(Some(&absurd));
        stream.end_turn(Some(&answer(1, 1)));
        let (_, usage) = stream.end_turn(Some(&absurd));
        assert_eq!((usage.input_tokens, usage.output_tokens), (i64::MAX, i64::MAX));
    }

    #[test]
    fn the_cost_of_earlier_runs_is_not_this_runs() {
        let stream = Stream::new(String::new());
        assert_eq!(stream.state().charge(2.0, true), None);
        let usage = stream.state().charge(2.5, false).unwrap();
        assert_eq!(usage.cost_usd, Some(0.5));
    }

    #[test]
    fn a_greeting_is_no_word_of_the_turn() {
        for (text, greets) in [
            ("pi v1.6.0\n---\n", true),
            ("\n", true),
            ("pi v1.6.0 done", false),
            ("Done.", false),
            ("fixed 3.14", false),
            ("a\nb 1.0", false),
        ] {
            assert_eq!(is_greeting(text), greets, "{text:?}");
            let stream = Stream::new(String::new());
            stream.begin_turn();
            stream.state().note(&Item::Text { message_id: "1".into(), text: text.into() });
            assert_eq!(stream.end_turn(None).0.silent, greets, "{text:?}");
        }
    }

    #[test]
    fn the_last_text_is_that_of_the_last_message() {
        let stream = Stream::new(String::new());
        stream.begin_turn();
        let text = |id: &str, text: &str| Item::Text { message_id: id.into(), text: text.into() };
        for item in [text("1", "first"), text("2", "sec"), text("2", "ond")] {
            stream.state().note(&item);
        }
        let (course, _) = stream.end_turn(None);
        assert_eq!((course.last_text.as_str(), course.silent, course.broken), ("second", false, false));
        for item in [text("3", "Info: I try again..."), text("3", "Error: no"), text("3", " login")] {
            stream.state().note(&item);
        }
        assert_eq!(stream.end_turn(None).0.last_text, "Error: no login");
        for item in [text("4", "It prints "), text("4", "Error: no")] {
            stream.state().note(&item);
        }
        assert_eq!(stream.end_turn(None).0.last_text, "It prints Error: no");
        stream.begin_turn();
        stream.state().broken = true;
        let (course, _) = stream.end_turn(None);
        assert_eq!((course.last_text.as_str(), course.silent, course.broken), ("", true, true));
        stream.begin_turn();
        assert!(!stream.end_turn(None).0.broken);
    }
}
