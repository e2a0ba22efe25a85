//! Worktrees, diffs and merges.

use super::common::*;
use crate::tool::{Preset, Tool, Words};

/// What a conflicting merge leaves behind.
const ON_CONFLICT: &[&str] = &["abort", "leave_open"];

fn on_conflict(text: &str) -> Option<&'static str> {
    let folded = taskyard_domain::alias::fold(text);
    ON_CONFLICT.iter().find(|word| taskyard_domain::alias::fold(word) == folded).copied()
}

const CONFLICT: P = {
    let mut param = P::text("on_conflict", "leave_open keeps a merge worktree to resolve in").or(Preset::Text("abort"));
    param.words = Some(Words { allowed: ON_CONFLICT, read: on_conflict });
    param
};

pub(super) static TOOLS: &[Tool] = &[
    Tool::read(
        "get_task_worktree",
        "Path, branch, state and unsaved work of a task's worktree.",
        &[TASK_ID, WORKTREE_ID],
        &[("found", K::Boolean)],
    ),
    Tool::read(
        "get_task_diff",
        "What a task changed, file by file, from its merge base. Read before review or merge.",
        &[
            TASK_ID,
            WORKTREE_ID,
            P::text("path", "Only this file or folder. A single file's long patch comes in parts: go on with cursor"),
            P::flag("stat_only", false, "Counts without patches"),
            P::int("max_bytes", 1, 262_144, "Most bytes of patches").or(Preset::Int(10_000)),
            CURSOR,
        ],
        &[("files", K::Objects), ("truncated", K::Boolean)],
    ),
    Tool::write(
        "merge_task",
        "Merge a task's branch into its target. A conflict is an error that lists the files; nothing changes.",
        &[TASK_ID, WORKTREE_ID, TARGET, STRATEGY, P::text("message", "Commit message"), HEAD, CONFLICT],
        &[("merged", K::Boolean), ("merge_open", K::Boolean), ("task_id", K::String), ("status", K::String), ("files", K::Strings)],
    ),
    Tool::write(
        "continue_merge",
        "Finish a merge left open, after resolving its files.",
        &[TASK_ID, WORKTREE_ID],
        &[("merged", K::Boolean), ("merge_open", K::Boolean), ("task_id", K::String), ("status", K::String)],
    ),
    Tool::write(
        "abort_merge",
        "Give up a merge left open; what was resolved is kept as a snapshot.",
        &[TASK_ID, WORKTREE_ID],
        &[("aborted", K::Boolean), ("was_open", K::Boolean), ("task_id", K::String), ("status", K::String)],
    )
    .idempotent(),
    Tool::read(
        "preview_merge",
        "Whether a task would merge cleanly; changes nothing.",
        &[TASK_ID, WORKTREE_ID, TARGET],
        &[
            ("result", K::String),
            ("conflict_files", K::Strings),
            ("changed_file_count", K::Integer),
            ("behind", K::Integer),
            ("target", K::String),
            ("nothing_to_merge", K::Boolean),
        ],
    ),
    Tool::read(
        "preview_merge_set",
        "Whether several tasks merge together, in this order.",
        &[TASK_IDS, TARGET, P::flag("verify", false, "Not available yet: true is refused")],
        &[("tasks", K::Objects), ("order_ok", K::Strings), ("left_out", K::Objects), ("overlap", K::Objects), ("truncated", K::Boolean)],
    ),
    Tool::write(
        "revert_merge",
        "Undo a task's merge with one new commit; the task waits for review again.",
        &[TASK_ID, WORKTREE_ID, TARGET],
        &[("reverted", K::Boolean), ("task_id", K::String), ("status", K::String), ("revert", K::Object)],
    ),
    Tool::read(
        "list_worktrees",
        "All worktrees with task, state, size and unsaved work.",
        &[WORKSPACE_ID, P::text("repository_id", "Only this repository"), P::text("state", "active, merged, kept or discarded")],
        &[("worktrees", K::Objects), ("total", K::Integer), ("has_more", K::Boolean)],
    ),
    Tool::write(
        "cleanup_task_worktree",
        "Remove a task's worktree folder. Unsaved work refuses it, or is snapshotted first with discard_changes.",
        &[TASK_ID, WORKTREE_ID, P::flag("discard_changes", false, "Snapshot unsaved work, then remove")],
        &[("removed", K::Boolean), ("task_id", K::String), ("worktree_id", K::String), ("branch_deleted", K::Boolean)],
    )
    .idempotent()
    .destructive(),
];
