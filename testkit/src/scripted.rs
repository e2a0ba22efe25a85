//! An agent that does what a [`Scenario`] says: real files, real git, real MCP calls, and every way of
//! misbehaving that real agents were seen to have. Speaks ACP version 1 on standard input and output.
//!
//! The scenario comes from `TASKYARD_SCENARIO` (JSON, or the path of a file with it). A fenced block of
//! the language `scenario` in a prompt says what that turn does instead. What it remembers of sessions is
//! in the folder `TASKYARD_SCRIPTED_STATE`, so that a session can be loaded after a kill.

pub mod scenario;

mod agent;
mod mcp;
mod nasty;
mod peer;
mod program;
mod state;
mod turn;

pub use program::program;
pub use scenario::{Scenario, Step};

use std::process::ExitCode;

/// Environment variable with the scenario: JSON, or the path of a file with it.
pub const SCENARIO: &str = "TASKYARD_SCENARIO";
/// Environment variable with the folder for sessions.
pub const STATE: &str = "TASKYARD_SCRIPTED_STATE";
/// Environment variable that the login by key looks for.
pub const API_KEY: &str = "TASKYARD_SCRIPTED_API_KEY";

/// Runs the agent until its standard input ends. 2 when the scenario can't be read.
pub async fn main() -> ExitCode {
    match Scenario::from_env() {
        Ok(scenario) => agent::serve(scenario).await,
        Err(problem) => {
            nasty::complain(&problem);
            ExitCode::from(2)
        }
    }
}
