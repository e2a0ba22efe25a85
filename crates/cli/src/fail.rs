//! How a command ends: what it found out, or the error of the engine's classes, shown once, with the class's exit code.

use crate::terminal::clean;
use crate::words;
use std::io::Write;
use std::process::ExitCode;
use taskyard_domain::Error;

/// Result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a command that did its work found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All is well: exit code 0.
    Good,
    /// What was waited for or asked for wasn't to be had: exit code 1.
    Bad,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => ExitCode::SUCCESS,
            Verdict::Bad => ExitCode::from(1),
        }
    }
}

/// Shows `error` on standard error (as JSON on standard output with `json`) and gives the exit code. `task` is the one
/// that the command was about.
pub fn show(error: &Error, json: bool, task: Option<&str>) -> ExitCode {
    if json {
        let text = serde_json::json!({ "error": error });
        let _ = writeln!(std::io::stdout(), "{text:#}");
    } else {
        let _ = std::io::stderr().lock().write_all(clean(&told(error, task)).as_bytes());
    }
    ExitCode::from(error.class.exit_code())
}

/// `error` for a person, in the command line's words.
fn told(error: &Error, task: Option<&str>) -> String {
    let mut text = format!("error: {}\n", words::message(&error.message, task));
    for file in error.details.iter().flat_map(|d| d["files"].as_array().into_iter().flatten()).filter_map(|f| f.as_str()) {
        text += &format!("  {file}\n");
    }
    // Some messages end in their hint, for faces that show the message alone.
    if let Some(hint) = error.hint.as_ref().filter(|hint| !error.message.contains(hint.as_str())) {
        text += &format!("hint: {}\n", words::hint(hint, task));
    }
    text
}

/// An unexpected failure of the machine: files, sockets.
pub fn machine(doing: &str, error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_once_and_in_commands() {
        let hint = "cancel_task ends it";
        let error = Error::precondition(format!("TY-1 can't be reset: {hint}")).with_hint(hint);
        assert_eq!(told(&error, Some("TY-1")), "error: TY-1 can't be reset: `taskyard task cancel TY-1` ends it\n");
        let error = Error::conflict("it conflicts").with_hint("repeat the call").with_details(serde_json::json!({ "files": ["a.txt"] }));
        assert_eq!(told(&error, None), "error: it conflicts\n  a.txt\nhint: repeat the command\n");
    }
}
