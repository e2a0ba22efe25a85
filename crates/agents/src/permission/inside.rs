//! Whether a path stays inside a folder: by its words, and by what its links lead to.

use std::path::{Component, Path, PathBuf};

/// `path` relative to `folder` (where relative paths begin), when neither `..` nor a link leads out of it.
pub(super) fn relative(folder: &Path, path: &Path) -> Option<PathBuf> {
    let real_folder = folder.canonicalize().ok()?;
    let whole = folder.join(path);
    let by_words = normal(&whole)?;
    if !by_words.starts_with(normal(folder)?) && !by_words.starts_with(&real_folder) {
        return None;
    }
    Some(real(&whole)?.strip_prefix(&real_folder).ok()?.to_owned())
}

/// `.` and `..` resolved by words alone; `None` when `..` leads above the root or the path is relative.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out.is_absolute().then_some(out)
}

/// Where the operating system would arrive; what doesn't exist yet is taken literally. `None` when a link
/// leads nowhere or `..` follows what doesn't exist.
fn real(path: &Path) -> Option<PathBuf> {
    for existing in path.ancestors() {
        let Ok(found) = existing.canonicalize() else {
            if existing.symlink_metadata().is_ok() {
                return None;
            }
            continue;
        };
        let rest = path.strip_prefix(existing).ok()?;
        let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        // Joining nothing would add a slash.
        return plain.then(|| if rest.as_os_str().is_empty() { found } else { found.join(rest) });
    }
    None
}
