//! Checks of texts and numbers that callers give: sizes, forms, words.

use jiff::Timestamp;
use taskyard_domain::alias::{Vocabulary, fold};
use taskyard_domain::name::BranchName;
use taskyard_domain::task::Priority;
use taskyard_domain::{Class, Error, Result};

/// Longest title or name, bytes.
pub(crate) const TITLE: usize = 500;
/// Longest description, bytes.
pub(crate) const DESCRIPTION: usize = 1 << 20;
/// Longest text that is added to an agent's system prompt, bytes.
pub(crate) const SYSTEM_PROMPT: usize = 64 << 10;

/// A one-line text of 1 to [`TITLE`] bytes, without space around it.
pub(crate) fn title(field: &str, text: &str) -> Result<String> {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() {
        return Err(Error::invalid(field, format!("{field} can't be empty")));
    }
    if line.len() > TITLE {
        let hint = "put the details into the description";
        return Err(Error::invalid(field, format!("{field} is {} bytes long; at most {TITLE} fit", line.len())).with_hint(hint));
    }
    Ok(line)
}

/// A text of at most `most` bytes.
pub(crate) fn text(field: &str, text: &str, most: usize) -> Result<String> {
    if text.len() > most {
        return Err(Error::invalid(field, format!("{field} is {} bytes long; at most {most} fit", text.len())));
    }
    if text.contains('\0') {
        return Err(Error::invalid(field, format!("{field} contains a NUL character")));
    }
    Ok(text.to_owned())
}

/// A priority in any accepted spelling.
pub(crate) fn priority(text: &str) -> Result<Priority> {
    Priority::read("priority", text)
}

/// A time as RFC 3339 has it.
pub(crate) fn time(field: &str, text: &str) -> Result<Timestamp> {
    text.trim()
        .parse()
        .map_err(|_| Error::invalid(field, format!("{field}: {text:?} isn't a time; RFC 3339 is needed, such as 2030-01-31T09:00:00Z")))
}

/// A place in an order: any finite number.
pub(crate) fn order(field: &str, value: f64) -> Result<f64> {
    if value.is_finite() { Ok(value) } else { Err(Error::invalid(field, format!("{field} must be a finite number"))) }
}

/// A branch name, under the argument's own name.
pub(crate) fn branch(field: &str, text: &str) -> Result<String> {
    let name = text.trim();
    let name = name.strip_prefix("refs/heads/").unwrap_or(name);
    BranchName::parse(name).map(String::from).map_err(|error| Error::invalid(field, format!("{field}: {}", error.message)))
}

/// The fields to clear, by their real names, each of them one of `known`.
pub(crate) fn clear(names: &[String], known: &[&'static str]) -> Result<Vec<&'static str>> {
    let read = |name: &String| {
        let found = known.iter().find(|k| fold(k) == fold(name)).copied();
        found.ok_or_else(|| Error::invalid("clear", format!("clear: {name:?} can't be cleared; these can: {}", known.join(", "))))
    };
    names.iter().map(read).collect()
}

/// Refuses a field that is set and cleared in one call.
pub(crate) fn not_both(cleared: &[&'static str], set: &[&'static str]) -> Result<()> {
    match set.iter().find(|field| cleared.contains(field)) {
        Some(field) => Err(Error::invalid("clear", format!("{field} is set and cleared in the same call; do one of them"))),
        None => Ok(()),
    }
}

/// Refuses a change that names nothing to change.
pub(crate) fn some(named: &[&'static str]) -> Result<()> {
    if named.is_empty() {
        return Err(Error::new(Class::InvalidArgument, "nothing to change: pass at least one field, or name fields in clear"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_and_bounded() {
        assert_eq!(title("title", "  a\nb ").unwrap(), "a b");
        assert!(title("title", " \n ").is_err());
        assert!(title("title", &"x".repeat(501)).is_err());
    }

    #[test]
    fn times_need_a_zone() {
        assert!(time("due_at", "2030-01-31T09:00:00+02:00").is_ok());
        assert_eq!(time("due_at", "tomorrow").unwrap_err().field.as_deref(), Some("due_at"));
        assert!(time("due_at", "2030-01-31").is_err());
    }

    #[test]
    fn clearing_names_what_can_be_cleared() {
        assert_eq!(clear(&["dueAt".into()], &["due_at"]).unwrap(), ["due_at"]);
        let error = clear(&["title".into()], &["due_at"]).unwrap_err();
        assert!(error.message.contains("due_at"), "{error}");
        assert!(not_both(&["due_at"], &["due_at"]).is_err());
    }
}
