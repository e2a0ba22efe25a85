//! Tasks: find, make, change, start, review.

use super::common::*;
use crate::tool::{Preset, Tool, Type, Words};
use taskyard_domain::task::Word;

/// What a reviewer decides.
const DECISIONS: &[&str] = &["approve", "reject_rerun", "reject_park", "cancel"];

fn decision(text: &str) -> Option<&'static str> {
    let folded = taskyard_domain::alias::fold(text);
    DECISIONS.iter().find(|word| taskyard_domain::alias::fold(word) == folded).copied()
}

const DECISION: P = {
    let mut param = P::text("decision", "reject_rerun goes on in the same session, reject_park sets it aside").required();
    param.words = Some(Words { allowed: DECISIONS, read: decision });
    param
};

const BLOCKER: P = P::text("depends_on_task_id", "The task to finish first").required();

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "list_tasks",
        "Find tasks, without their descriptions (see get_task).",
        &[
            P::text("workflow_id", "Same as list_id"),
            P::text("list_id", "Only this list"),
            WORKSPACE_ID,
            P::text("status", "Only this status"),
            P::text("parent_id", "Only its subtasks"),
            P::text("query", "Words in the title"),
            P::flag("include_archived", false, "Archived too"),
            limit(50),
            CURSOR,
        ],
        &[("tasks", K::Objects), ("has_more", K::Boolean)],
    )
    .brief(),
    Tool::read(
        "get_task",
        "One task with its description, status and latest run.",
        &[TASK_ID, P::flag("full", false, "Whole description beyond 4 KB")],
        &[
            ("id", K::String),
            ("short_id", K::String),
            ("title", K::String),
            ("status", K::String),
            ("description", K::String),
            ("description_truncated", K::Boolean),
            ("open_questions", K::Objects),
        ],
    )
    .brief(),
    Tool::write(
        "add_task",
        "Write a task for an agent; queue it to start when a slot is free.",
        &[
            LIST_ID,
            P::text("title", "One line").required(),
            DESCRIPTION,
            P::flag("queue", false, "Queue at once"),
            MODEL,
            PROFILE,
            PRIORITY.or(Preset::Text("medium")),
            P::number("sort_order", "Lower is first"),
            P::text("due_at", "Not before, RFC 3339"),
            P::flag("manual", false, "Never started by the queue"),
            P::new("blocked_by", Type::Strings, "Tasks to finish first").within(0, 100),
            KEY,
        ],
        &[("added", K::Boolean), ("task_id", K::String), ("short_id", K::String), ("status", K::String)],
    )
    .brief(),
    Tool::write(
        "add_subtask",
        "Write a task below a parent; it inherits list, repository and profile.",
        &[
            P::text("parent_id", "UUID or TY-42").required(),
            P::text("title", "One line").required(),
            DESCRIPTION,
            P::flag("queue", false, "Queue at once"),
            MODEL,
            KEY,
        ],
        &[("added", K::Boolean), ("task_id", K::String), ("short_id", K::String), ("status", K::String)],
    )
    .brief(),
    Tool::write(
        "update_task",
        "Change a task's fields. `clear` empties one.",
        &[
            TASK_ID,
            P::text("title", "One line"),
            DESCRIPTION,
            P::text("state", "ready, queued, cancelled or done"),
            P::text("priority", "critical, high, medium or low"),
            P::text("due_at", "Not before, RFC 3339"),
            P::new("manual", Type::Boolean, "Never started by the queue"),
            P::number("sort_order", "Lower is first"),
            CLEAR,
        ],
        &[("updated", K::Boolean), ("task_id", K::String), ("fields", K::Strings), ("task", K::Object)],
    )
    .idempotent(),
    Tool::write(
        "update_task_status",
        "Queue a task, set it back to ready, cancel it, or mark it done. Use review_task to approve work.",
        &[TASK_ID, P::text("status", "New status").required().one_of::<Word>(&["ready", "queued", "cancelled", "done"])],
        &[("updated", K::Boolean), ("task_id", K::String), ("status", K::String), ("previous_status", K::String)],
    )
    .idempotent(),
    Tool::read("get_task_status_values", "What each status means and which can be set.", &[], &[("statuses", K::Objects)]).brief(),
    Tool::write(
        "review_task",
        "Decide on a task in waiting_for_review. approve merges its work.",
        &[TASK_ID, DECISION, P::text("feedback", "What to change; for reject_rerun"), TARGET, STRATEGY, HEAD],
        &[("reviewed", K::Boolean), ("decision", K::String), ("task_id", K::String), ("status", K::String), ("merged", K::Boolean)],
    ),
    Tool::write(
        "run_task_now",
        "Start a task at once in the one extra slot, ahead of the queue.",
        &[TASK_ID],
        &[("started", K::Boolean), ("task_id", K::String), ("run_id", K::String), ("status", K::String)],
    )
    .idempotent(),
    Tool::write(
        "continue_task",
        "Send a new prompt to a task's last session and start it at once.",
        &[TASK_ID, P::text("prompt", "What to do next").required(), KEY],
        &[("started", K::Boolean), ("task_id", K::String), ("run_id", K::String), ("status", K::String)],
    ),
    Tool::write(
        "cancel_task",
        "Stop a task's agent and every process of it; the worktree stays.",
        &[TASK_ID],
        &[("cancelled", K::Boolean), ("task_id", K::String), ("status", K::String), ("worktree_kept", K::Boolean)],
    )
    .idempotent(),
    Tool::write(
        "reset_failed_task",
        "Set a failed task back to ready; the worktree stays.",
        &[TASK_ID],
        &[("reset", K::Boolean), ("task_id", K::String), ("status", K::String), ("worktree_kept", K::Boolean)],
    )
    .idempotent(),
    Tool::write(
        "delete_task",
        "Delete a task for good. Unsaved work in its worktree is snapshotted first; children go to its parent.",
        &[TASK_ID],
        &[("deleted", K::Boolean), ("task_id", K::String), ("reparented", K::Strings), ("snapshots", K::Strings)],
    )
    .idempotent()
    .destructive(),
    Tool::write(
        "add_task_dependency",
        "Make a task wait until another is done.",
        &[TASK_ID, BLOCKER],
        &[("added", K::Boolean), ("task_id", K::String), ("blocked_by", K::Strings), ("unfinished", K::Strings)],
    )
    .idempotent(),
    Tool::write(
        "remove_task_dependency",
        "Stop a task waiting for another.",
        &[TASK_ID, BLOCKER],
        &[("removed", K::Boolean), ("task_id", K::String), ("blocked_by", K::Strings), ("unfinished", K::Strings)],
    )
    .idempotent(),
];
