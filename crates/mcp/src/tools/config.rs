//! Inherited configuration of lists and tasks.

use super::common::*;
use crate::tool::Tool;

const SHOWN: &[crate::tool::Output] = &[("set", K::Object), ("effective", K::Object)];

pub(super) static TOOLS: &[Tool] = &[
    Tool::read("get_list_config", "What a list sets and what its tasks get, each value with its source.", &[LIST_ID], SHOWN),
    Tool::write(
        "set_list_config",
        "Set what a list's tasks inherit.",
        &[
            LIST_ID,
            PROFILE,
            EXECUTOR,
            P::text("repository_id", "Where its tasks work"),
            P::text("target_branch", "Where its tasks merge"),
            MODEL,
            MAX_TURNS,
            SYSTEM_PROMPT,
            CLEAR,
        ],
        &[("updated", K::Boolean), ("list_id", K::String), ("set", K::Object), ("effective", K::Object)],
    )
    .idempotent(),
    Tool::read("get_task_config", "What a task sets and what its next run gets, each value with its source.", &[TASK_ID], SHOWN),
    Tool::write(
        "set_task_config",
        "Set a task's own model, profile, target or limits.",
        &[TASK_ID, PROFILE, EXECUTOR, P::text("target_branch", "Where it merges"), MODEL, MAX_TURNS, SYSTEM_PROMPT, CLEAR],
        &[("updated", K::Boolean), ("task_id", K::String), ("set", K::Object), ("effective", K::Object)],
    )
    .idempotent(),
];
