//! Whether a folder really is the worktree it should be, so that nothing done in it reaches the user's checkout.
//!
//! Looks at the folder, at git's records and at what git makes of the two; all must agree. Changes nothing.

use crate::error::{Error, Result};
use crate::repo::Repo;
use crate::worktree::{registered_at, resolved};
use std::path::{Path, PathBuf};

/// Makes sure that `path` is a linked worktree of `repo` (opened anywhere in the repository), and has `branch` checked
/// out when one is given. To be asked right before an agent starts in it.
///
/// # Errors
/// [`Error::Isolation`] with what is wrong; git's.
pub async fn verify(repo: &Repo, path: &Path, branch: Option<&str>) -> Result<()> {
    look(repo, path, branch, Says::Git).await.map(drop)
}

/// The same by what the files say, where they say it plainly; gives the worktree as it was opened for it.
///
/// # Errors
/// As [`verify`].
pub async fn verified(repo: &Repo, path: &Path, branch: Option<&str>) -> Result<Repo> {
    look(repo, path, branch, Says::Files).await
}

/// Who says what the folder is.
#[derive(Clone, Copy)]
enum Says {
    Git,
    Files,
}

async fn look(repo: &Repo, path: &Path, branch: Option<&str>, says: Says) -> Result<Repo> {
    let wrong = |reason: String| Error::Isolation { path: path.to_owned(), reason };
    let place = resolved(path);
    folder(&place).map_err(&wrong)?;
    let admin = link_target(&place).map_err(&wrong)?;
    let home = canonical(&repo.common_dir().join("worktrees"));
    if admin.parent() != Some(&*home) {
        return Err(wrong(format!("its git folder {} is not a worktree of {}", admin.display(), repo.common_dir().display())));
    }
    if registered_at(&admin).as_deref() != Some(&*place) {
        return Err(wrong("git has another folder registered for it".into()));
    }
    let opened = match says {
        Says::Git => Repo::ask(repo.git(), &place).await,
        Says::Files => Repo::open(repo.git(), &place).await,
    };
    let seen = match opened {
        Ok(seen) => seen,
        Err(Error::NotARepository { .. }) => return Err(wrong("git doesn't take it for a worktree".into())),
        Err(error) => return Err(error),
    };
    let same = |a: &Path, b: &Path| canonical(a) == canonical(b);
    if !same(seen.root(), &place) {
        return Err(wrong(format!("git takes {} for its top", seen.root().display())));
    }
    if !same(seen.git_dir(), &admin) || !same(seen.common_dir(), repo.common_dir()) {
        return Err(wrong(format!("git uses {} there", seen.git_dir().display())));
    }
    match (branch, seen.head_branch().await?.as_deref()) {
        (Some(wanted), Some(found)) if wanted != found => Err(wrong(format!("it is on branch {found}, not {wanted}"))),
        (Some(wanted), None) => Err(wrong(format!("its HEAD is detached; it should be on branch {wanted}"))),
        _ => Ok(seen),
    }
}

fn folder(place: &Path) -> std::result::Result<(), String> {
    match std::fs::symlink_metadata(place) {
        Ok(meta) if meta.is_symlink() => Err("it is a link to another folder".into()),
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err("it is not a folder".into()),
        Err(error) => Err(format!("it can't be looked at: {error}")),
    }
}

/// Where the `.git` file of a linked worktree leads.
pub(crate) fn link_target(place: &Path) -> std::result::Result<PathBuf, String> {
    let link = place.join(".git");
    let plain = std::fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_file());
    if !plain {
        return Err("it has no .git file of a linked worktree".into());
    }
    let text = std::fs::read(&link).map_err(|error| format!("its .git file can't be read: {error}"))?;
    let target = text.strip_prefix(b"gitdir: ").ok_or("its .git file is malformed")?;
    let target = place.join(crate::runner::path_from(target.trim_ascii_end()));
    target.canonicalize().map_err(|error| format!("its .git file leads to {}: {error}", target.display()))
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
