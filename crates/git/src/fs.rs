//! Deleting folders for good: never through links, and in spite of read-only folders inside.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes the folder (or file, or link) at `path` with all it holds; links in it are removed, not followed. One
/// that isn't there is fine.
pub(crate) async fn remove_tree(path: &Path) -> Result<()> {
    let owned = path.to_owned();
    let done = tokio::task::spawn_blocking(move || remove_now(&owned)).await;
    let done = done.unwrap_or_else(|lost| Err(std::io::Error::other(lost)));
    done.map_err(Error::io("remove", path))
}

fn remove_now(path: &Path) -> std::io::Result<()> {
    let meta = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !meta.is_dir() {
        return std::fs::remove_file(path);
    }
    match std::fs::remove_dir_all(path) {
        // Package managers leave read-only folders; they are the user's own, so they can be opened up.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(path)?;
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_up(folder: &Path) -> std::io::Result<()> {
    let mode = std::fs::symlink_metadata(folder)?.permissions().mode();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode | 0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether something is at `path`, a dangling link included.
pub(crate) fn occupied(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn links_are_not_followed_and_read_only_folders_go() {
        let dir = tempfile::tempdir().unwrap();
        let (keep, gone) = (dir.path().join("keep"), dir.path().join("gone"));
        std::fs::create_dir_all(gone.join("ro/deep")).unwrap();
        std::fs::create_dir(&keep).unwrap();
        std::fs::write(keep.join("f"), "x").unwrap();
        std::fs::write(gone.join("ro/deep/f"), "x").unwrap();
        std::os::unix::fs::symlink(&keep, gone.join("ro/link")).unwrap();
        std::fs::set_permissions(gone.join("ro/deep"), std::fs::Permissions::from_mode(0o555)).unwrap();
        std::fs::set_permissions(gone.join("ro"), std::fs::Permissions::from_mode(0o555)).unwrap();
        remove_tree(&gone).await.unwrap();
        assert!(!occupied(&gone) && keep.join("f").exists());
        remove_tree(&gone).await.unwrap();
    }
}
