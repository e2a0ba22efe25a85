//! Claiming as an outside agent, and the backlog that is claimed from.

use super::common::*;
use crate::tool::{Preset, Tool, Words};
use taskyard_domain::task::{Kind, Status};

const WORKSPACE: P = P::text("workspace", "Slug or UUID").required();
const ACTOR: P = P::text("actor_user_id", "Your own label; repeats are then safe");
const NOTES: P = P::text("notes", "Short note on the run");

pub(super) static TOOLS: &[Tool] = &[
    Tool::write(
        "claim_task",
        "Claim a task at the start of your work; follow the returned workflow_prompt.",
        &[WORKSPACE, P::text("backlog_item_id", "UUID or TY-42").required(), ACTOR, NOTES, KEY],
        &[
            ("claimed", K::Boolean),
            ("run_id", K::String),
            ("reclaimed", K::Boolean),
            ("workflow_prompt", K::String),
            ("backlog_item", K::Object),
        ],
    )
    .brief(),
    Tool::write(
        "complete_task",
        "End your claim: done, failed, or given back.",
        &[
            WORKSPACE,
            P::text("run_id", "From the claim").required(),
            OUTCOME,
            P::text("summary", "What came of it"),
            P::text("notes", "Replaces the claim's"),
        ],
        &[("completed", K::Boolean), ("run_id", K::String), ("outcome", K::String), ("task_id", K::String), ("status", K::String)],
    )
    .idempotent(),
    Tool::write(
        "claim_next_task",
        "Claim the next task that is free, if there is one.",
        &[WORKSPACE, P::text("actor_user_id", "Your own label"), P::text("workflow_id", "Only of this list"), NOTES, KEY],
        &[("found", K::Boolean)],
    )
    .brief(),
    Tool::write(
        "create_object",
        "Write a plan, an epic or a task into the backlog.",
        &[
            WORKSPACE,
            P::text("kind", "What it is").required().one_of::<Kind>(&["plan", "epic", "task"]),
            P::text("title", "One line").required(),
            P::text("slug", "Its name; default: from the title"),
            P::text("body_markdown", "What it is about").blank(),
            P::text("plan_slug", "The plan it belongs to"),
            P::text("epic_slug", "The epic it belongs to"),
            P::text("status", "draft isn't offered yet").one_of::<Status>(&["draft", "ready"]).or(Preset::Text("draft")),
            P::text("priority", "critical, high, medium or low"),
            KEY,
        ],
        &[("created", K::Boolean), ("id", K::String), ("short_id", K::String), ("slug", K::String), ("status", K::String)],
    )
    .brief(),
    Tool::read(
        "list_backlog",
        "Plans, epics and tasks, and who holds them.",
        &[
            WORKSPACE,
            P::text("kind", "plan, epic or task"),
            P::text("status", "Only this status"),
            P::text("plan_slug", "Only of this plan"),
            P::text("epic_slug", "Only of this epic"),
            P::flag("claimable_only", false, "Only what can be claimed now"),
            limit(50),
            CURSOR,
        ],
        &[("items", K::Objects), ("has_more", K::Boolean)],
    )
    .brief(),
];

const OUTCOME: P = {
    let mut param = P::text("outcome", "abandoned gives it back").or(Preset::Text("done"));
    param.words = Some(Words { allowed: OUTCOMES, read: outcome });
    param
};
/// How a claim ends.
const OUTCOMES: &[&str] = &["done", "failed", "abandoned"];

fn outcome(text: &str) -> Option<&'static str> {
    let folded = taskyard_domain::alias::fold(text);
    OUTCOMES.iter().find(|word| taskyard_domain::alias::fold(word) == folded).copied()
}
