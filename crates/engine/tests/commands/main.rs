//! The commands over a real database, with a fixed clock and counted ids.

#![expect(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

/// Which database the commands run on here; `commands_postgres` runs the same tests on the other.
const ON_POSTGRES: bool = false;

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod answers;
mod audit;
mod backlog;
mod claim_rules;
mod claims;
mod config;
mod deletion;
mod dependencies;
mod identity;
mod lists;
mod operator;
mod questions;
mod status;
mod tasks;
mod wait;
