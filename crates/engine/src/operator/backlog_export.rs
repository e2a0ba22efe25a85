//! Says what the Markdown files of a backlog should be now: what changed here since both sides agreed goes into the
//! file, everything else in it stays; what changed in the file first has to be imported.
//!
//! Writes nothing: the caller writes the files, and imports them, which records that both sides agree.

use super::backlog_import::{BacklogText, differing, fields_of};
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use taskyard_domain::Result;
use taskyard_domain::backlog::{Agreed, Changed, Field, Fields, File, changed};
use taskyard_domain::task::{Kind, Task};
use taskyard_store::{BacklogFile, Read};

/// The files that there are now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogExport {
    /// Slug or UUID.
    pub workspace: String,
    /// Which folder it is, as an import spells it.
    #[serde(default)]
    pub folder: String,
    /// Every Markdown file of the folder.
    #[serde(default)]
    pub files: Vec<BacklogText>,
}

/// A file to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExportedFile {
    /// Where, parts joined by `/`.
    pub path: String,
    /// Its whole text.
    pub text: String,
    /// Whether there is none yet.
    pub is_new: bool,
    /// Its item.
    pub short_id: String,
    /// What changed.
    pub fields: Vec<Field>,
}

/// An item whose file wasn't brought up to date, wholly or in part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeftAlone {
    /// The file.
    pub path: String,
    /// Its item, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// `changed_in_file`, `conflict`, `twice`, `in_the_way`, `without_item` or `unreadable`.
    pub reason: String,
    /// Which fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// A sentence.
    pub note: String,
}

/// What the files should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogExportOutput {
    /// Files to write.
    pub files: Vec<ExportedFile>,
    /// What is left as it is although it differs.
    pub left_alone: Vec<LeftAlone>,
    /// How many files are up to date.
    pub unchanged: usize,
}

impl Engine {
    /// What the files of a backlog should be, given those that there are. Changes nothing.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace; `FORBIDDEN` for a run.
    pub async fn backlog_export(&self, caller: &Caller, input: BacklogExport) -> Result<BacklogExportOutput> {
        caller.require_person("export a backlog")?;
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { export(read, &caller, input).await })).await
    }
}

/// The files that there are, by item.
struct Seen {
    paths: HashSet<String>,
    by_item: HashMap<(Kind, String), (String, File)>,
}

impl Seen {
    fn of(files: Vec<BacklogText>, left_alone: &mut Vec<LeftAlone>) -> Self {
        let mut seen = Self { paths: HashSet::new(), by_item: HashMap::new() };
        let mut twice = HashSet::new();
        for given in files {
            seen.paths.insert(given.path.clone());
            match File::parse(&given.text) {
                Ok(None) => {}
                Err(error) => left_alone.push(left(&given.path, None, "unreadable", Vec::new(), error.message)),
                Ok(Some(file)) => {
                    let item = (file.kind, file.slug.clone());
                    if let Some((first, _)) = seen.by_item.get(&item) {
                        let note = format!("{first} is the same {} {}: keep one of them", item.0, item.1);
                        left_alone.push(left(&given.path, None, "twice", Vec::new(), note));
                        twice.insert(item);
                    } else {
                        seen.by_item.insert(item, (given.path, file));
                    }
                }
            }
        }
        seen.by_item.retain(|item, _| !twice.contains(item));
        seen
    }
}

fn left(path: &str, task: Option<&Task>, reason: &str, fields: Vec<Field>, note: String) -> LeftAlone {
    LeftAlone { path: path.into(), short_id: task.map(|task| task.short_id.to_string()), reason: reason.into(), fields, note }
}

async fn export(read: &mut Read, caller: &Caller, input: BacklogExport) -> Result<BacklogExportOutput> {
    let workspace = handle::workspace(read, caller, "workspace", Some(&input.workspace)).await?;
    let mut output = BacklogExportOutput { files: Vec::new(), left_alone: Vec::new(), unchanged: 0 };
    let mut seen = Seen::of(input.files, &mut output.left_alone);
    for task in read.task_with_slug(workspace.id).await? {
        let Some(slug) = task.slug.clone() else { continue };
        let here = fields_of(read, &task).await?;
        let known = read.backlog_file(workspace.id, &input.folder, task.kind, &slug).await?;
        match seen.by_item.remove(&(task.kind, slug.clone())) {
            Some((path, file)) => bring_up(&mut output, &task, &here, known.as_ref(), &path, &file),
            None => {
                // What a file says beyond its item is known from another folder as well.
                let anywhere = if known.is_none() { read.backlog_file_anywhere(workspace.id, task.kind, &slug).await? } else { None };
                fresh(&mut output, &mut seen.paths, &task, &slug, &here, known.or(anywhere).as_ref());
            }
        }
    }
    for ((kind, slug), (path, _)) in seen.by_item {
        let was_deleted = read.backlog_file_anywhere(workspace.id, kind, &slug).await?.is_some();
        let ways = if was_deleted { "it was deleted: delete the file, or import with --recreate" } else { "import the file, or delete it" };
        let note = format!("there is no {kind} {slug} here: {ways}");
        output.left_alone.push(left(&path, None, "without_item", Vec::new(), note));
    }
    output.left_alone.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(output)
}

/// Puts what changed here into a file that there is.
fn bring_up(output: &mut BacklogExportOutput, task: &Task, here: &Fields, known: Option<&BacklogFile>, path: &str, file: &File) {
    let agreed = known.map_or_else(|| Agreed::nothing(here), |known| known.agreed.clone());
    let (mut wanted, mut fields, mut newer, mut both) = (file.fields.clone(), Vec::new(), Vec::new(), Vec::new());
    for field in Field::ALL {
        match changed(*field, here, &file.fields, &agreed) {
            Changed::Neither => {}
            Changed::File => newer.push(*field),
            Changed::Both => both.push(*field),
            Changed::Here => {
                wanted.take(here, *field);
                fields.push(*field);
            }
        }
    }
    if !newer.is_empty() {
        let note = "the file was changed: import it first".to_owned();
        output.left_alone.push(left(path, Some(task), "changed_in_file", newer.clone(), note));
    }
    if !both.is_empty() {
        let values: Vec<String> = both.iter().map(|field| differing(*field, here, &file.fields)).collect();
        let note = format!("changed on both sides ({}): make them the same, or import a file in which you have decided", values.join("; "));
        output.left_alone.push(left(path, Some(task), "conflict", both.clone(), note));
    }
    let text = match file.with(&wanted) {
        Ok(text) => text,
        Err(error) => return output.left_alone.push(left(path, Some(task), "unwritable", fields, error.message)),
    };
    if !fields.is_empty() {
        output.files.push(ExportedFile { path: path.into(), text, is_new: false, short_id: task.short_id.to_string(), fields });
    } else if newer.is_empty() && both.is_empty() {
        output.unchanged += 1;
    }
}

/// A file for an item that has none in the folder: as it was last seen, with what has changed since.
fn fresh(
    output: &mut BacklogExportOutput,
    taken: &mut HashSet<String>,
    task: &Task,
    slug: &str,
    here: &Fields,
    known: Option<&BacklogFile>,
) {
    let path = known.map_or_else(|| place(task.kind, slug, here), |known| known.path.clone());
    if !taken.insert(path.clone()) {
        let note = format!("something else is where the file of the {} {slug} goes: move it away", task.kind);
        output.left_alone.push(left(&path, Some(task), "in_the_way", Vec::new(), note));
        return;
    }
    let text = match known.and_then(|known| as_last_seen(here, known)) {
        Some(Ok(text)) => text,
        Some(Err(error)) => return output.left_alone.push(left(&path, Some(task), "unwritable", Vec::new(), error.message)),
        None => File::fresh(task.kind, slug, here),
    };
    output.files.push(ExportedFile { path, text, is_new: true, short_id: task.short_id.to_string(), fields: Field::ALL.to_vec() });
}

/// The file as it was last seen, with what has changed since.
fn as_last_seen(here: &Fields, known: &BacklogFile) -> Option<Result<String>> {
    let file = File::parse(&known.text).ok().flatten()?;
    let mut wanted = file.fields.clone();
    for field in Field::ALL {
        if changed(*field, here, &file.fields, &known.agreed) != Changed::Neither {
            wanted.take(here, *field);
        }
    }
    Some(file.with(&wanted))
}

/// Where a new file goes: plans at the top, what belongs to a plan in a folder of its slug.
fn place(kind: Kind, slug: &str, here: &Fields) -> String {
    let name = match kind {
        Kind::Plan => "Plan",
        Kind::Epic => "Epic",
        Kind::Task => "Task",
    };
    let folder = here.plan_slug.as_ref().map(|plan| format!("{plan}/")).unwrap_or_default();
    format!("{folder}{name}-{slug}.md")
}
