//! Names that are valid once they exist: task prefixes, short ids, slugs, branch names.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A task's readable name, `TY-42`: prefix and number, unique on the server, never re-used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShortId {
    prefix: String,
    number: i64,
}

impl ShortId {
    /// The short id number `number` under `prefix` (2–6 capitals).
    pub fn new(prefix: &str, number: i64) -> Self {
        Self { prefix: prefix.to_ascii_uppercase(), number }
    }

    /// Reads `TY-42` in any letter case; `None` when the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, number) = text.trim().split_once('-')?;
        let letters = prefix.len();
        if !(2..=6).contains(&letters) || !prefix.bytes().all(|b| b.is_ascii_alphabetic()) {
            return None;
        }
        if number.is_empty() || number.len() > 12 || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self::new(prefix, number.parse().ok().filter(|n| *n > 0)?))
    }

    /// The capitals before the dash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The number after the dash.
    pub fn number(&self) -> i64 {
        self.number
    }
}

impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.prefix, self.number)
    }
}

impl From<ShortId> for String {
    fn from(id: ShortId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for ShortId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text} is not a short id such as TY-42"))
    }
}

/// Lower-case words joined by `-`, at most `max` bytes, made from any text; `"task"` when nothing is left.
pub fn slugify(text: &str, max: usize) -> String {
    let mut slug = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= max {
            break;
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "task".into() } else { slug.into() }
}

/// A task prefix made from a workspace's slug: its letters, 2–6 capitals, not in `taken`.
pub fn task_prefix(slug: &str, taken: &[String]) -> String {
    let letters: String = slug.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_uppercase();
    let base = if letters.len() >= 2 { letters } else { format!("{letters}TASK") };
    let free = |candidate: &str| !taken.iter().any(|t| t == candidate);
    for len in 2..=base.len().min(6) {
        if free(&base[..len]) {
            return base[..len].into();
        }
    }
    let stem = &base[..base.len().min(3)];
    (0..26u32 * 26 * 26)
        .map(|n| {
            let letter = |d: u32| char::from(b'A' + u8::try_from(n / d % 26).unwrap_or(0));
            format!("{stem}{}{}{}", letter(676), letter(26), letter(1))
        })
        .find(|candidate| free(candidate))
        .unwrap_or_else(|| stem.into())
}

/// A branch name that git accepts (`git check-ref-format --branch`), without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchName(String);

impl BranchName {
    /// Checks `text` by git's rules for ref names.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the rule that is broken.
    pub fn parse(text: &str) -> Result<Self> {
        match broken_ref_rule(text) {
            None => Ok(Self(text.into())),
            Some(rule) => Err(Error::invalid("branch", format!("{text:?} can't be a branch name: {rule}"))),
        }
    }

    /// The bare name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole ref, `refs/heads/…`.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<BranchName> for String {
    fn from(name: BranchName) -> String {
        name.0
    }
}

impl TryFrom<String> for BranchName {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

fn broken_ref_rule(text: &str) -> Option<&'static str> {
    let bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    if text.is_empty() {
        Some("it is empty")
    } else if text == "@" || text == "HEAD" {
        Some("git reserves that name")
    } else if text.starts_with('-') {
        Some("it starts with a dash")
    } else if text.chars().any(bad) {
        Some("it has a control character, a space or one of ~^:?*[\\")
    } else if text.contains("..") || text.contains("@{") || text.contains("//") {
        Some("it contains '..', '@{' or '//'")
    } else if text.starts_with('/') || text.ends_with('/') || text.ends_with('.') {
        Some("it starts or ends with '/', or ends with '.'")
    } else if text.split('/').any(|part| part.starts_with('.') || part.ends_with(".lock")) {
        Some("a part of it starts with '.' or ends with '.lock'")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_read_any_case_and_nothing_else() {
        assert_eq!(ShortId::parse("ty-42"), Some(ShortId::new("TY", 42)));
        assert_eq!(ShortId::parse(" TY-042 "), Some(ShortId::new("TY", 42)));
        for bad in ["TY", "TY-", "T-1", "TY-0", "TY-x", "TOOLONGP-1", "T1-1", "TY-1-2", "01890a5d-ac96"] {
            assert_eq!(ShortId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn slugs_are_plain_and_never_empty() {
        assert_eq!(slugify("Fix: the Über-long  title!", 40), "fix-the-ber-long-title");
        assert_eq!(slugify("äöü", 40), "task");
        assert_eq!(slugify("abc def", 4), "abc");
    }

    #[test]
    fn prefixes_are_unique() {
        assert_eq!(task_prefix("taskyard", &[]), "TA");
        assert_eq!(task_prefix("taskyard", &["TA".into()]), "TAS");
        assert_eq!(task_prefix("x", &[]), "XT");
        let taken: Vec<String> = ["AB", "ABC"].map(String::from).into();
        assert_eq!(task_prefix("abc", &taken), "ABCAAA");
    }

    #[test]
    fn branch_names_follow_git() {
        for good in ["main", "taskyard/ty-1-x", "feature/é", "a.b"] {
            assert!(BranchName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "a b", "a..b", "a/", "/a", "a.lock", "a/.b", "x@{1}", "HEAD", "@", "a\\b", "a.", "a//b"] {
            assert!(BranchName::parse(bad).is_err(), "{bad}");
        }
    }
}
