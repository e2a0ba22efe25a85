//! `taskyard backlog …`: the backlog, and folders of Markdown files that are kept in step with it.
//!
//! The server decides what a file means and what it should be; here files are read and written, each as a whole and
//! only where it is still as it was read.

use super::claim::workspace;
use crate::args::{BacklogAdd, BacklogCommand, BacklogList};
use crate::client::Client;
use crate::fail::{Result, machine};
use crate::run::{or_stdin, text};
use crate::show::Show;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use taskyard_domain::Error;
use taskyard_domain::backlog::File;
use taskyard_domain::task::Kind;

/// Most files of one call, and about how many bytes.
const AT_ONCE: (usize, usize) = (100, 1 << 20);
/// How deep folders may lie.
const DEPTH: usize = 20;

/// Runs the command.
pub async fn run(client: &Client, show: &Show, command: BacklogCommand) -> Result<()> {
    match command {
        BacklogCommand::List(list) => self::list(client, show, list).await,
        BacklogCommand::Add(add) => self::add(client, show, add).await,
        BacklogCommand::Import { folder, recreate } => {
            let workspace = workspace(client).await?;
            let (files, mut told) = read_folder(&folder)?;
            let how = json!({ "folder": name_of(&folder)?, "recreate": recreate });
            told.extend(import(client, &workspace, &files, &how).await?);
            report(show, told, "imported")
        }
        BacklogCommand::Export { folder } => {
            let workspace = workspace(client).await?;
            export(client, show, &workspace, &folder).await
        }
    }
}

async fn list(client: &Client, show: &Show, list: BacklogList) -> Result<()> {
    let arguments = json!({
        "workspace": workspace(client).await?, "kind": list.kind, "status": list.status, "plan_slug": list.plan,
        "epic_slug": list.epic, "claimable_only": list.claimable, "limit": list.limit, "cursor": list.cursor,
    });
    let mut answer = client.call("list_backlog", arguments).await?;
    if !show.json {
        for item in answer["items"].as_array_mut().into_iter().flatten() {
            let holder = text(&item["held_by"], "actor").to_owned();
            item["held_by"] = if holder.is_empty() { Value::Null } else { holder.into() };
        }
    }
    let columns = [
        ("short_id", "ITEM"),
        ("kind", "KIND"),
        ("status", "STATUS"),
        ("priority", "PRIORITY"),
        ("slug", "SLUG"),
        ("title", "TITLE"),
        ("held_by", "HELD BY"),
    ];
    show.rows(&answer, "items", &columns)
}

async fn add(client: &Client, show: &Show, add: BacklogAdd) -> Result<()> {
    let arguments = json!({
        "workspace": workspace(client).await?, "kind": add.kind, "title": add.title, "slug": add.slug,
        "body_markdown": add.body.map(or_stdin).transpose()?, "plan_slug": add.plan, "epic_slug": add.epic,
        "status": if add.ready { "ready" } else { "draft" }, "priority": add.priority, "idempotency_key": add.key,
    });
    let answer = client.call("create_object", arguments).await?;
    let (kind, slug) = (text(&answer, "kind"), text(&answer, "slug"));
    show.done(&answer, &format!("{} is the {kind} {slug}, {}", text(&answer, "short_id"), text(&answer, "status")))
}

/// A file of the folder.
#[derive(Debug, Clone)]
struct Found {
    path: String,
    text: String,
}

/// What became of a file, as the server says it.
fn told(path: &str, outcome: &str, note: impl Into<String>) -> Value {
    json!({ "path": path, "outcome": outcome, "notes": [note.into()] })
}

/// The folder's one name, however it was given: what both sides agreed on is remembered for each. The same path in
/// another container, or of a clone that was made anew, is another folder.
fn name_of(folder: &Path) -> Result<String> {
    let find = |error| machine("finding the folder", error);
    let whole = std::fs::canonicalize(folder).map_err(find)?;
    // A folder comes and goes with what is checked out; its clone stays.
    let clone = whole.ancestors().map(|above| above.join(".git")).find_map(|git| std::fs::metadata(git).ok());
    let stays = clone.map_or_else(|| std::fs::metadata(&whole), Ok).map_err(find)?;
    let born = stays.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(format!("{}#{}.{}", whole.to_string_lossy(), std::os::unix::fs::MetadataExt::ino(&stays), born.as_millis()))
}

/// Every Markdown file below `folder`, and what can't be read.
fn read_folder(folder: &Path) -> Result<(Vec<Found>, Vec<Value>)> {
    let mut paths = Vec::new();
    walk(folder, &mut PathBuf::new(), &mut paths)?;
    paths.sort();
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        match std::fs::read(folder.join(&path)).map(String::from_utf8) {
            Ok(Ok(text)) => files.push(Found { path: name, text }),
            Ok(Err(_)) => problems.push(told(&name, "refused", "the file isn't UTF-8")),
            Err(error) => problems.push(told(&name, "refused", format!("the file can't be read: {error}"))),
        }
    }
    Ok((files, problems))
}

/// Markdown files below `folder`; hidden folders and links are left out.
fn walk(folder: &Path, at: &mut PathBuf, found: &mut Vec<PathBuf>) -> Result<()> {
    let here = folder.join(&*at);
    let entries = std::fs::read_dir(&here).map_err(|error| {
        Error::invalid("folder", format!("folder: {} can't be read: {error}", here.display())).with_hint("name a folder of Markdown files")
    })?;
    for entry in entries {
        let entry = entry.map_err(|error| machine("reading the folder", error))?;
        let kind = entry.file_type().map_err(|error| machine("reading the folder", error))?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        at.push(&name);
        if kind.is_dir() && at.iter().count() < DEPTH {
            walk(folder, at, found)?;
        } else if kind.is_file() && at.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md")) {
            found.push(at.clone());
        }
        at.pop();
    }
    Ok(())
}

/// Imports files in as many calls as it takes: plans, then epics, then tasks. Two files of one item are refused both.
async fn import(client: &Client, workspace: &str, files: &[Found], how: &Value) -> Result<Vec<Value>> {
    let mut by_item: HashMap<(Kind, String), Vec<&str>> = HashMap::new();
    let mut ranked = Vec::new();
    for file in files {
        let item = File::parse(&file.text).ok().flatten().map(|item| (item.kind, item.slug));
        if let Some(item) = &item {
            by_item.entry(item.clone()).or_default().push(&file.path);
        }
        ranked.push((item, file));
    }
    ranked.sort_by_key(|(item, _)| match item.as_ref().map(|(kind, _)| *kind) {
        Some(Kind::Plan) => 0,
        Some(Kind::Epic) => 1,
        _ => 2,
    });
    let (mut all, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (item, file) in ranked {
        let twins = item.as_ref().and_then(|item| by_item.get(item)).filter(|paths| paths.len() > 1);
        if let Some(paths) = twins {
            all.push(told(&file.path, "refused", format!("several files are the same item: {}; keep one", paths.join(", "))));
            continue;
        }
        bytes += file.text.len();
        batch.push(json!({ "path": file.path, "text": file.text }));
        if batch.len() >= AT_ONCE.0 || bytes >= AT_ONCE.1 {
            all.extend(send(client, workspace, std::mem::take(&mut batch), how).await?);
            bytes = 0;
        }
    }
    all.extend(send(client, workspace, batch, how).await?);
    all.sort_by(|a, b| text(a, "path").cmp(text(b, "path")));
    Ok(all)
}

async fn send(client: &Client, workspace: &str, files: Vec<Value>, how: &Value) -> Result<Vec<Value>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut arguments = how.clone();
    arguments["workspace"] = workspace.into();
    arguments["files"] = files.into();
    let answer = client.call("backlog_import", arguments).await?;
    Ok(answer["files"].as_array().cloned().unwrap_or_default())
}

/// Shows what became of each file; fails when something has to be decided by a person.
fn report(show: &Show, files: Vec<Value>, what: &str) -> Result<()> {
    let shown: Vec<Value> = files.iter().filter(|file| file["outcome"] != "ignored").map(row).collect();
    let open = files.iter().filter(|file| matches!(text(file, "outcome"), "conflict" | "refused" | "left_alone")).count();
    let needs = Error::conflict(format!(
        "{open} of the files need{} a decision; what is asked about is as it was on both sides",
        if open == 1 { "s" } else { "" }
    ))
    .with_hint("change the file or the item, then repeat the command");
    if show.json && open > 0 {
        // One document, whatever came of it.
        return Err(needs.with_details(json!({ what: true, "files": files })));
    }
    let answer = if show.json { json!({ what: true, "files": files }) } else { json!({ "files": shown }) };
    show.rows(
        &answer,
        "files",
        &[("path", "FILE"), ("outcome", "OUTCOME"), ("short_id", "ITEM"), ("fields", "FIELDS"), ("notes", "NOTES")],
    )?;
    if open == 0 {
        return Ok(());
    }
    Err(needs)
}

/// Lists as texts, for a table.
fn row(file: &Value) -> Value {
    let mut row = file.clone();
    let list = |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let fields =
        [list(&file["fields"]), list(&file["conflicts"])].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    row["fields"] = if fields.is_empty() { Value::Null } else { fields.into() };
    row["notes"] = list(&file["notes"]).into();
    row
}

async fn export(client: &Client, show: &Show, workspace: &str, folder: &Path) -> Result<()> {
    if std::fs::metadata(folder).is_ok_and(|there| !there.is_dir()) {
        return Err(Error::invalid("folder", format!("folder: {} is a file", folder.display())).with_hint("name a folder"));
    }
    std::fs::create_dir_all(folder).map_err(|error| machine("making the folder", error))?;
    let (files, mut told_of) = read_folder(folder)?;
    let given: Vec<Value> = files.iter().map(|file| json!({ "path": file.path, "text": file.text })).collect();
    let name = name_of(folder)?;
    let answer = client.call("backlog_export", json!({ "workspace": workspace, "folder": name, "files": given })).await?;
    let mut written = Vec::new();
    for file in answer["files"].as_array().into_iter().flatten() {
        let path = text(file, "path");
        let before = files.iter().find(|known| known.path == path).map(|known| known.text.as_str());
        match write(folder, path, text(file, "text"), before) {
            Ok(()) => {
                written.push(Found { path: path.into(), text: text(file, "text").into() });
                let outcome = if file["is_new"] == true { "written" } else { "updated" };
                told_of.push(json!({ "path": path, "outcome": outcome, "short_id": file["short_id"], "fields": file["fields"] }));
            }
            Err(problem) => told_of.push(told(path, "refused", problem)),
        }
    }
    for left in answer["left_alone"].as_array().into_iter().flatten() {
        told_of.push(json!({
            "path": left["path"], "outcome": "left_alone", "short_id": left["short_id"], "fields": left["fields"], "notes": [left["note"]],
        }));
    }
    // That both sides agree now is recorded only once the files are there.
    import(client, workspace, &written, &json!({ "folder": name, "only_agree": true })).await?;
    told_of.sort_by(|a, b| text(a, "path").cmp(text(b, "path")));
    report(show, told_of, "exported")
}

/// Writes a file as a whole, if it is still as it was read.
fn write(folder: &Path, path: &str, text: &str, before: Option<&str>) -> Result<(), String> {
    let relative = Path::new(path);
    if relative.components().next().is_none() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err("the path leads out of the folder".into());
    }
    let place = folder.join(relative);
    let parent = place.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| format!("its folder can't be made: {error}"))?;
    let now = match std::fs::read(&place) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("the file can't be read: {error}")),
    };
    if now.as_deref() != before.map(str::as_bytes) {
        return Err("the file was changed in this moment: repeat the command".into());
    }
    let fail = |error: std::io::Error| format!("the file can't be written: {error}");
    let mut new = tempfile::Builder::new().prefix(".taskyard-").tempfile_in(parent).map_err(fail)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(fail)?;
    match std::fs::metadata(&place) {
        Ok(old) => new.as_file().set_permissions(old.permissions()).map_err(fail)?,
        Err(_) => new.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644)).map_err(fail)?,
    }
    new.persist(&place).map(drop).map_err(|error| fail(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_whole_and_never_over_a_change() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "plan/Task-a.md", "one", None).unwrap();
        write(folder.path(), "plan/Task-a.md", "two", Some("one")).unwrap();
        assert!(write(folder.path(), "plan/Task-a.md", "three", Some("one")).unwrap_err().contains("changed"));
        assert!(write(folder.path(), "plan/Task-a.md", "three", None).unwrap_err().contains("changed"));
        for outside in ["../x.md", "/x.md", ""] {
            assert!(write(folder.path(), outside, "x", None).unwrap_err().contains("out of the folder"), "{outside}");
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("plan/Task-a.md")).unwrap(), "two");
        assert_eq!(std::fs::read_dir(folder.path().join("plan")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_has_one_name_and_a_clone_made_anew_another() {
        let place = tempfile::tempdir().unwrap();
        let (clone, folder) = (place.path().join("clone"), place.path().join("clone/backlog"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(clone.join(".git")).unwrap();
        let name = name_of(&folder).unwrap();
        assert_eq!(name_of(&folder.join("../backlog")).unwrap(), name);
        std::fs::remove_dir(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(name_of(&folder).unwrap(), name, "it was only checked out again");
        std::fs::rename(&clone, place.path().join("old")).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(clone.join(".git")).unwrap();
        assert_ne!(name_of(&folder).unwrap(), name);
    }

    #[test]
    fn only_markdown_is_read_and_nothing_hidden() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a.md", "b/c.MD", "b/d.txt", ".git/e.md", "b/.f.md"] {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        std::fs::write(folder.path().join("odd.md"), b"\xff").unwrap();
        let (files, problems) = read_folder(folder.path()).unwrap();
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a.md", "b/c.MD"]);
        assert_eq!(problems.len(), 1);
        assert_eq!(read_folder(&folder.path().join("none")).unwrap_err().field.as_deref(), Some("folder"));
    }
}
