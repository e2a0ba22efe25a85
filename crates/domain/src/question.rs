//! Questions to a person, permission requests among them.

use crate::id::{QuestionId, RunId, SessionId, TaskId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What is asked.
    Kind, "question kind", {
        /// An agent wants to do something and asks first.
        Permission = "permission",
        /// An agent wants to know something.
        Question = "question",
    }
}

crate::vocabulary! {
    /// Where it stands.
    State, "question state", {
        /// Nobody has answered.
        Open = "open",
        /// A person answered.
        Answered = "answered",
        /// A person or the policy declined.
        Rejected = "rejected",
        /// The run ended or the agent took it back.
        Void = "void",
    }
}

/// A bundle of questions asked together, or one permission request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The bundle's UUID.
    pub id: QuestionId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The task it is about.
    pub task_id: TaskId,
    /// The session that asks.
    pub session_id: SessionId,
    /// The run that asks.
    pub run_id: RunId,
    /// Permission or question.
    pub kind: Kind,
    /// Where it stands.
    pub state: State,
    /// The driver's id of a permission request.
    pub request_id: Option<String>,
    /// What is asked, in a line.
    pub title: String,
    /// Questions with options, or the permission's tool, input, paths and options.
    pub body: serde_json::Value,
    /// The answer as given.
    pub answer: Option<serde_json::Value>,
    /// The label of who answered.
    pub answered_by: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it was answered, declined or voided.
    pub closed_at: Option<Timestamp>,
}
