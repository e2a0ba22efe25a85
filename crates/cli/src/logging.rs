//! Logs go to standard error; standard output belongs to answers and protocols.

use crate::fail::Result;
use std::io::IsTerminal;
use taskyard_domain::Error;
use tracing_subscriber::EnvFilter;

/// Starts logging by `filter`.
pub fn init(filter: &str) -> Result<()> {
    let parsed = EnvFilter::try_new(filter).map_err(|e| Error::invalid("log", format!("log: {filter:?} is not a filter: {e}")))?;
    // Colours are for people; a file gets plain text.
    let is_terminal = std::io::stderr().is_terminal();
    // A second start in one process (tests) keeps the first.
    let _ =
        tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr).with_ansi(is_terminal).with_target(false).try_init();
    Ok(())
}
