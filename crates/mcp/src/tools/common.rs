//! Parameters and answer fields that several tools share, worded once.

use crate::tool::{Param, Preset, Type};
use taskyard_domain::merge::Strategy;
use taskyard_domain::task::Priority;

pub(super) use crate::tool::{Kind as K, Param as P};

pub(super) const TASK_ID: Param = P::text("task_id", "UUID or TY-42").required();
pub(super) const TASK_IDS: Param = P::new("task_ids", Type::Strings, "UUIDs or short ids").required().within(1, 100);
pub(super) const LIST_ID: Param = P::text("list_id", "List UUID").required();
pub(super) const WORKSPACE_ID: Param = P::text("workspace_id", "Slug or UUID");
pub(super) const WORKTREE_ID: Param = P::text("worktree_id", "If the task has several");
pub(super) const CURSOR: Param = P::text("cursor", "From the last page").blank();
pub(super) const KEY: Param = P::text("idempotency_key", "Same key: first result again");
pub(super) const CLEAR: Param = P::new("clear", Type::Strings, "Fields to empty").within(0, 20);
pub(super) const MODEL: Param = P::text("model", "Blank inherits").blank();
pub(super) const DESCRIPTION: Param = P::text("description", "The agent's first prompt").blank();
pub(super) const PROFILE: Param = P::text("agent_profile_id", "UUID or name");
pub(super) const EXECUTOR: Param = P::text("executor_profile_id", "Executor profile");
pub(super) const TARGET: Param = P::text("target_branch", "Default: the task's target");
pub(super) const HEAD: Param = P::text("expected_head", "Refuse if the branch has moved from this commit");
pub(super) const PRIORITY: Param = P::text("priority", "Order of importance").one_of::<Priority>(&["critical", "high", "medium", "low"]);
pub(super) const MAX_TURNS: Param = P::int("max_turns", 1, 100_000, "Turns per run");
pub(super) const SYSTEM_PROMPT: Param = P::text("system_prompt", "Added to the agent's prompt");
pub(super) const STRATEGY: Param =
    P::text("strategy", "How to land").one_of::<Strategy>(&["merge", "squash", "rebase"]).or(Preset::Text("merge"));

/// `limit` with its default.
pub(super) const fn limit(preset: i64) -> Param {
    P::int("limit", 1, 200, "Page size").or(Preset::Int(preset))
}
