//! Starts an agent with the driver its launch names.

use crate::contract::{Handle, Launch, StartError};
use taskyard_domain::agent::DriverKind;

/// Starts the agent. Returns as soon as its process lives; what follows (the handshake too) is told by
/// events. Must be called inside a Tokio runtime.
///
/// # Errors
/// [`StartError`]: no command, the program can't be started, a log or configuration can't be written.
pub fn start(launch: Launch) -> Result<Handle, StartError> {
    match launch.driver {
        DriverKind::Acp => crate::acp::start(launch),
        DriverKind::Claude => crate::claude::start(launch),
        DriverKind::Codex => crate::codex::start(launch),
        DriverKind::Exec => crate::exec::start(launch),
    }
}
