//! Names of git objects.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A full object name: 40 (SHA-1) or 64 (SHA-256) lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// Reads a full object name; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let full = matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        full.then(|| Self(text.into()))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// Whether it is git's "no object" (all zeros).
    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }

    /// "No object" of the same length: what `update-ref` takes for "must not exist".
    #[must_use]
    pub fn null(&self) -> Self {
        Self("0".repeat(self.0.len()))
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<std::ffi::OsStr> for Oid {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.0.as_ref()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.0
    }
}

impl TryFrom<String> for Oid {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not a full object name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_names_are_taken() {
        let full = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Oid::parse(&format!("{full}\n")).map(|o| o.short().to_owned()), Some("0123456789".into()));
        for bad in ["", "0123", "HEAD", &full.to_uppercase(), &format!("{full}0")] {
            assert_eq!(Oid::parse(bad), None, "{bad}");
        }
    }
}
