//! A backlog's item as a Markdown file with YAML front matter: read, and changed in place.
//!
//! A change touches the fields that differ and nothing else: unknown fields, comments, order, quotes and line ends of
//! the file stay. No I/O.

mod front;

use crate::alias::Vocabulary as _;
use crate::error::{Error, Result};
use crate::task::{Kind, Priority, Status};
use front::Front;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Longest slug of an item, bytes.
pub const SLUG: usize = 100;

/// What a file and Taskyard both know of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// One line.
    pub title: String,
    /// The plan it belongs to.
    pub plan_slug: Option<String>,
    /// The epic it belongs to.
    pub epic_slug: Option<String>,
    /// Where it stands; `None` where the file doesn't say.
    pub status: Option<Status>,
    /// How much it matters; `None` where the file doesn't say.
    pub priority: Option<Priority>,
    /// The text below the front matter, without line ends around it, lines ended by LF.
    pub body: String,
}

crate::vocabulary! {
    /// A field of [`Fields`].
    Field, "field", {
        /// The title.
        Title = "title",
        /// The plan.
        PlanSlug = "plan_slug",
        /// The epic.
        EpicSlug = "epic_slug",
        /// The status.
        Status = "status",
        /// The priority.
        Priority = "priority",
        /// The text.
        Body = "body",
    }
}

impl Fields {
    /// Whether a file with these fields says anything about `field`. An epic speaks for its plan.
    pub fn says(&self, field: Field) -> bool {
        match field {
            Field::Status => self.status.is_some(),
            Field::Priority => self.priority.is_some(),
            Field::PlanSlug => self.plan_slug.is_some() || self.epic_slug.is_none(),
            Field::Title | Field::EpicSlug | Field::Body => true,
        }
    }

    /// Whether `field` is the same in both.
    pub fn agrees(&self, other: &Fields, field: Field) -> bool {
        match field {
            Field::Title => self.title == other.title,
            Field::PlanSlug => self.plan_slug == other.plan_slug,
            Field::EpicSlug => self.epic_slug == other.epic_slug,
            Field::Status => self.status == other.status,
            Field::Priority => self.priority == other.priority,
            Field::Body => self.body == other.body,
        }
    }

    /// Takes `field` from `other`.
    pub fn take(&mut self, other: &Fields, field: Field) {
        match field {
            Field::Title => self.title.clone_from(&other.title),
            Field::PlanSlug => self.plan_slug.clone_from(&other.plan_slug),
            Field::EpicSlug => self.epic_slug.clone_from(&other.epic_slug),
            Field::Status => self.status = other.status,
            Field::Priority => self.priority = other.priority,
            Field::Body => self.body.clone_from(&other.body),
        }
    }

    /// The front matter's text for `field`; `None` for an empty one and for the body.
    pub fn text(&self, field: Field) -> Option<String> {
        match field {
            Field::Title => Some(self.title.clone()),
            Field::PlanSlug => self.plan_slug.clone(),
            Field::EpicSlug => self.epic_slug.clone(),
            Field::Status => self.status.map(|status| status.to_string()),
            Field::Priority => self.priority.map(|priority| level(priority).to_owned()),
            Field::Body => None,
        }
    }
}

/// What both sides agreed on last: the common ground of their changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreed {
    /// The values.
    pub fields: Fields,
    /// Which of them were ever agreed on.
    pub known: BTreeSet<Field>,
}

impl Agreed {
    /// Nothing yet; `fields` only fill the places.
    pub fn nothing(fields: &Fields) -> Self {
        Self { fields: fields.clone(), known: BTreeSet::new() }
    }

    /// Both sides have this value of `field`.
    pub fn on(&mut self, fields: &Fields, field: Field) {
        self.fields.take(fields, field);
        self.known.insert(field);
    }
}

/// Which side changed a field since both agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// None, or both to the same value.
    Neither,
    /// Taskyard.
    Here,
    /// The file.
    File,
    /// Both, differently; or they differ and never agreed.
    Both,
}

/// Which side changed `field`: three values, compared.
pub fn changed(field: Field, here: &Fields, file: &Fields, agreed: &Agreed) -> Changed {
    let known = agreed.known.contains(&field);
    let here_as_agreed = known && here.agrees(&agreed.fields, field);
    if !file.says(field) {
        return if here_as_agreed || !known { Changed::Neither } else { Changed::Here };
    }
    if here.agrees(file, field) {
        Changed::Neither
    } else if known && file.agrees(&agreed.fields, field) {
        Changed::Here
    } else if here_as_agreed {
        Changed::File
    } else {
        Changed::Both
    }
}

/// A priority as backlogs write it.
fn level(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "P0",
        Priority::High => "P1",
        Priority::Medium => "P2",
        Priority::Low => "P3",
    }
}

/// A file of a backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Task, epic or plan.
    pub kind: Kind,
    /// Its name, unique among its kind.
    pub slug: String,
    /// What it says.
    pub fields: Fields,
    text: String,
    front: Front,
}

impl File {
    /// Reads a file. `None` when it isn't an item of a backlog: no front matter, or one without `kind`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the field or the line that can't be read.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let Some(front) = Front::read(text)? else { return Ok(None) };
        let Some(kind) = front.value("kind")? else { return Ok(None) };
        let kind = Kind::read("kind", &kind)?;
        let needed = |field: &str, value: Option<String>| {
            value.ok_or_else(|| Error::invalid(field, format!("the front matter has no {field}; a {kind} needs one")))
        };
        let slug = needed("slug", front.value("slug")?)?;
        check_slug("slug", &slug)?;
        let title = needed("title", front.value("title")?)?;
        let handle = |field: &str| -> Result<Option<String>> {
            let value = front.value(field)?;
            value.as_deref().map_or(Ok(()), |slug| check_slug(field, slug))?;
            Ok(value)
        };
        let status = front.value("status")?.map(|text| Status::read("status", &text)).transpose()?;
        let priority = front.value("priority")?.map(|text| Priority::read("priority", &text)).transpose()?;
        let body = unify(front.body(text));
        let fields = Fields { title, plan_slug: handle("plan_slug")?, epic_slug: handle("epic_slug")?, status, priority, body };
        Ok(Some(Self { kind, slug, fields, text: text.to_owned(), front }))
    }

    /// The file's text with what differs in `fields`; the very same text when nothing does.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` where its front matter is written in a way that can't be changed without changing more: fields
    /// within braces or set in, anchors that other fields name, comments within a value.
    pub fn with(&self, fields: &Fields) -> Result<String> {
        let differing: Vec<Field> = Field::ALL.iter().copied().filter(|field| !self.fields.agrees(fields, *field)).collect();
        let mut changes = Vec::new();
        for field in differing.iter().filter(|field| **field != Field::Body) {
            changes.push((field.as_str(), fields.text(*field)));
        }
        let body = differing.contains(&Field::Body).then_some(fields.body.as_str());
        let text = self.front.rewrite(&self.text, &changes, body);
        let same = |again: &File| Field::ALL.iter().all(|field| again.fields.agrees(fields, *field)) && self.keeps(again, &changes);
        match File::parse(&text) {
            Ok(Some(again)) if same(&again) => Ok(text),
            _ => {
                let names: Vec<&str> = differing.iter().map(|field| field.as_str()).collect();
                Err(Error::precondition(format!(
                    "{} can't be changed in the way its front matter is written: change it by hand, with a line `name: value` for each field",
                    names.join(", ")
                )))
            }
        }
    }

    /// Whether `again` is this item and says the same beside `changes`, comments included.
    fn keeps(&self, again: &File, changes: &[(&str, Option<String>)]) -> bool {
        let names: Vec<&str> = changes.iter().map(|(name, _)| *name).collect();
        let is_same = self.front.others(&self.text, &names) == again.front.others(&again.text, &names);
        is_same && (self.kind, &self.slug) == (again.kind, &again.slug)
    }

    /// A new file.
    pub fn fresh(kind: Kind, slug: &str, fields: &Fields) -> String {
        let mut text = format!("---\nkind: {kind}\nslug: {}\n", front::scalar(slug, false));
        for field in Field::ALL {
            if let Some(value) = fields.text(*field) {
                text.push_str(&format!("{field}: {}\n", front::scalar(&value, false)));
            }
        }
        text.push_str("---\n");
        if !fields.body.is_empty() {
            text.push_str(&format!("{}\n", fields.body));
        }
        text
    }
}

/// A body as it is kept and compared: lines ended by LF, no line ends around it.
pub fn unify(body: &str) -> String {
    body.replace("\r\n", "\n").trim_matches('\n').to_owned()
}

/// Checks the slug of an item: it names a file too.
///
/// # Errors
/// `INVALID_ARGUMENT` about `field`.
pub fn check_slug(field: &str, slug: &str) -> Result<()> {
    let plain = slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
    let begins = slug.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if plain && begins && slug.len() <= SLUG {
        return Ok(());
    }
    let rule = format!("it takes 1 to {SLUG} of a-z, 0-9, '-', '_' and '.', and begins with a letter or digit");
    Err(Error::invalid(field, format!("{field}: {slug:?} can't be a slug; {rule}")))
}

#[cfg(test)]
mod tests;
