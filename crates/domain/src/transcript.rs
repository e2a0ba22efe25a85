//! The normalised transcript: what an agent said and did, the same for every driver.

use serde::{Deserialize, Serialize};

/// One append-only delta of a session's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// A prompt or message given to the agent.
    Prompt {
        /// The text.
        text: String,
    },
    /// Text from the agent; deltas of one message share `message_id`.
    Text {
        /// Groups the deltas of one message.
        message_id: String,
        /// The next piece.
        text: String,
    },
    /// Reasoning from the agent, in deltas like [`Item::Text`].
    Thought {
        /// Groups the deltas of one thought.
        message_id: String,
        /// The next piece.
        text: String,
    },
    /// A tool call that began.
    ToolCall {
        /// The agent's id of the call.
        call_id: String,
        /// What it does in words.
        title: String,
        /// `read`, `edit`, `execute`, `search`, `fetch`, `think`, `mcp` or `other`.
        kind: String,
        /// Its arguments, cut to a sane size.
        input: serde_json::Value,
    },
    /// News of a tool call.
    ToolUpdate {
        /// The agent's id of the call.
        call_id: String,
        /// `pending`, `running`, `completed` or `failed`.
        status: String,
        /// Output, cut to a sane size.
        output: Option<String>,
    },
    /// The agent's plan as it stands.
    Plan {
        /// The entries in order.
        entries: Vec<PlanEntry>,
    },
    /// Something Taskyard or the agent wants a reader to know (a retry, a dropped line, a limit).
    Notice {
        /// `info`, `warning` or `error`.
        level: String,
        /// The sentence.
        text: String,
    },
    /// An update of a kind this version doesn't know, kept whole.
    Unknown {
        /// The raw update, cut to a sane size.
        raw: serde_json::Value,
    },
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// What a run has used so far. Absolute figures for the run, not increments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Turns of the agent's own loop.
    pub turns: i64,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// Cost in US dollars, where the agent says.
    pub cost_usd: Option<f64>,
}
