//! Workspaces and lists of tasks.

use super::common::*;
use crate::tool::Tool;

pub(super) static TOOLS: &[Tool] = &[
    Tool::read("list_workspaces", "The workspaces, each with slug and UUID.", &[], &[("workspaces", K::Objects)]).brief(),
    Tool::read(
        "list_task_lists",
        "Lists with task counts. Start here to find a list_id.",
        &[WORKSPACE_ID],
        &[("lists", K::Objects), ("further", K::Objects), ("total", K::Integer), ("not_shown", K::Integer)],
    )
    .brief(),
    Tool::write(
        "create_list",
        "Make a list for a repository's tasks. Give at most one of repository_id, local_path, repository_url.",
        &[
            P::text("name", "Its name").required(),
            WORKSPACE_ID,
            P::text("repository_id", "A known repository"),
            P::text("local_path", "Absolute path of a git repository"),
            P::text("repository_url", "URL of a known repository"),
            KEY,
        ],
        &[
            ("created", K::Boolean),
            ("list_id", K::String),
            ("name", K::String),
            ("workspace_id", K::String),
            ("repository_added", K::Boolean),
        ],
    ),
    Tool::write(
        "update_list",
        "Rename or re-order a list.",
        &[LIST_ID, P::text("name", "New name"), P::number("sort_order", "Lower is first")],
        &[("updated", K::Boolean), ("list_id", K::String), ("name", K::String), ("sort_order", K::Number)],
    )
    .idempotent(),
    Tool::write(
        "delete_list",
        "Delete an empty list; one with tasks in it, archived ones too, is refused.",
        &[LIST_ID],
        &[("deleted", K::Boolean), ("list_id", K::String), ("name", K::String)],
    )
    .idempotent()
    .destructive(),
];
