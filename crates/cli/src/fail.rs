//! How a command fails: the error of the engine's classes, shown once, with the class's exit code.

use std::io::Write;
use std::process::ExitCode;
use taskyard_domain::Error;

/// Result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Shows `error` on standard error (as JSON on standard output with `json`) and gives the exit code.
pub fn show(error: &Error, json: bool) -> ExitCode {
    if json {
        let text = serde_json::json!({ "error": error });
        let _ = writeln!(std::io::stdout(), "{text:#}");
    } else {
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "error: {}", error.message);
        for file in error.details.iter().flat_map(|d| d["files"].as_array().into_iter().flatten()).filter_map(|f| f.as_str()) {
            let _ = writeln!(out, "  {file}");
        }
        if let Some(hint) = &error.hint {
            let _ = writeln!(out, "hint: {hint}");
        }
    }
    ExitCode::from(error.class.exit_code())
}

/// An unexpected failure of the machine: files, sockets.
pub fn machine(doing: &str, error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{doing}: {error}"))
}
