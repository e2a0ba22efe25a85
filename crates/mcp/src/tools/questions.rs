//! Questions of agents to a person.

use super::common::*;
use crate::tool::{Tool, Type};

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "list_pending_questions",
        "Questions and permission requests that agents wait on.",
        &[WORKSPACE_ID],
        &[("questions", K::Objects), ("total", K::Integer), ("has_more", K::Boolean)],
    )
    .brief(),
    Tool::write(
        "answer_question",
        "Answer for the person, or reject with a reason.",
        &[
            P::text("question_bundle_id", "From list_pending_questions").required(),
            P::new("answers", Type::Objects, "{question_id, selected_option or custom_text} each"),
            P::flag("rejected", false, "Decline instead"),
            P::text("reject_reason", "Why"),
        ],
        &[("answered", K::Boolean), ("question_bundle_id", K::String), ("state", K::String), ("task_id", K::String)],
    ),
];
