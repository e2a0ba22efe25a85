//! What the stand-in for a model answers: a list of replies, each a list of steps.
//!
//! Steps name what is to happen (`run` a command, `write` a file, call an MCP tool), never an agent's tool: which tool
//! that is depends on what the agent offers. Written in Rust by [`Scenario::reply`] and the functions below, or as JSON,
//! where unknown keys are refused. Holds no state of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model answers in one conversation. The reply to a request is the one whose index is the number of answers
/// that the request's history holds, so repeated requests, resumed conversations and killed agents get the right one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The answers in order.
    pub replies: Vec<Vec<Step>>,
    /// What a request without tools (a title, a summary) is answered; `ok` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Tokens of every request and every answer, as they are reported.
    #[serde(default)]
    pub usage: Tokens,
}

/// Reported numbers of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Of a request.
    pub input: u64,
    /// Of an answer.
    pub output: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { input: 1000, output: 50 }
    }
}

/// One thing of a reply. In texts, `{{cwd}}` is the folder that the agent told it works in, `{{user}}` the person's
/// last message, `{{result}}` the last tool's result, and `{{uuid:run_id}}` the UUID behind the last `run_id` in any tool's
/// result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Text.
    Say(String),
    /// Reasoning.
    Think(String),
    /// Has the agent run a command line.
    Run(String),
    /// Has the agent write a file.
    Write {
        /// Its absolute path.
        path: String,
        /// All of its content.
        content: String,
    },
    /// Has the agent call an MCP tool, by whatever name the agent gives it.
    Mcp {
        /// The server's name in the agent's configuration.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        arguments: Value,
    },
    /// A call of exactly this tool.
    Call {
        /// The agent's name of it.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        arguments: Value,
    },
    /// An error: the answer itself when nothing was said before it, else an event inside of the stream.
    Fail(Failure),
    /// The connection breaks before the answer's first byte.
    Reset {
        /// How often.
        #[serde(default)]
        times: Times,
    },
    /// The connection breaks after what was said so far, in the middle of `text`.
    Break {
        /// A text of which only the first half comes.
        text: String,
        /// How often.
        #[serde(default)]
        times: Times,
    },
    /// Nothing more comes until the agent hangs up.
    Hang {
        /// How often.
        #[serde(default)]
        times: Times,
    },
    /// A pause in the stream, milliseconds.
    Pause(u64),
    /// Why the answer ends, when it isn't the usual reason.
    Stop(Stop),
}

/// An error of the model's API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    /// Its words.
    #[serde(default)]
    pub message: Option<String>,
    /// The vendor's kind of it, when it isn't the usual one of the status.
    #[serde(default)]
    pub kind: Option<String>,
    /// More members of the error's object, as the vendor sends them (such as `resets_at`).
    #[serde(default)]
    pub more: Value,
    /// Response headers, such as `retry-after`.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// How often.
    #[serde(default)]
    pub times: Times,
}

/// How often a failure happens before the rest of the reply comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// So often.
    Only(u32),
    /// Every time.
    Always,
}

impl Default for Times {
    fn default() -> Self {
        Self::Only(1)
    }
}

/// Reasons for an answer's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The limit of output tokens.
    MaxTokens,
    /// The model refuses.
    Refusal,
}

impl Scenario {
    /// A model that has nothing to say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an answer.
    #[must_use]
    pub fn reply(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.replies.push(steps.into_iter().collect());
        self
    }

    /// Sets the tokens that are reported.
    #[must_use]
    pub fn tokens(mut self, input: u64, output: u64) -> Self {
        self.usage = Tokens { input, output };
        self
    }
}

impl Failure {
    /// An error with this status, once.
    pub fn status(status: u16) -> Self {
        Self { status, message: None, kind: None, more: Value::Null, headers: Vec::new(), times: Times::default() }
    }

    /// With these words.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Of this kind.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// With more members in the error's object.
    #[must_use]
    pub fn more(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    /// With a response header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    /// So often.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Times::Only(times);
        self
    }

    /// Every time.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }
}

impl From<Failure> for Step {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

/// [`Step::Say`].
pub fn say(text: &str) -> Step {
    Step::Say(text.into())
}

/// [`Step::Run`].
pub fn run(command: &str) -> Step {
    Step::Run(command.into())
}

/// [`Step::Write`].
pub fn write(path: &str, content: &str) -> Step {
    Step::Write { path: path.into(), content: content.into() }
}

/// [`Step::Mcp`].
pub fn mcp(server: &str, tool: &str, arguments: Value) -> Step {
    Step::Mcp { server: server.into(), tool: tool.into(), arguments }
}

/// [`Step::Hang`], every time.
pub fn hang() -> Step {
    Step::Hang { times: Times::Always }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_scenario_is_the_same_in_rust_and_in_json() {
        let written = Scenario::new()
            .reply([Failure::status(429).header("retry-after", 1).times(2).into(), say("Writing."), write("{{cwd}}/a", "x\n")])
            .reply([mcp("taskyard", "get_task", json!({})), hang(), Step::Stop(Stop::MaxTokens)]);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), written);
        let short = json!({ "replies": [[{ "fail": { "status": 500 } }, { "reset": {} }, { "run": "git status" }]] });
        let read: Scenario = serde_json::from_value(short).unwrap();
        assert_eq!(read, Scenario::new().reply([Failure::status(500).into(), Step::Reset { times: Times::Only(1) }, run("git status")]));
    }

    #[test]
    fn misspelt_steps_are_refused() {
        for wrong in
            [json!({ "replies": [[{ "sya": "x" }]] }), json!({ "reply": [] }), json!({ "replies": [[{ "write": { "path": "a" } }]] })]
        {
            assert!(serde_json::from_value::<Scenario>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
