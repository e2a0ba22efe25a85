//! A worktree as it is now, as one side of a diff: what Taskyard would commit of it, without storing any of it.
//!
//! Git compares commits with files through an index. This makes a private one that knows of every file that counts
//! (new ones by name only), so that git reads the contents where they are, through the filters for them. Storing
//! thousands of files as objects first takes several times as long. The worktree's own index stays as it is.

use crate::commit::choose;
use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::index;
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::Call;
use crate::status::{Change, ChangeKind, changes};
use std::path::{Path, PathBuf};

/// What a worktree has that its last commit hasn't. Vanishes with the value.
#[derive(Debug)]
pub(crate) struct Present {
    repo: Repo,
    _folder: tempfile::TempDir,
    index: PathBuf,
}

impl Present {
    /// The state of the worktree `repo`, whose last commit is `head`; `None` when nothing that counts differs.
    pub(crate) async fn take(repo: &Repo, scratch: &Path, copied: &[CopiedFile], head: &Oid) -> Result<Option<Self>> {
        let mut choice = choose(repo, changes(repo, copied).await?, copied).await?;
        choice.put.retain(|change| change.kind != ChangeKind::EmbeddedRepository);
        if choice.put.is_empty() && choice.drop.is_empty() {
            return Ok(None);
        }
        std::fs::create_dir_all(scratch).map_err(Error::io("make", scratch))?;
        let folder = tempfile::Builder::new().prefix("index-").tempdir_in(scratch).map_err(Error::io("make a folder in", scratch))?;
        let index = folder.path().join("index");
        let own = repo.git_dir().join("index");
        if own.exists() {
            std::fs::copy(&own, &index).map_err(Error::io("copy", &own))?;
        }
        let present = Self { repo: repo.clone(), _folder: folder, index };
        // Files whose times alone are new would look changed.
        present.call("compare the files with the index").args(["update-index", "-q", "--refresh"]).accept(&[0, 1]).await?;
        present.enter(&choice.put, &choice.drop, head).await?;
        let same = present.call("look for changes").args(["diff-index", "--quiet", "--ignore-submodules=dirty"]).arg(head).yes().await?;
        Ok((!same).then_some(present))
    }

    /// A call of git in the worktree with the private index.
    pub(crate) fn call(&self, stage: &'static str) -> Call {
        self.repo.call(stage).env("GIT_INDEX_FILE", &self.index)
    }

    /// Bytes of the file as it is there; of a link, of where it leads.
    pub(crate) fn size(&self, path: &FilePath) -> Option<u64> {
        path.within(self.repo.root()).symlink_metadata().ok().filter(|meta| !meta.is_dir()).map(|meta| meta.len())
    }

    /// Takes out what is gone, and puts in what the index doesn't have, under a content that git will find to differ.
    async fn enter(&self, put: &[Change], drop: &[FilePath], head: &Oid) -> Result<()> {
        let gone = put.iter().filter(|change| change.kind == ChangeKind::Deleted).map(|change| change.path.clone());
        let out: Vec<FilePath> = drop.iter().cloned().chain(gone).collect();
        index::take_out(self.call("leave files out"), &out).await?;
        let empty = empty_blob(head);
        let new = put.iter().filter(|change| matches!(change.kind, ChangeKind::Untracked | ChangeKind::Unmerged));
        let lines: Vec<u8> =
            new.flat_map(|change| [format!("100644 {empty} 0\t").as_bytes(), change.path.as_bytes(), b"\0"].concat()).collect();
        if !lines.is_empty() {
            self.call("take new files in").args(["update-index", "-z", "--index-info"]).input(lines).run().await?;
        }
        Ok(())
    }
}

/// The name of the empty file, which every repository knows, in the kind of names that `like` is of.
fn empty_blob(like: &Oid) -> &'static str {
    const SHA1: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    const SHA256: &str = "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813";
    if like.as_str().len() == SHA1.len() { SHA1 } else { SHA256 }
}
