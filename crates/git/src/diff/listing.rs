//! What git lists of a diff: names, modes and counts.

use super::{FileChange, Status};
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::oid::Oid;
use std::collections::HashMap;

/// Reads `--raw --numstat -z`: all raw records first, then all counts.
pub(crate) fn read_listing(bytes: &[u8]) -> Result<Vec<FileChange>> {
    let fields = crate::runner::split_nul(bytes);
    let mut fields = fields.iter().map(Vec::as_slice).peekable();
    let mut files = Vec::new();
    while let Some(raw) = fields.next_if(|field| field.starts_with(b":")) {
        files.push(read_raw(raw, &mut fields)?);
    }
    let mut place: HashMap<FilePath, usize> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        place.insert(file.path.clone(), index);
    }
    while let Some(counts) = fields.next() {
        let mut parts = counts.splitn(3, |b| *b == b'\t');
        let (added, deleted, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        // Of a rename, both names follow as fields of their own.
        let name = if name.is_empty() { fields.nth(1).unwrap_or_default() } else { name };
        let index = place.get(&FilePath::new(name)).ok_or_else(|| unreadable("counts of a file that isn't listed"))?;
        let number = |text: Option<&[u8]>| text.and_then(|t| String::from_utf8_lossy(t).parse::<u64>().ok());
        files[*index].additions = number(added);
        files[*index].deletions = number(deleted);
        files[*index].binary = added == Some(b"-");
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Reads `:<mode> <mode> <oid> <oid> <status>` and the one or two names after it.
fn read_raw<'a>(raw: &[u8], names: &mut impl Iterator<Item = &'a [u8]>) -> Result<FileChange> {
    let text = String::from_utf8_lossy(raw);
    let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
    let [old_mode, new_mode, old_oid, new_oid, status] = words[..] else { return Err(unreadable("a file without its five facts")) };
    let (Some(old_oid), Some(new_oid)) = (Oid::parse(old_oid), Oid::parse(new_oid)) else { return Err(unreadable("no object names")) };
    let mut name = || names.next().map(FilePath::new).ok_or_else(|| unreadable("a file without a name"));
    let first = name()?;
    let two = status.starts_with(['R', 'C']);
    let (path, old_path) = if two { (name()?, Some(first)) } else { (first, None) };
    let status = match status.chars().next() {
        Some('A') => Status::Added,
        Some('D') => Status::Deleted,
        Some('R') => Status::Renamed,
        Some('C') => Status::Copied,
        Some('T') => Status::TypeChanged,
        Some('M') if old_oid == new_oid && old_mode != new_mode => Status::ModeChanged,
        Some('M') => Status::Modified,
        _ => return Err(unreadable("an unknown status")),
    };
    let mode = |mode: &str| (mode != "000000").then(|| mode.to_owned());
    let either = |wanted: &str| old_mode == wanted || new_mode == wanted;
    Ok(FileChange {
        path,
        old_path,
        status,
        additions: None,
        deletions: None,
        binary: false,
        old_mode: mode(old_mode),
        new_mode: mode(new_mode),
        symlink: either("120000"),
        submodule: either("160000"),
        size: None,
        oid: if new_oid.is_null() { old_oid } else { new_oid },
    })
}

fn unreadable(what: &str) -> Error {
    Error::Unreadable { stage: "list changed files", what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_have_two_names_in_both_halves() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let text =
            format!(":100644 100644 {old} {new} R090\0a\tb\0c => d\0:100644 100755 {old} {old} M\0x\x001\t2\t\0a\tb\0c => d\x000\t0\tx\0");
        let files = read_listing(text.as_bytes()).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].path.to_string(), files[0].old_path.clone()), ("c => d".into(), Some("a\tb".into())));
        assert_eq!((files[0].status, files[0].additions, files[0].deletions), (Status::Renamed, Some(1), Some(2)));
        assert_eq!(files[1].status, Status::ModeChanged);
    }
}
