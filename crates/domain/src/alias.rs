//! Spellings that are accepted on input and never produced.

use crate::error::{Error, Result};

/// `text` without case, dashes, spaces and underscores: `Waiting-For Review` → `waitingforreview`.
pub fn fold(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// A closed set of words with its stored spelling and accepted aliases.
pub trait Vocabulary: Sized + Copy + 'static {
    /// What the set is called in errors, such as `status`.
    const WHAT: &'static str;
    /// Every value with its canonical spelling.
    const WORDS: &'static [(Self, &'static str)];
    /// Other spellings, already [`fold`]ed.
    const ALIASES: &'static [(&'static str, Self)] = &[];

    /// Reads a value in any spelling.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` about `field`, naming the values that work.
    fn read(field: &str, text: &str) -> Result<Self> {
        let folded = fold(text);
        Self::WORDS
            .iter()
            .find(|(_, word)| fold(word) == folded)
            .map(|(value, _)| *value)
            .or_else(|| Self::ALIASES.iter().find(|(alias, _)| *alias == folded).map(|(_, value)| *value))
            .ok_or_else(|| {
                let words: Vec<&str> = Self::WORDS.iter().map(|(_, word)| *word).collect();
                Error::invalid(field, format!("{field}: {text:?} is not a {}; use one of {}", Self::WHAT, words.join(", ")))
            })
    }

    /// Reads the stored spelling; `None` for anything else.
    fn stored(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, word)| *word == text).map(|(value, _)| *value)
    }
}

/// Declares an enum with its stored spellings, `as_str`, serde by spelling and [`Vocabulary`].
#[macro_export]
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* } $(aliases { $($alias:literal => $target:ident,)* })?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }
        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The stored and shown spelling.
            pub fn as_str(self) -> &'static str { match self { $(Self::$variant => $word,)* } }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }
        impl $crate::alias::Vocabulary for $name {
            const WHAT: &'static str = $what;
            const WORDS: &'static [(Self, &'static str)] = &[$((Self::$variant, $word),)*];
            const ALIASES: &'static [(&'static str, Self)] = &[$($(($alias, Self::$target),)*)?];
        }
    };
}
