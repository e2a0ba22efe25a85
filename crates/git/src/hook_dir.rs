//! Lets chosen hooks of the user's run on work in scratch space, and tells afterwards which one refused.
//!
//! A merge that is computed before it lands must run the hooks that can refuse it, but not those that announce
//! it. So git is pointed at a folder with one wrapper per wanted hook, which takes our own settings out of the
//! environment, starts the user's hook under its real path and notes when it refuses. The hooks are those of
//! the user's own checkout, never the ones a task's branch may bring along.

use crate::error::{Error, Result};
use crate::repo::Repo;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use taskyard_domain::repository::HookPolicy;

/// A folder of wrappers, removed with this value.
#[derive(Debug)]
pub(crate) struct HookDir {
    dir: tempfile::TempDir,
}

impl HookDir {
    /// Wrappers for those of `names` that the repository has; `None` when there are none or `policy` skips them.
    pub(crate) async fn prepare(repo: &Repo, scratch: &Path, policy: HookPolicy, names: &[&str]) -> Result<Option<Self>> {
        if policy == HookPolicy::Skip {
            return Ok(None);
        }
        let folder = hooks_folder(repo).await?;
        let found: Vec<(&str, PathBuf)> = names.iter().map(|name| (*name, folder.join(name))).filter(|(_, path)| runs(path)).collect();
        if found.is_empty() {
            return Ok(None);
        }
        std::fs::create_dir_all(scratch).map_err(Error::io("make", scratch))?;
        let dir = tempfile::Builder::new().prefix("hooks-").tempdir_in(scratch).map_err(Error::io("make a folder in", scratch))?;
        for (name, real) in found {
            let path = dir.path().join(name);
            std::fs::write(&path, wrapper(name, &real, dir.path())).map_err(Error::io("write", &path))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).map_err(Error::io("make executable", &path))?;
        }
        Ok(Some(Self { dir }))
    }

    /// `core.hooksPath=…` for a `-c`.
    pub(crate) fn setting(&self) -> std::ffi::OsString {
        let mut setting = std::ffi::OsString::from("core.hooksPath=");
        setting.push(self.dir.path());
        setting
    }

    /// The hook that refused.
    pub(crate) fn refused(&self) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(".refused")).ok()
    }

    /// The hook that was running when everything was ended.
    pub(crate) fn running(&self) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(".running")).ok()
    }
}

/// Where the repository's hooks are: `core.hooksPath`, relative to the user's checkout, else the git folder's.
async fn hooks_folder(repo: &Repo) -> Result<PathBuf> {
    let set = repo.settings().await?.hooks.as_ref();
    Ok(set.map_or_else(|| repo.common_dir().join("hooks"), |path| repo.root().join(path)))
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn wrapper(name: &str, real: &Path, dir: &Path) -> Vec<u8> {
    let mut text = Vec::from(*b"#!/bin/sh\nunset GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_LITERAL_PATHSPECS GIT_OPTIONAL_LOCKS GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX\n");
    let dir = word(dir);
    let mut line = String::new();
    let _ = write!(line, "printf %s {name} > ");
    text.extend(line.as_bytes());
    text.extend([&dir[..], b"/.running\n", &word(real), b" \"$@\"\ncode=$?\nif [ $code -ne 0 ]; then ", line.as_bytes()].concat());
    text.extend([&dir[..], b"/.refused; fi\nrm -f ", &dir, b"/.running\nexit $code\n"].concat());
    text
}

/// A path as one word of a shell script.
fn word(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let mut text = vec![b'\''];
    for byte in path.as_os_str().as_bytes() {
        if *byte == b'\'' {
            text.extend(b"'\\''");
        } else {
            text.push(*byte);
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_one_word() {
        assert_eq!(word(Path::new("/a b/it's")), b"'/a b/it'\\''s'");
    }
}
