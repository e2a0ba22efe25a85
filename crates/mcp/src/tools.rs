//! The registry: every tool that is built, one file per group.
//!
//! The contract (`tests/contract/tools.yaml`) decides names, parameters and effects; a test holds
//! this registry against it.

mod agents;
mod claims;
mod common;
mod config;
mod git;
mod lists;
mod questions;
mod queue;
mod runs;
mod safety;
mod tasks;

use crate::tool::Tool;
use std::collections::HashMap;
use std::sync::LazyLock;

static GROUPS: [&[Tool]; 10] = [
    lists::TOOLS,
    tasks::TOOLS,
    git::TOOLS,
    runs::TOOLS,
    agents::TOOLS,
    queue::TOOLS,
    config::TOOLS,
    questions::TOOLS,
    safety::TOOLS,
    claims::TOOLS,
];

/// Every tool, in the order of the groups.
pub fn all() -> impl Iterator<Item = &'static Tool> {
    GROUPS.iter().flat_map(|group| group.iter())
}

static BY_NAME: LazyLock<HashMap<&str, &Tool>> = LazyLock::new(|| all().map(|tool| (tool.name, tool)).collect());

/// The tool called `name`, without a suffix.
pub fn find(name: &str) -> Option<&'static Tool> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_short() {
        let mut seen = HashSet::new();
        for tool in all() {
            assert!(seen.insert(tool.name), "{} is twice in the registry", tool.name);
            assert!(tool.name.len() <= 32, "{}", tool.name);
            assert!(tool.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{}", tool.name);
        }
    }
}
