//! YAML front matter: where each field's value stands, and a text with some of them replaced.
//!
//! Reading is a YAML parser's; only the places that it reports are ever written to.

use crate::error::{Error, Result};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// The front matter of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Front {
    /// Where the first field begins, in bytes.
    start: usize,
    /// Where the closing line begins.
    end: usize,
    /// Where the body begins.
    body: usize,
    /// The fields in their order.
    entries: Vec<Entry>,
}

/// A field and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: String,
    /// Where its line begins.
    line: usize,
    /// Just behind its colon.
    colon: usize,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A text, with the bytes it takes where it stands on one line.
    Scalar { text: String, quoted: bool, at: Option<(usize, usize)> },
    /// A list or a map.
    Nested,
}

impl Front {
    /// The front matter of `text`; `None` when it doesn't begin with one.
    pub(super) fn read(text: &str) -> Result<Option<Self>> {
        let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut lines = text[bom..].split_inclusive('\n');
        let Some(first) = lines.next().filter(|line| line.trim_end() == "---" && line.ends_with('\n')) else { return Ok(None) };
        let start = bom + first.len();
        let mut end = start;
        for line in lines {
            if matches!(line.trim_end(), "---" | "...") {
                let entries = entries(&text[start..end], start)?;
                return Ok(Some(Self { start, end, body: end + line.len(), entries }));
            }
            end += line.len();
        }
        // A page may begin with a line across; one that names a kind below it is an item whose second line is missing.
        let names_a_kind =
            text[start..].lines().map(str::trim_end).take_while(|line| !line.is_empty()).any(|line| line.starts_with("kind:"));
        if names_a_kind {
            return Err(Error::invalid("front matter", "the front matter isn't closed: a line of --- belongs below its fields"));
        }
        Ok(None)
    }

    /// The text of a field; `None` where it is missing or null.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when it is a list or a map.
    pub(super) fn value(&self, key: &str) -> Result<Option<String>> {
        match self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Scalar { text, .. }) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(Value::Nested) => Err(Error::invalid(key, format!("{key}: a text is needed, not a list or a map"))),
        }
    }

    /// What stands below the front matter of `text`.
    pub(super) fn body<'a>(&self, text: &'a str) -> &'a str {
        &text[self.body..]
    }

    /// What `text` says beside the fields in `names`: each other field as it is written, and the lines that are comments.
    pub(super) fn others<'a>(&self, text: &'a str, names: &[&str]) -> Vec<&'a str> {
        let ends = self.entries.iter().skip(1).map(|entry| entry.line).chain([self.end]);
        let fields = self.entries.iter().zip(ends).filter(|(entry, _)| !names.contains(&entry.key.as_str()));
        let is_comment = |line: &&str| line.trim_start().starts_with('#');
        let comments = text[self.start..self.end].lines().filter(is_comment);
        fields.map(|(entry, end)| text[entry.line..end.max(entry.line)].trim_end()).chain(comments).collect()
    }

    /// `text` with these fields and, where given, this body; everything else as it is.
    pub(super) fn rewrite(&self, text: &str, changes: &[(&str, Option<String>)], body: Option<&str>) -> String {
        let newline = if text[..self.start].ends_with("\r\n") { "\r\n" } else { "\n" };
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        for (key, value) in changes {
            match self.entries.iter().position(|entry| entry.key == *key) {
                Some(index) => edits.push(self.edit(text, index, value.as_deref(), newline)),
                None => {
                    if let Some(value) = value {
                        edits.push((self.end, self.end, format!("{key}: {}{newline}", scalar(value, false))));
                    }
                }
            }
        }
        if let Some(body) = body {
            let gap = if text[..self.body].ends_with('\n') { "" } else { newline };
            edits.push((self.body, text.len(), format!("{gap}{}", framed(self.body(text), body, newline))));
        }
        edits.sort_by_key(|(from, ..)| *from);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for (from, to, new) in edits {
            out.push_str(&text[at..from]);
            out.push_str(&new);
            at = to;
        }
        out.push_str(&text[at..]);
        out
    }

    fn edit(&self, text: &str, index: usize, value: Option<&str>, newline: &str) -> (usize, usize, String) {
        let entry = &self.entries[index];
        if let Value::Scalar { quoted, at: Some((from, to)), .. } = &entry.value {
            return (*from, *to, value.map_or_else(|| "null".into(), |value| scalar(value, *quoted)));
        }
        let written = value.map_or_else(|| "null".into(), |value| scalar(value, false));
        let next = self.entries.get(index + 1).map_or(self.end, |next| next.line);
        let rest_of_line = text[entry.colon..next].find('\n').map_or(next, |at| entry.colon + at);
        let rest = &text[entry.colon..rest_of_line];
        if entry.value == Value::Null {
            // A comment behind an empty value stays.
            let comment = rest.find(" #").map_or("", |at| rest[at..].trim_end_matches('\r'));
            return (entry.colon, entry.colon + rest.trim_end_matches('\r').len(), format!(" {written}{comment}"));
        }
        (entry.colon, next, format!(" {written}{newline}"))
    }
}

/// A body with the line ends that stood around the old one.
fn framed(old: &str, new: &str, newline: &str) -> String {
    let lead: String = old.chars().take_while(|c| matches!(c, '\r' | '\n')).collect();
    let lead = if old.trim_matches(['\r', '\n']).is_empty() { String::new() } else { lead };
    if new.is_empty() { String::new() } else { format!("{lead}{}{newline}", new.replace('\n', newline)) }
}

/// The top-level fields of `yaml`, which begins at byte `offset` of the file.
fn entries(yaml: &str, offset: usize) -> Result<Vec<Entry>> {
    let places: Vec<usize> = yaml.char_indices().map(|(at, _)| at).chain([yaml.len()]).collect();
    let byte = |index: usize| places.get(index).copied().unwrap_or(yaml.len());
    let (mut found, mut key, mut depth) = (Vec::<Entry>::new(), None::<(String, Span)>, 0_usize);
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error| Error::invalid("front matter", format!("the front matter isn't valid YAML: {error}")))?;
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                if depth == 0 && matches!(event, Event::SequenceStart(..)) {
                    return Err(unreadable("is a list; fields such as `title: …` are needed"));
                }
                if let (1, Some((name, at))) = (depth, key.take()) {
                    found.push(entry(yaml, offset, &byte, name, &at, Value::Nested)?);
                } else if depth == 1 {
                    return Err(unreadable("has a key that is a list or a map"));
                }
                depth += 1;
            }
            Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
            Event::Scalar(text, style, ..) if depth == 1 => match key.take() {
                None => key = Some((text.into_owned(), span)),
                Some((name, at)) => {
                    let value = value(yaml, offset, &byte, &text, style, &span);
                    found.push(entry(yaml, offset, &byte, name, &at, value)?);
                }
            },
            Event::Scalar(text, ..) if depth == 0 && !text.is_empty() => return Err(unreadable("has no fields")),
            Event::Alias(_) if depth == 1 => {
                let (name, at) = key.take().ok_or_else(|| unreadable("has an alias for a key"))?;
                found.push(entry(yaml, offset, &byte, name, &at, Value::Nested)?);
            }
            _ => {}
        }
    }
    Ok(found).and_then(|found| match found.iter().enumerate().find(|(index, entry)| found[..*index].iter().any(|e| e.key == entry.key)) {
        Some((_, twice)) => Err(Error::invalid(twice.key.clone(), format!("{} is twice in the front matter", twice.key))),
        None => Ok(found),
    })
}

fn unreadable(what: &str) -> Error {
    Error::invalid("front matter", format!("the front matter {what}"))
}

fn entry(yaml: &str, offset: usize, byte: &impl Fn(usize) -> usize, key: String, at: &Span, value: Value) -> Result<Entry> {
    let (start, end) = (byte(at.start.index()), byte(at.end.index()));
    let colon = yaml[end..].find(':').ok_or_else(|| unreadable("has a field without a colon"))?;
    let line = yaml[..start].rfind('\n').map_or(0, |at| at + 1);
    Ok(Entry { key, line: offset + line, colon: offset + end + colon + 1, value })
}

fn value(yaml: &str, offset: usize, byte: &impl Fn(usize) -> usize, text: &str, style: ScalarStyle, span: &Span) -> Value {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Value::Null;
    }
    let (from, to) = (byte(span.start.index()), byte(span.end.index()));
    let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
    let in_place = (plain || quoted) && from < to && !yaml[from..to].contains('\n');
    Value::Scalar { text: text.to_owned(), quoted, at: in_place.then_some((offset + from, offset + to)) }
}

/// `text` as a YAML value on one line: plain where that reads back as the same text, else in double quotes.
pub(super) fn scalar(text: &str, quoted: bool) -> String {
    let word = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | '(' | ')' | ',' | ';' | '+' | '=');
    let begins = text.chars().next().is_some_and(char::is_alphabetic);
    let ambiguous = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if !quoted && begins && !ambiguous && !text.ends_with(' ') && text.chars().all(word) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
