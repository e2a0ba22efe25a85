//! Takes over Markdown files of a backlog: what changed in a file since both sides agreed is changed here, what changed
//! here stays, what changed on both sides is reported and left alone.

use crate::commands::{check, create_object, ring, words};
use crate::resolve::parents;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashMap;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::backlog::{Agreed, Changed, Field, Fields, File, changed, unify};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::task::{Kind, Status, Task, Word};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::{BacklogFile, Read, Tx};

/// Most files of one call.
pub(super) const FILES: usize = 200;
/// Longest file, bytes.
const FILE: usize = check::DESCRIPTION + (64 << 10);

/// Longest name of a folder, bytes.
const FOLDER: usize = 1_000;
/// In so many folders a file is remembered, those where it changed last.
const FOLDERS: i64 = 20;

/// A file as the caller sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogText {
    /// Where it lies in the backlog's folder, parts joined by `/`.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

/// Files to take over; plans before their epics, epics before their tasks, however they are ordered here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogImport {
    /// Slug or UUID.
    pub workspace: String,
    /// Which folder the files lie in, in a spelling that is always the same: what both sides agreed on is remembered for
    /// each.
    #[serde(default)]
    pub folder: String,
    /// The files, at most 200.
    pub files: Vec<BacklogText>,
    /// Makes items anew that were deleted here.
    #[serde(default)]
    pub recreate: bool,
    /// Only records where both sides agree, as after an export; takes nothing over.
    #[serde(default)]
    pub only_agree: bool,
}

/// What became of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImportedFile {
    /// The file.
    pub path: String,
    /// `created`, `updated`, `unchanged`, `conflict`, `deleted` (the item was deleted here), `refused` or `ignored`.
    pub outcome: String,
    /// Its item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// What was taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// What changed on both sides, or can't be taken over; left as it is on both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Field>,
    /// What to know about it, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ImportedFile {
    fn new(path: &str, outcome: &str) -> Self {
        Self { path: path.into(), outcome: outcome.into(), short_id: None, fields: Vec::new(), conflicts: Vec::new(), notes: Vec::new() }
    }

    fn noted(path: &str, outcome: &str, note: impl Into<String>) -> Self {
        Self { notes: vec![note.into()], ..Self::new(path, outcome) }
    }
}

/// What became of the files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogImportOutput {
    /// True.
    pub imported: bool,
    /// One entry for each file, in the order of the call.
    pub files: Vec<ImportedFile>,
}

impl Engine {
    /// Takes over files of a backlog, each in a transaction of its own: one that is refused stops none of the others.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace; `INVALID_ARGUMENT` for too many files; `FORBIDDEN` for a run. What is wrong
    /// with a file is said in its entry.
    pub async fn backlog_import(&self, caller: &Caller, input: BacklogImport) -> Result<BacklogImportOutput> {
        caller.require_person("import a backlog")?;
        if input.files.len() > FILES {
            return Err(Error::invalid("files", format!("files: {} are given; at most {FILES} fit into a call", input.files.len())));
        }
        if input.folder.len() > FOLDER {
            return Err(Error::invalid("folder", format!("folder: its name has {} bytes; at most {FOLDER} fit", input.folder.len())));
        }
        let (owned, named) = (caller.clone(), input.workspace.clone());
        let workspace = self
            .store()
            .read(move |read| Box::pin(async move { handle::workspace(read, &owned, "workspace", Some(&named)).await }))
            .await?;
        let mut done: Vec<Option<ImportedFile>> = vec![None; input.files.len()];
        let mut items = Vec::new();
        for (index, given) in input.files.into_iter().enumerate() {
            match read_file(&given) {
                Ok(file) => items.push((index, given.path, file, given.text)),
                Err(entry) => done[index] = Some(entry),
            }
        }
        let mut times: HashMap<(Kind, String), usize> = HashMap::new();
        for (_, _, file, _) in &items {
            *times.entry((file.kind, file.slug.clone())).or_default() += 1;
        }
        items.sort_by_key(|(index, _, file, _)| (rank(file.kind), *index));
        for (index, path, file, text) in items {
            if times.get(&(file.kind, file.slug.clone())).is_some_and(|times| *times > 1) {
                let note = format!("several of the files are the {} {}: keep one of them", file.kind, file.slug);
                done[index] = Some(ImportedFile::noted(&path, "refused", note));
                continue;
            }
            let (caller, workspace, shown) = (caller.clone(), workspace.id, path.clone());
            let (folder, recreate, only_agree) = (input.folder.clone(), input.recreate, input.only_agree);
            let work = Import { workspace, folder, path, file, text, recreate, only_agree };
            let outcome = self.store().write(move |tx| Box::pin(async move { work.take(tx, &caller).await })).await;
            done[index] = Some(match outcome {
                Ok(entry) => entry,
                Err(error) if error.class == taskyard_domain::Class::Internal => return Err(error),
                Err(error) => ImportedFile::noted(&shown, "refused", error.message),
            });
        }
        Ok(BacklogImportOutput { imported: true, files: done.into_iter().flatten().collect() })
    }
}

/// Plans come before epics, epics before tasks.
fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Plan => 0,
        Kind::Epic => 1,
        Kind::Task => 2,
    }
}

fn read_file(given: &BacklogText) -> Result<File, ImportedFile> {
    if given.text.len() > FILE {
        return Err(ImportedFile::noted(&given.path, "refused", format!("the file has {} bytes; at most {FILE} fit", given.text.len())));
    }
    match File::parse(&given.text) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(ImportedFile::new(&given.path, "ignored")),
        Err(error) => Err(ImportedFile::noted(&given.path, "refused", error.message)),
    }
}

/// A task's side of its file.
pub(super) async fn fields_of(read: &mut Read, task: &Task) -> Result<Fields> {
    let parents = parents(read, task).await?;
    let slug_of = |kind: Kind| parents.iter().find(|parent| parent.kind == kind).and_then(|parent| parent.slug.clone());
    Ok(Fields {
        title: task.title.clone(),
        plan_slug: slug_of(Kind::Plan),
        epic_slug: slug_of(Kind::Epic),
        status: Some(task.status),
        priority: Some(task.priority),
        body: unify(&task.description),
    })
}

/// Both sides' values of a field, for a person who has to decide.
pub(super) fn differing(field: Field, here: &Fields, file: &Fields) -> String {
    if field == Field::Body {
        return "body: the texts differ".into();
    }
    let short = |value: Option<String>| match value {
        Some(value) if value.chars().count() > 60 => format!("\"{}…\"", value.chars().take(59).collect::<String>()),
        Some(value) => format!("\"{value}\""),
        None => "nothing".into(),
    };
    format!("{field}: {} here, {} in the file", short(here.text(field)), short(file.text(field)))
}

/// One file on its way in.
struct Import {
    workspace: WorkspaceId,
    folder: String,
    path: String,
    file: File,
    text: String,
    recreate: bool,
    only_agree: bool,
}

impl Import {
    async fn take(self, tx: &mut Tx, caller: &Caller) -> Result<ImportedFile> {
        let workspace = tx.workspace_lock(self.workspace).await?.ok_or_else(|| Error::not_found("workspace", self.workspace))?;
        let known = tx.backlog_file(self.workspace, &self.folder, self.file.kind, &self.file.slug).await?;
        let item = tx.task_by_slug(self.workspace, self.file.kind, &self.file.slug).await?;
        match item {
            Some(task) => self.update(tx, caller, task, known).await,
            None if self.only_agree => Ok(ImportedFile::new(&self.path, "unchanged")),
            None => {
                // That it was deleted is known whichever folder it was in.
                let seen = tx.backlog_file_anywhere(self.workspace, self.file.kind, &self.file.slug).await?;
                match known.as_ref().or(seen.as_ref()) {
                    Some(seen) if !self.recreate => Ok(self.deleted(seen)),
                    _ => self.create(tx, caller, workspace, known).await,
                }
            }
        }
    }

    /// The item was deleted here.
    fn deleted(&self, known: &BacklogFile) -> ImportedFile {
        let file = &self.file.fields;
        let is_as_agreed =
            |field: &Field| !known.agreed.known.contains(field) || !file.says(*field) || file.agrees(&known.agreed.fields, *field);
        let same = Field::ALL.iter().all(is_as_agreed);
        let (outcome, what) = if same { ("deleted", "and the file is as it was") } else { ("conflict", "and the file was changed since") };
        let note = format!("its item was deleted in Taskyard {what}: delete the file, or import with --recreate");
        ImportedFile::noted(&self.path, outcome, note)
    }

    async fn create(self, tx: &mut Tx, caller: &Caller, workspace: Workspace, known: Option<BacklogFile>) -> Result<ImportedFile> {
        let fields = &self.file.fields;
        let item = create_object::NewItem {
            kind: self.file.kind,
            slug: Some(self.file.slug.clone()),
            title: check::title("title", &fields.title)?,
            body: check::text("body", &fields.body, check::DESCRIPTION)?,
            plan_slug: fields.plan_slug.clone(),
            epic_slug: fields.epic_slug.clone(),
            draft: !matches!(fields.status, Some(Status::Ready | Status::Done | Status::Cancelled)),
            priority: fields.priority.map(|priority| priority.to_string()),
        };
        let mut task = create_object::make(tx, caller, workspace, item).await?;
        let mut entry = ImportedFile::new(&self.path, "created");
        match fields.status {
            Some(Status::Done) => words::say_free(tx, caller, &mut task, Word::Done).await?,
            Some(Status::Cancelled) => words::say_free(tx, caller, &mut task, Word::Cancelled).await?,
            None | Some(Status::Draft | Status::Ready) => {}
            Some(other) => {
                entry.notes.push(format!("a file can't make an item {other}: only work that goes on here does; it is a draft now"))
            }
        }
        entry.short_id = Some(task.short_id.to_string());
        let here = fields_of(tx, &task).await?;
        let mut agreed = Agreed::nothing(&here);
        for field in Field::ALL {
            // What the file says counts as agreed, so that what it couldn't have is a change of this side.
            agreed.on(if fields.says(*field) { fields } else { &here }, *field);
        }
        self.remember(tx, caller, &task, agreed, known).await?;
        Ok(entry)
    }

    async fn update(self, tx: &mut Tx, caller: &Caller, task: Task, known: Option<BacklogFile>) -> Result<ImportedFile> {
        let mut task = tx.task_lock(task.id).await?.unwrap_or(task);
        let before = fields_of(tx, &task).await?;
        let mut agreed = known.as_ref().map_or_else(|| Agreed::nothing(&before), |known| known.agreed.clone());
        let (mut taken, mut entry) = (Vec::new(), ImportedFile::new(&self.path, "unchanged"));
        for field in Field::ALL.iter().filter(|_| !self.only_agree) {
            match changed(*field, &before, &self.file.fields, &agreed) {
                Changed::File => taken.push(*field),
                Changed::Both => {
                    entry.conflicts.push(*field);
                    entry.notes.push(differing(*field, &before, &self.file.fields));
                }
                Changed::Neither | Changed::Here => {}
            }
        }
        if known.is_none() && !entry.conflicts.is_empty() {
            entry.notes.push("the folder is new here, so nothing says which side is newer".into());
        }
        for (field, why) in apply(tx, caller, &mut task, &self.file, &taken, &self.path).await? {
            taken.retain(|taken| *taken != field);
            entry.conflicts.push(field);
            entry.notes.push(why);
        }
        let here = fields_of(tx, &task).await?;
        for field in Field::ALL {
            if here.agrees(&self.file.fields, *field) || (!self.file.fields.says(*field) && !agreed.known.contains(field)) {
                agreed.on(&here, *field);
            }
        }
        let outcome = match (entry.conflicts.is_empty(), taken.is_empty()) {
            (false, _) => "conflict",
            (true, false) => "updated",
            (true, true) => "unchanged",
        };
        entry.outcome = outcome.into();
        entry.short_id = Some(task.short_id.to_string());
        entry.fields = taken;
        let is_new = known.as_ref().is_none_or(|known| known.text != self.text || known.path != self.path || known.agreed != agreed);
        if is_new || known.as_ref().is_some_and(|known| known.task_id != Some(task.id) || known.folder != self.folder) {
            self.remember(tx, caller, &task, agreed, known).await?;
        }
        Ok(entry)
    }

    async fn remember(&self, tx: &mut Tx, caller: &Caller, task: &Task, agreed: Agreed, known: Option<BacklogFile>) -> Result<()> {
        let id = known.map_or_else(|| tx.ids().next(), |known| known.id);
        let row = BacklogFile {
            id,
            workspace_id: self.workspace,
            task_id: Some(task.id),
            folder: self.folder.clone(),
            kind: self.file.kind,
            slug: self.file.slug.clone(),
            path: self.path.clone(),
            text: self.text.clone(),
            agreed,
            updated_at: tx.now(),
        };
        tx.backlog_file_save(&row, FOLDERS).await?;
        let data = json!({ "file": row.path, "folder": row.folder, "kind": row.kind, "slug": row.slug });
        change::audit(tx, caller, task.workspace_id, Action::BacklogAgreed, About::Task(task.id), data).await
    }
}

/// The item that a file puts `task` below; it then waits for the task, which mustn't wait for it already.
async fn placed(tx: &mut Tx, task: &Task, from: &Fields) -> Result<Option<Task>> {
    let parent = create_object::parent(tx, task.workspace_id, task.kind, from.plan_slug.as_deref(), from.epic_slug.as_deref()).await?;
    if let Some(parent) = &parent {
        let field = if from.epic_slug.is_some() { "epic_slug" } else { "plan_slug" };
        ring::check(tx, field, parent, task).await?;
    }
    Ok(parent)
}

/// Takes `fields` of the file over into the task. What can't be is given back with the reason, and left as it is.
async fn apply(tx: &mut Tx, caller: &Caller, task: &mut Task, file: &File, fields: &[Field], path: &str) -> Result<Vec<(Field, String)>> {
    let (from, mut refused, mut named) = (&file.fields, Vec::new(), Vec::new());
    let places = [Field::PlanSlug, Field::EpicSlug];
    if fields.iter().any(|field| places.contains(field)) {
        match placed(tx, task, from).await {
            Ok(parent) => {
                task.parent_id = parent.map(|parent| parent.id);
                named.push("parent_id");
            }
            Err(error) => refused.extend(fields.iter().filter(|field| places.contains(field)).map(|field| (*field, error.message.clone()))),
        }
    }
    if fields.contains(&Field::Title) {
        match check::title("title", &from.title) {
            Ok(title) => {
                task.title = title;
                named.push("title");
            }
            Err(error) => refused.push((Field::Title, error.message)),
        }
    }
    if fields.contains(&Field::Body) {
        match check::text("body", &from.body, check::DESCRIPTION) {
            Ok(body) => {
                task.description = body;
                named.push("description");
            }
            Err(error) => refused.push((Field::Body, error.message)),
        }
    }
    if let Some(priority) = from.priority.filter(|_| fields.contains(&Field::Priority)) {
        task.priority = priority;
        named.push("priority");
    }
    if !named.is_empty() {
        change::task(tx, task, &named).await?;
        let data = json!({ "fields": named, "file": path });
        change::audit(tx, caller, task.workspace_id, Action::TaskUpdated, About::Task(task.id), data).await?;
    }
    if let Some(status) = from.status.filter(|_| fields.contains(&Field::Status)) {
        let said = match status {
            Status::Ready => words::say_free(tx, caller, task, Word::Ready).await,
            Status::Done => words::say_free(tx, caller, task, Word::Done).await,
            Status::Cancelled => words::say_free(tx, caller, task, Word::Cancelled).await,
            other => Err(Error::invalid("status", format!("a file can't make an item {other}; ready, done and cancelled work"))),
        };
        refused.extend(said.err().map(|error| (Field::Status, error.message)));
    }
    Ok(refused)
}
