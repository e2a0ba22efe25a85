//! What a scripted agent is and does, as JSON. Unknown fields and steps are refused, so that a test can't
//! pass because of a misspelt step.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The whole script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What the agent can and how it answers the handshake.
    pub agent: Traits,
    /// The steps of each turn of a session; the last list also serves all later turns.
    pub turns: Vec<Vec<Step>>,
}

/// What the agent can and how it answers the handshake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traits {
    /// Takes MCP servers over HTTP.
    pub http_mcp: bool,
    /// Offers `session/load`, which repeats the session's updates.
    pub load: bool,
    /// Offers `session/resume`, which repeats nothing.
    pub resume: bool,
    /// Takes `_session/steering`.
    pub steering: bool,
    /// Takes `additionalDirectories` and `systemPrompt`.
    pub extras: bool,
    /// Modes it offers; none when empty.
    pub modes: Vec<String>,
    /// Models it offers as a configuration option; none when empty.
    pub models: Vec<String>,
    /// Whether it wants a login.
    pub login: Login,
    /// `session/new` fails with this.
    pub new_error: Option<RpcError>,
    /// A text it says before it answers `session/new`.
    pub early_text: Option<String>,
    /// Never answers `initialize`.
    pub silent_start: bool,
    /// Stays when its standard input ends.
    pub ignore_eof: bool,
    /// Ignores SIGTERM from the start.
    pub ignore_sigterm: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            http_mcp: true,
            load: true,
            resume: false,
            steering: false,
            extras: true,
            modes: Vec::new(),
            models: Vec::new(),
            login: Login::None,
            new_error: None,
            early_text: None,
            silent_start: false,
            ignore_eof: false,
            ignore_sigterm: false,
        }
    }
}

/// Whether the agent wants a login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Login {
    /// No.
    #[default]
    None,
    /// Yes, by a person in a browser: `session/new` always fails.
    Person,
    /// Yes, by `authenticate` with the method `api-key`, which looks for [`super::API_KEY`].
    Key,
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcError {
    /// Its code.
    pub code: i32,
    /// Its message.
    pub message: String,
    /// Its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// One thing the agent does. In every string `${prompt}`, `${cwd}`, `${last}` (output of the last tool),
/// `${system}` (the system prompt it was given), `${turn}` and `${env:NAME}` are filled in. Paths are
/// relative to the session's folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Says something; texts in a row are one message.
    Text(String),
    /// Thinks something.
    Thought(String),
    /// Shows its plan: pairs of text and status.
    Plan(Vec<(String, String)>),
    /// Writes a file, with its folders.
    Write(Content),
    /// Appends to a file.
    Append(Content),
    /// Writes a file by asking the client to.
    WriteViaClient(Content),
    /// Reads a file by asking the client to; its text, or the error's code, is `${last}`.
    ReadViaClient(String),
    /// Deletes a file or folder.
    Delete(String),
    /// Renames a file.
    Rename {
        /// The old path.
        from: String,
        /// The new one.
        to: String,
    },
    /// Runs a command with `sh -c`; at most ten minutes.
    Shell(String),
    /// Commits everything with this message.
    Commit(String),
    /// Waits for milliseconds, at most a minute.
    Wait(u64),
    /// Waits until a file is there, at most a minute; then the turn fails.
    WaitFile(String),
    /// Creates an empty file without showing a tool call: tells a test that this step is reached.
    Signal(String),
    /// Asks for permission.
    Ask(Ask),
    /// Calls a tool of an MCP server it was given.
    Mcp(Mcp),
    /// Waits for a steering message, which is then `${last}`.
    WaitSteer,
    /// Sends this as the `update` of a `session/update`.
    RawUpdate(Value),
    /// Writes this line to standard output as it is.
    RawLine(String),
    /// The process exits at once with this code.
    Crash(u8),
    /// The process kills itself with SIGKILL.
    Kill,
    /// Never goes on, until the turn is cancelled.
    Hang,
    /// Closes its standard output and goes on.
    CloseOutput,
    /// Says `${n}`-numbered texts, this many.
    Flood(u64),
    /// Writes one line of this many bytes.
    HugeLine(u64),
    /// Writes a line of bytes that aren't UTF-8, and a text with such bytes in it.
    BadUtf8,
    /// Writes this to standard error.
    Stderr(String),
    /// Writes this many bytes to standard error.
    StderrFlood(u64),
    /// Ignores SIGTERM from here on.
    IgnoreSigterm,
    /// Ignores `session/cancel` for the rest of the turn.
    IgnoreCancel,
    /// Leaves two processes behind, one in its own group and one outside of it.
    Grandchildren(Grandchildren),
    /// The account is at its limit; ends the turn.
    Limit(Limit),
    /// The turn fails for want of a login.
    AuthError,
    /// The turn fails with this.
    Error(RpcError),
    /// Reports figures.
    Usage(Figures),
    /// Does steps several times.
    Repeat {
        /// How often.
        times: u64,
        /// What.
        steps: Vec<Step>,
    },
    /// Ends the turn with this stop reason.
    Stop(String),
    /// Says this after the turn's end was answered.
    TextAfterEnd(String),
    /// The process exits with this code once the turn's end was answered.
    ExitAfterEnd(u8),
}

/// A file and what to put in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The path.
    pub path: String,
    /// The content.
    pub content: String,
}

/// A request for permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What it wants to do.
    pub title: String,
    /// The kind of tool.
    #[serde(default = "execute")]
    pub kind: String,
    /// The tool's arguments.
    #[serde(default)]
    pub input: Value,
    /// Paths it touches.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Steps when it is allowed.
    #[serde(default)]
    pub on_allow: Vec<Step>,
    /// Steps when it isn't.
    #[serde(default)]
    pub on_deny: Vec<Step>,
    /// Takes the request back once this file is there.
    #[serde(default)]
    pub withdraw_after: Option<String>,
}

fn execute() -> String {
    "execute".into()
}

/// A call of an MCP tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// The server's name; the first one when left out.
    #[serde(default)]
    pub server: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
}

/// Processes to leave behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grandchildren {
    /// Where their two process ids are written, one per line.
    pub pids: String,
    /// Whether they keep the agent's standard output open.
    #[serde(default)]
    pub hold_output: bool,
}

/// A usage limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limit {
    /// Seconds until it ends; left out of the message when missing.
    pub reset_in_s: Option<i64>,
    /// As a text and a normal end instead of an error.
    pub as_text: bool,
    /// Instead of the usual message; `${reset}` is the time.
    pub message: Option<String>,
}

/// Figures of the session so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Figures {
    /// Tokens read, with the turn's end.
    pub input_tokens: i64,
    /// Tokens written, with the turn's end.
    pub output_tokens: i64,
    /// Cost in US dollars, at once.
    pub cost_usd: Option<f64>,
}

impl Scenario {
    /// The scenario that the environment names; an empty one when it names none.
    ///
    /// # Errors
    /// A sentence on what can't be read.
    pub fn from_env() -> Result<Self, String> {
        let Some(given) = std::env::var(super::SCENARIO).ok().filter(|given| !given.trim().is_empty()) else {
            return Ok(Self::default());
        };
        let text = if given.trim_start().starts_with('{') {
            given
        } else {
            std::fs::read_to_string(&given).map_err(|error| format!("can't read the scenario {given}: {error}"))?
        };
        serde_json::from_str(&text).map_err(|error| format!("the scenario isn't right: {error}"))
    }

    /// As JSON, for [`super::SCENARIO`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What the turn with this number (from 0) does on this prompt: the prompt's own last `scenario`
    /// block, else the script's list.
    ///
    /// # Errors
    /// A sentence on what is wrong with the block.
    pub fn steps(&self, turn: usize, prompt: &str) -> Result<Vec<Step>, String> {
        match block(prompt) {
            Some(text) => parse_block(text).map_err(|error| format!("the scenario in the prompt isn't right: {error}")),
            None => Ok(self.turns.get(turn).or(self.turns.last()).cloned().unwrap_or_else(|| vec![Step::Text("Nothing to do.".into())])),
        }
    }
}

/// Puts steps into a prompt, for [`Scenario::steps`] to find.
pub fn prompt_with(words: &str, steps: &[Step]) -> String {
    let steps = serde_json::to_string(steps).unwrap_or_default();
    format!("{words}\n\n```scenario\n{steps}\n```\n")
}

fn block(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.rsplit_once("```scenario")?;
    Some(rest.split_once("```").map_or(rest, |(inside, _)| inside))
}

fn parse_block(text: &str) -> serde_json::Result<Vec<Step>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Block {
        steps: Vec<Step>,
    }
    if text.trim_start().starts_with('[') { serde_json::from_str(text) } else { serde_json::from_str::<Block>(text).map(|b| b.steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_and_misspelt_ones_refused() {
        let good = r#"{"turns": [["hang", {"text": "a"}, {"ask": {"title": "t", "on_allow": [{"commit": "c"}]}}, {"limit": {}}]]}"#;
        let scenario: Scenario = serde_json::from_str(good).unwrap();
        assert_eq!(scenario.turns[0].len(), 4);
        assert_eq!(serde_json::from_str::<Scenario>(&scenario.to_json()).unwrap(), scenario);
        for bad in [r#"{"turn": []}"#, r#"{"turns": [[{"texts": "a"}]]}"#, r#"{"turns": [[{"ask": {"title": "t", "onallow": []}}]]}"#] {
            assert!(serde_json::from_str::<Scenario>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prompts_own_block_wins_and_the_last_list_serves_later_turns() {
        let text = |text: &str| vec![Step::Text(text.into())];
        let scenario = Scenario { turns: vec![text("one"), text("two")], ..Scenario::default() };
        assert_eq!(scenario.steps(0, "x").unwrap(), text("one"));
        assert_eq!(scenario.steps(7, "x").unwrap(), text("two"));
        assert_eq!(scenario.steps(0, &prompt_with("Do it", &text("mine"))).unwrap(), text("mine"));
        assert_eq!(scenario.steps(0, "```scenario\n{\"steps\": [{\"text\": \"mine\"}]}\n```").unwrap(), text("mine"));
        assert!(scenario.steps(0, "```scenario\n[{\"tex\": 1}]\n```").is_err());
    }
}
