//! What a tool is: its name, parameters, effects and the shape of its answer, as constant data.
//!
//! Owns nothing. The schemas that clients see, the validation of arguments and the contract test all
//! read these values; nothing here runs a tool.

use taskyard_domain::alias::Vocabulary;

/// A tool as clients see it.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Its name without the configured suffix.
    pub name: &'static str,
    /// When to use it, in a sentence or two.
    pub description: &'static str,
    /// What it takes.
    pub params: &'static [Param],
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether repeating it changes nothing more.
    pub idempotent: bool,
    /// Whether it destroys something.
    pub destructive: bool,
    /// Whether it only reads and writes the database, so that its answer is there at once.
    pub brief: bool,
    /// The top-level fields of its answer.
    pub outputs: &'static [Output],
}

impl Tool {
    /// A tool that only reads.
    pub const fn read(name: &'static str, description: &'static str, params: &'static [Param], outputs: &'static [Output]) -> Self {
        Self { name, description, params, read_only: true, idempotent: false, destructive: false, brief: false, outputs }
    }

    /// A tool that writes.
    pub const fn write(name: &'static str, description: &'static str, params: &'static [Param], outputs: &'static [Output]) -> Self {
        Self { name, description, params, read_only: false, idempotent: false, destructive: false, brief: false, outputs }
    }

    /// The same; repeating it changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same; it destroys something.
    #[must_use]
    pub const fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }

    /// The same; it only reads and writes the database.
    #[must_use]
    pub const fn brief(mut self) -> Self {
        self.brief = true;
        self
    }

    /// Its parameter `name`.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|p| p.name == name)
    }
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A JSON object.
    Object,
    /// A list of texts.
    Strings,
    /// A list of JSON objects.
    Objects,
}

/// What a parameter is when the caller leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// A flag.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(&'static str),
}

/// A closed set of words for a text parameter.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The advertised words.
    pub allowed: &'static [&'static str],
    /// Reads any accepted spelling; gives the advertised one.
    pub read: fn(&str) -> Option<&'static str>,
}

/// The stored spelling of `text` in the vocabulary `V`; `None` when it isn't one of its words.
pub fn spelling<V: Vocabulary + PartialEq>(text: &str) -> Option<&'static str> {
    let value = V::read("", text).ok()?;
    V::WORDS.iter().find(|(known, _)| *known == value).map(|(_, word)| *word)
}

/// A parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name, `snake_case`.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// Whether a call without it is refused.
    pub required: bool,
    /// What it is when left out.
    pub preset: Option<Preset>,
    /// The words it takes, if it takes only some.
    pub words: Option<Words>,
    /// Least and most: the value of a number, or how many items a list has.
    pub bounds: Option<(i64, i64)>,
    /// Whether an empty text is a value here.
    pub blank: bool,
    /// One line for the model.
    pub doc: &'static str,
}

impl Param {
    /// An optional parameter.
    pub const fn new(name: &'static str, kind: Type, doc: &'static str) -> Self {
        Self { name, kind, required: false, preset: None, words: None, bounds: None, blank: false, doc }
    }

    /// An optional text.
    pub const fn text(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::String, doc)
    }

    /// An optional whole number from `min` to `max`.
    pub const fn int(name: &'static str, min: i64, max: i64, doc: &'static str) -> Self {
        let mut param = Self::new(name, Type::Integer, doc);
        param.bounds = Some((min, max));
        param
    }

    /// An optional number.
    pub const fn number(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Number, doc)
    }

    /// A flag that is `preset` when left out.
    pub const fn flag(name: &'static str, preset: bool, doc: &'static str) -> Self {
        let mut param = Self::new(name, Type::Boolean, doc);
        param.preset = Some(Preset::Bool(preset));
        param
    }

    /// The same, required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same, with the value it has when left out.
    #[must_use]
    pub const fn or(mut self, preset: Preset) -> Self {
        self.preset = Some(preset);
        self
    }

    /// The same, taking only the words of `V` that are listed in `allowed`.
    #[must_use]
    pub const fn one_of<V: Vocabulary + PartialEq>(mut self, allowed: &'static [&'static str]) -> Self {
        self.words = Some(Words { allowed, read: spelling::<V> });
        self
    }

    /// The same, with bounds on the value or on how many items it has.
    #[must_use]
    pub const fn within(mut self, min: i64, max: i64) -> Self {
        self.bounds = Some((min, max));
        self
    }

    /// The same; an empty text is a value.
    #[must_use]
    pub const fn blank(mut self) -> Self {
        self.blank = true;
        self
    }
}

/// The type of a top-level field of an answer. Fields that may be null have none here and stay undescribed:
/// a schema without type lists can't say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A JSON object.
    Object,
    /// A list of texts.
    Strings,
    /// A list of JSON objects.
    Objects,
}

/// A top-level field of an answer.
pub type Output = (&'static str, Kind);

#[cfg(test)]
mod tests {
    use super::*;
    use taskyard_domain::task::{Priority, Word};

    #[test]
    fn spellings_lead_to_the_advertised_word() {
        assert_eq!(spelling::<Word>("To-Do"), Some("ready"));
        assert_eq!(spelling::<Priority>("P1"), Some("high"));
        assert_eq!(spelling::<Word>("failed"), None);
    }
}
