//! Agents that can work, and the server's settings.

use super::common::*;
use crate::tool::Tool;

pub(super) static TOOLS: &[Tool] = &[
    Tool::read("list_agents", "Known agents: installed or not, version, profiles, models.", &[], &[("agents", K::Objects)]),
    Tool::read(
        "get_app_settings",
        "The server's settings; no secrets.",
        &[],
        &[("settings", K::Object), ("version", K::String), ("url", K::String), ("data_dir", K::String)],
    ),
];
