//! Cutting what agents say to a size a transcript can hold.

use serde_json::{Value, json};

/// Longest text kept of a tool's output or arguments.
pub const SANE: usize = 32 << 10;
/// Longest [`crate::TurnEnd::last_text`].
pub const LAST_TEXT: usize = 4 << 10;

/// `text` when it has at most `max` bytes, else its beginning with a word on how much is missing.
pub fn text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

/// `value` when its JSON has at most `max` bytes, else an object with its beginning as text.
pub fn json(value: Value, max: usize) -> Value {
    let whole = value.to_string();
    if whole.len() <= max { value } else { json!({ "cut": text(&whole, max) }) }
}

/// Keeps the end of what is pushed: the last text of a turn.
#[derive(Debug, Default, Clone)]
pub struct Tail {
    kept: String,
}

impl Tail {
    /// Adds text; only the last [`LAST_TEXT`] bytes stay.
    pub fn push(&mut self, text: &str) {
        self.kept.push_str(text);
        if self.kept.len() > LAST_TEXT * 4 {
            self.shorten();
        }
    }

    /// Begins anew: the next message of the turn.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// What is kept, leaving nothing.
    pub fn take(&mut self) -> String {
        self.shorten();
        std::mem::take(&mut self.kept)
    }

    fn shorten(&mut self) {
        let from = self.kept.ceil_char_boundary(self.kept.len().saturating_sub(LAST_TEXT));
        self.kept.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(text("äöü", 6), "äöü");
        assert_eq!(text("äöü", 3), "ä… (4 bytes more)");
    }

    #[test]
    fn large_values_become_their_beginning() {
        assert_eq!(json(json!({"a": 1}), 20), json!({"a": 1}));
        let cut = json(json!({"a": "x".repeat(100)}), 20);
        assert!(cut["cut"].as_str().unwrap().starts_with("{\"a\":\"xxx"));
    }

    #[test]
    fn the_tail_is_the_end() {
        let mut tail = Tail::default();
        for _ in 0..10_000 {
            tail.push("ab€");
        }
        let kept = tail.take();
        assert!(kept.len() <= LAST_TEXT && kept.ends_with("ab€"));
        assert_eq!(tail.take(), "");
    }
}
