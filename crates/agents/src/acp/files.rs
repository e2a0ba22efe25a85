//! `fs/read_text_file` and `fs/write_text_file`, confined to the worktree.
//!
//! Taskyard doesn't advertise them, but some agents call them anyway. A path must be inside the worktree
//! after every symbolic link is resolved; a missing file is told as such, because agents look before
//! they create.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema as acp;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Largest file that is handed to an agent.
const MAX_READ: u64 = 16 << 20;

/// Answers a read.
pub(super) fn read(root: &Path, params: &Value) -> Result<Value, Error> {
    let path = confined(root, params)?;
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => acp::Error::resource_not_found(Some(path.display().to_string())).into(),
        _ => Error::internal_error().data(format!("can't read {}: {error}", path.display())),
    };
    let size = std::fs::metadata(&path).map_err(failed)?.len();
    if size > MAX_READ {
        return Err(Error::invalid_params().data(format!("{} has {size} bytes, more than {MAX_READ}", path.display())));
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    Ok(json!({ "content": window(&String::from_utf8_lossy(&bytes), params) }))
}

/// Answers a write; missing folders are made.
pub(super) fn write(root: &Path, params: &Value) -> Result<Value, Error> {
    let path = confined(root, params)?;
    let content = params["content"].as_str().ok_or_else(|| Error::invalid_params().data("content must be a string"))?;
    let folders = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folders
        .and_then(|()| std::fs::write(&path, content))
        .map_err(|error| Error::internal_error().data(format!("can't write {}: {error}", path.display())))?;
    Ok(json!({}))
}

/// The lines that were asked for: `line` (from 1) and `limit`.
fn window(text: &str, params: &Value) -> String {
    let number = |name: &str| params[name].as_u64().and_then(|n| usize::try_from(n).ok());
    let (line, limit) = (number("line"), number("limit"));
    if line.is_none() && limit.is_none() {
        return text.to_owned();
    }
    text.split_inclusive('\n').skip(line.unwrap_or(1).saturating_sub(1)).take(limit.unwrap_or(usize::MAX)).collect()
}

/// The path of `params` with links resolved, if it is inside `root`.
fn confined(root: &Path, params: &Value) -> Result<PathBuf, Error> {
    let path = params["path"].as_str().ok_or_else(|| Error::invalid_params().data("path must be a string"))?;
    let refused = || Error::invalid_params().data(format!("{path} is outside the worktree {}", root.display()));
    let given = Path::new(path);
    if !given.is_absolute() || given.components().any(|part| part == Component::ParentDir) {
        return Err(refused());
    }
    let root = root.canonicalize().map_err(|error| Error::internal_error().data(format!("{}: {error}", root.display())))?;
    let resolved = resolve(given).ok_or_else(refused)?;
    let inner = resolved.strip_prefix(&root).map_err(|_| refused())?;
    // The link to the repository: writing it would move the worktree elsewhere.
    if inner.components().next().is_none_or(|first| first.as_os_str() == ".git") {
        return Err(refused());
    }
    Ok(resolved)
}

/// Resolves the part of `path` that exists and puts the rest behind it. A link to nowhere is refused: what
/// is written through it could land anywhere.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(resolved) => return Some(missing.iter().rev().fold(resolved, |path, part| path.join(part))),
            Err(_) if existing.symlink_metadata().is_ok() => return None,
            Err(_) => {
                missing.push(existing.file_name()?);
                existing = existing.parent()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder that goes away with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("taskyard-files-{}-{name}", std::process::id()));
            std::fs::create_dir_all(path.join("tree")).unwrap();
            Self(path)
        }

        fn tree(&self) -> PathBuf {
            self.0.join("tree")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn at(path: &Path) -> Value {
        json!({ "path": path, "content": "new" })
    }

    #[test]
    fn a_file_is_written_with_its_folders_and_read_by_lines() {
        let folder = Folder::new("lines");
        let file = folder.tree().join("a/b.txt");
        write(&folder.tree(), &json!({"path": file, "content": "1\n2\n3\n"})).unwrap();
        assert_eq!(read(&folder.tree(), &json!({"path": file})).unwrap()["content"], "1\n2\n3\n");
        assert_eq!(read(&folder.tree(), &json!({"path": file, "line": 2, "limit": 1})).unwrap()["content"], "2\n");
    }

    #[test]
    fn a_missing_file_is_told_as_such() {
        let folder = Folder::new("missing");
        let error = read(&folder.tree(), &at(&folder.tree().join("none"))).unwrap_err();
        assert_eq!(i32::from(error.code), -32002);
    }

    #[test]
    fn nothing_outside_is_reached() {
        let folder = Folder::new("outside");
        let outside = folder.0.join("secret");
        std::fs::write(&outside, "secret").unwrap();
        symlink(&outside, folder.tree().join("file-link")).unwrap();
        symlink(&folder.0, folder.tree().join("folder-link")).unwrap();
        symlink(folder.0.join("nothing"), folder.tree().join("dangling")).unwrap();
        std::fs::write(folder.tree().join(".git"), "gitdir: x").unwrap();
        let tree = folder.tree();
        let paths = [
            outside.clone(),
            tree.join("../secret"),
            tree.join("file-link"),
            tree.join("folder-link/secret"),
            tree.join("folder-link/new"),
            tree.join("dangling"),
            tree.join(".git"),
            tree.clone(),
            PathBuf::from("relative"),
        ];
        for path in paths {
            assert!(write(&tree, &at(&path)).is_err(), "{}", path.display());
            assert!(read(&tree, &at(&path)).is_err(), "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
        assert!(!folder.0.join("new").exists() && !folder.0.join("nothing").exists());
    }
}
