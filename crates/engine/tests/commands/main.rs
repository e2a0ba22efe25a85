//! The commands over a real database, with a fixed clock and counted ids.

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod answers;
mod config;
mod deletion;
mod dependencies;
mod identity;
mod lists;
mod operator;
mod status;
mod tasks;
mod wait;
