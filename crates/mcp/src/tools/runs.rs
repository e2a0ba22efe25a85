//! Runs and their logs.

use super::common::*;
use crate::tool::{Preset, Tool};

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "list_runs",
        "Past and open runs, newest first: agent, outcome, cost.",
        &[P::text("task_id", "Only this task's"), WORKSPACE_ID, limit(20), CURSOR],
        &[("runs", K::Objects), ("has_more", K::Boolean)],
    )
    .brief(),
    Tool::read("get_run", "One run: state, outcome, cause, usage.", &[P::text("run_id", "Run UUID").required()], &[("found", K::Boolean)])
        .brief(),
    Tool::read(
        "get_task_log",
        "The end of an agent's log: why a run failed or what it does now.",
        &[
            TASK_ID,
            P::text("run_id", "Default: the latest"),
            P::int("tail_bytes", 1, 262_144, "Bytes from the end").or(Preset::Int(10_000)),
        ],
        &[("available", K::Boolean), ("truncated", K::Boolean), ("total_bytes", K::Integer)],
    ),
];
