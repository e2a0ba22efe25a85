//! Placeholder of the codex driver until it is written.

use crate::contract::{Handle, Launch, StartError};

/// Starts the agent.
///
/// # Errors
/// [`StartError`].
pub fn start(_launch: Launch) -> Result<Handle, StartError> {
    Err(StartError::NoCommand)
}
