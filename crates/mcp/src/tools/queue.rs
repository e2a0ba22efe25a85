//! The queue and waiting for it.

use super::common::*;
use crate::tool::{Preset, Tool};

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "wait_for_task_change",
        "Wait until a listed task leaves queued/in_progress, instead of polling. Pass the returned cursor to go on waiting.",
        &[
            TASK_IDS,
            P::int("timeout_seconds", 0, 3_600, "Longest wait").or(Preset::Int(50)),
            P::text("cursor", "From the last answer").blank(),
        ],
        &[
            ("changed", K::Objects),
            ("not_found", K::Strings),
            ("settled", K::Boolean),
            ("timed_out", K::Boolean),
            ("cursor", K::String),
            ("stuck", K::Objects),
            ("truncated", K::Boolean),
        ],
    ),
    Tool::read(
        "get_queue_state",
        "Slots, what runs in them and which tasks wait, in order.",
        &[],
        &[
            ("configured_slots", K::Integer),
            ("effective_slots", K::Integer),
            ("reasons", K::Strings),
            ("active_slots", K::Objects),
            ("waiting_task_ids", K::Strings),
            ("waiting", K::Objects),
        ],
    )
    .brief(),
];
