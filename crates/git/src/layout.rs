//! Where the folders of a checkout are and where its branches stand, read from files whose form git documents
//! (gitrepository-layout): `.git`, `commondir`, `HEAD`, a loose ref, and a configuration that moves nothing.
//!
//! Answers only where the files say it plainly, and then exactly as git would. `None` always means: ask git. Changes nothing.

use crate::oid::Oid;
use crate::runner::path_from;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folders of a checkout, links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Top of the checkout.
    pub(crate) root: PathBuf,
    /// Its git folder.
    pub(crate) git_dir: PathBuf,
    /// The git folder all worktrees share.
    pub(crate) common_dir: PathBuf,
}

/// The checkout whose top is `path`: an ordinary one or a linked worktree, its refs in files.
pub(crate) fn read(path: &Path) -> Option<Layout> {
    let root = path.canonicalize().ok()?;
    let link = root.join(".git");
    let kind = link.symlink_metadata().ok()?.file_type();
    let (git_dir, common_dir) = if kind.is_dir() {
        let is_odd = link.join("commondir").exists();
        (!is_odd).then(|| (link.clone(), link.clone()))?
    } else if kind.is_file() {
        let git_dir = target(&link, b"gitdir: ", &root)?;
        let common_dir = target(&git_dir.join("commondir"), b"", &git_dir)?;
        (git_dir, common_dir)
    } else {
        return None;
    };
    let config = std::fs::read_to_string(common_dir.join("config")).ok()?;
    let whole = head_in(&git_dir).is_some() && common_dir.join("objects").is_dir() && common_dir.join("refs").is_dir();
    (whole && is_plain(&config) && all_own(&[&root, &link, &git_dir])).then_some(Layout { root, git_dir, common_dir })
}

/// The existing folder that the one line of `file` names after `lead`, seen from `base`.
fn target(file: &Path, lead: &[u8], base: &Path) -> Option<PathBuf> {
    let text = std::fs::read(file).ok()?;
    let name = text.strip_prefix(lead)?.strip_suffix(b"\n")?;
    let is_one_line = !name.is_empty() && !name.contains(&b'\n');
    is_one_line.then(|| base.join(path_from(name)).canonicalize().ok())?.filter(|path| path.is_dir())
}

/// Whether all of them are this user's: what belongs to others is for git to trust or not.
fn all_own(paths: &[&Path]) -> bool {
    let uid = |path: &Path| path.symlink_metadata().map(|meta| meta.uid()).ok();
    let own = uid(Path::new("/proc/self"));
    own.is_some() && paths.iter().all(|path| uid(path) == own)
}

/// Whether a repository's configuration says nothing of where things are but `bare = false`, names no extension, and
/// leads to no other file that might.
pub(crate) fn is_plain(config: &str) -> bool {
    let moves_nothing = |line: &str| match line.strip_prefix('[') {
        // A key may stand behind its section's name.
        Some(section) => line.ends_with(']') && !["include", "extensions"].iter().any(|name| section.trim_start().starts_with(name)),
        None => line == "bare = false" || !["bare", "worktree"].iter().any(|key| line.starts_with(key)),
    };
    !config.starts_with('\u{feff}') && config.lines().all(|line| moves_nothing(&line.trim().to_ascii_lowercase()))
}

/// The branch that the file HEAD in a checkout's git folder names, `Some(None)` when it names a commit. `None` when git
/// has to be asked: where refs aren't kept in files it holds a placeholder.
pub(crate) fn head_in(git_dir: &Path) -> Option<Option<String>> {
    let text = std::fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let text = text.strip_suffix('\n')?;
    match text.strip_prefix("ref: refs/heads/") {
        Some(".invalid") => None,
        Some(branch) => Some(Some(branch.to_owned())),
        None => Oid::parse(text).map(|_| None),
    }
}

/// The commit that HEAD names by itself.
pub(crate) fn detached_in(git_dir: &Path) -> Option<Oid> {
    Oid::parse(std::fs::read_to_string(git_dir.join("HEAD")).ok()?.strip_suffix('\n')?)
}

/// Where a branch or private ref is that has a file of its own. One that is packed, is a link to another ref or isn't
/// there is git's to say.
pub(crate) fn loose_ref(common_dir: &Path, full_ref: &str) -> Option<Oid> {
    let is_shared = full_ref.starts_with("refs/heads/") || full_ref.starts_with("refs/taskyard/");
    let odd = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if !is_shared || full_ref.contains('\\') || full_ref.bytes().any(|b| b < b' ') || full_ref.split('/').any(odd) {
        return None;
    }
    let file = common_dir.join(full_ref);
    let is_file = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
    is_file.then(|| std::fs::read_to_string(&file).ok())?.and_then(|text| Oid::parse(text.strip_suffix('\n')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_configuration_is_trusted() {
        assert!(is_plain("[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = X\n[branch \"worktree\"]\n"));
        assert!(is_plain(""));
        for odd in [
            "bare = true",
            "Bare=false",
            "bare",
            "[include]\n\tpath = x",
            "[extensions]\n\tworktreeConfig = true",
            "[core] bare = 1",
            "[core] worktree = /x",
            "[core]\n  workTree = /x",
            "[ includeIf \"gitdir:x\"]",
            "\u{feff}[include]",
        ] {
            assert!(!is_plain(odd), "{odd}");
        }
    }

    #[test]
    fn head_is_read_where_it_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            std::fs::write(folder.path().join("HEAD"), text).unwrap();
            (head_in(folder.path()), detached_in(folder.path()))
        };
        let oid = "1".repeat(40);
        assert_eq!(with("ref: refs/heads/a/b\n"), (Some(Some("a/b".into())), None));
        assert_eq!(with(&format!("{oid}\n")), (Some(None), Oid::parse(&oid)));
        for odd in ["ref: refs/heads/.invalid\n", "ref: refs/remotes/x\n", "", "x\n"] {
            assert_eq!(with(odd), (None, None), "{odd}");
        }
    }

    #[test]
    fn a_loose_ref_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let oid = "2".repeat(40);
        let heads = folder.path().join("refs/heads");
        std::fs::create_dir_all(heads.join("a")).unwrap();
        std::fs::write(heads.join("a/b"), format!("{oid}\n")).unwrap();
        std::fs::write(heads.join("half"), &oid).unwrap();
        std::fs::write(heads.join("link"), "ref: refs/heads/a/b\n").unwrap();
        std::fs::write(heads.join("x.lock"), format!("{oid}\n")).unwrap();
        std::fs::write(folder.path().join("HEAD"), format!("{oid}\n")).unwrap();
        assert_eq!(loose_ref(folder.path(), "refs/heads/a/b"), Oid::parse(&oid));
        for other in ["half", "link", "x.lock", "a", "none", "../../HEAD", "a//b", "a/./b", "/a/b"] {
            assert_eq!(loose_ref(folder.path(), &format!("refs/heads/{other}")), None, "{other}");
        }
        assert_eq!(loose_ref(folder.path(), "HEAD"), None);
    }
}
