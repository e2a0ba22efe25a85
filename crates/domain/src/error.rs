//! The one error that faces show: a class, a sentence, the field it is about and the way out.
//!
//! Libraries keep their own typed errors; `engine` folds them into this one. Only a fault of
//! Taskyard's own is [`Class::Internal`].

use serde::{Deserialize, Serialize};

/// Result of everything a face can call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is; the wire code is the variant in `SCREAMING_SNAKE_CASE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Class {
    /// An argument is missing, unknown, of the wrong type or out of range.
    InvalidArgument,
    /// The thing named doesn't exist in the workspace.
    NotFound,
    /// The state moved, a merge conflicts, or a key was used for something else.
    Conflict,
    /// Somebody else holds the claim.
    AlreadyClaimed,
    /// The caller's identity isn't allowed to do this.
    Forbidden,
    /// The call is well formed, but the present state doesn't allow it.
    FailedPrecondition,
    /// A slot, queue or size limit is used up.
    ResourceExhausted,
    /// Something that is needed doesn't answer now; a retry may work.
    Unavailable,
    /// A fault of Taskyard's own.
    Internal,
}

impl Class {
    /// Every class, in the order of `product.md`.
    pub const ALL: [Class; 9] = [
        Class::InvalidArgument,
        Class::NotFound,
        Class::Conflict,
        Class::AlreadyClaimed,
        Class::Forbidden,
        Class::FailedPrecondition,
        Class::ResourceExhausted,
        Class::Unavailable,
        Class::Internal,
    ];

    /// The code on the wire, such as `INVALID_ARGUMENT`.
    pub fn code(self) -> &'static str {
        match self {
            Class::InvalidArgument => "INVALID_ARGUMENT",
            Class::NotFound => "NOT_FOUND",
            Class::Conflict => "CONFLICT",
            Class::AlreadyClaimed => "ALREADY_CLAIMED",
            Class::Forbidden => "FORBIDDEN",
            Class::FailedPrecondition => "FAILED_PRECONDITION",
            Class::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Class::Unavailable => "UNAVAILABLE",
            Class::Internal => "INTERNAL",
        }
    }

    /// The process exit code that the command line uses for this class. 2 is clap's own usage error.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::InvalidArgument => 2,
            Class::NotFound => 3,
            Class::Conflict => 4,
            Class::AlreadyClaimed => 5,
            Class::Forbidden => 6,
            Class::FailedPrecondition => 7,
            Class::ResourceExhausted => 8,
            Class::Unavailable => 9,
            Class::Internal => 70,
        }
    }
}

/// An error as every face shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The class, `code` on the wire.
    #[serde(rename = "code")]
    pub class: Class,
    /// What happened, naming the field or file as the caller typed it.
    pub message: String,
    /// The argument it is about, as the caller typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What a program needs to go on (conflicting files, holders, choices).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// What would work instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Longest message, bytes.
const LONGEST: usize = 4000;

fn bounded(message: String) -> String {
    if message.len() <= LONGEST {
        return message;
    }
    let (start, end) = (message.floor_char_boundary(LONGEST - 600), message.ceil_char_boundary(message.len() - 500));
    format!("{} […] {}", message.get(..start).unwrap_or_default(), message.get(end..).unwrap_or_default())
}

impl Error {
    /// An error of `class` that says `message`; of a very long one, which repeats what a caller typed or a program
    /// said, the beginning and the end.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: bounded(message.into()), field: None, details: None, hint: None }
    }

    /// `INVALID_ARGUMENT` about `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::InvalidArgument, message).with_field(field)
    }

    /// `NOT_FOUND`: no `what` named `handle`.
    pub fn not_found(what: &str, handle: impl std::fmt::Display) -> Self {
        Self::new(Class::NotFound, format!("there is no {what} {handle}"))
    }

    /// `CONFLICT`.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Class::Conflict, message)
    }

    /// `FAILED_PRECONDITION`.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Class::FailedPrecondition, message)
    }

    /// `FORBIDDEN`.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Class::Forbidden, message)
    }

    /// `RESOURCE_EXHAUSTED`.
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(Class::ResourceExhausted, message)
    }

    /// `UNAVAILABLE`.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Class::Unavailable, message)
    }

    /// `INTERNAL`: a fault of Taskyard's own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Class::Internal, message)
    }

    /// The same, naming the argument it is about.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same, with what would work.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with facts for a program.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_never_endless() {
        let error = Error::not_found("task", format!("{}end", "é".repeat(50_000)));
        assert!(error.message.len() <= LONGEST, "{} bytes", error.message.len());
        assert!(error.message.starts_with("there is no task éé") && error.message.ends_with("ééend"), "{}", error.message);
        assert_eq!(Error::not_found("task", "TY-1").message, "there is no task TY-1");
    }

    #[test]
    fn the_wire_code_is_the_serialised_class() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.code());
        }
    }

    #[test]
    fn exit_codes_are_distinct() {
        let mut codes: Vec<u8> = Class::ALL.iter().map(|c| c.exit_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Class::ALL.len());
    }
}
