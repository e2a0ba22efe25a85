//! What was put aside before something was removed, and who did what.

use super::common::*;
use crate::tool::Tool;

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "list_snapshots",
        "Unsaved work that was put aside before a worktree went.",
        &[P::text("task_id", "Only this task's"), P::text("repository_id", "Only this repository's")],
        &[("snapshots", K::Objects), ("total", K::Integer), ("has_more", K::Boolean)],
    ),
    Tool::write(
        "restore_snapshot",
        "Bring a snapshot back in a folder of its own.",
        &[P::text("snapshot_id", "From list_snapshots").required()],
        &[("restored", K::Boolean), ("snapshot_id", K::String), ("path", K::String), ("branch", K::String), ("commit", K::String)],
    ),
    Tool::read(
        "get_audit_log",
        "Who did what to what, newest first.",
        &[
            P::text("workspace", "Slug or UUID").required(),
            P::text("target_id", "Only about this UUID or task (TY-42, with its runs, merges …)"),
            P::text("action", "Such as task.claimed"),
            limit(50),
            CURSOR,
        ],
        &[("entries", K::Objects), ("has_more", K::Boolean)],
    )
    .brief(),
];
