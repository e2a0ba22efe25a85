//! What a commit, or an index, holds that a worktree of it needs more than a checkout for: submodules, and attributes that
//! may name filters. Found with one listing for both. Reads only.

use crate::error::Result;
use crate::file_path::FilePath;
use crate::index::{Gitlink, read_gitlink};
use crate::oid::Oid;
use crate::repo::Repo;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub(crate) gitlinks: Vec<Gitlink>,
    pub(crate) has_attributes: bool,
}

impl Contents {
    /// Of the commit `commit`: what a fresh worktree of it holds.
    ///
    /// # Errors
    /// Git's.
    pub async fn of_commit(repo: &Repo, commit: &Oid) -> Result<Self> {
        let call = repo.call_common("list a commit's files").args(["ls-tree", "-r", "-z"]);
        Ok(read(&call.arg(commit).fields().await?))
    }

    /// Of the index of `worktree`.
    ///
    /// # Errors
    /// Git's.
    pub async fn of_index(worktree: &Repo) -> Result<Self> {
        Ok(read(&worktree.call("list the index").args(["ls-files", "-z", "--stage"]).fields().await?))
    }
}

/// Reads `<mode> <oid> <stage>\t<path>` and `<mode> <type> <oid>\t<path>`.
fn read(entries: &[Vec<u8>]) -> Contents {
    let name = |entry: &Vec<u8>| entry.iter().position(|b| *b == b'\t').map(|tab| FilePath::new(&entry[tab + 1..]));
    let attributes = |path: FilePath| path.as_bytes() == b".gitattributes" || path.as_bytes().ends_with(b"/.gitattributes");
    Contents {
        gitlinks: entries.iter().filter_map(|entry| read_gitlink(entry)).collect(),
        has_attributes: entries.iter().filter_map(name).any(attributes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_listings_say_the_same() {
        let oid = "3".repeat(40);
        let index = [format!("160000 {oid} 0\ta b"), format!("100644 {oid} 0\tx/.gitattributes")].map(String::into_bytes);
        let tree = [format!("160000 commit {oid}\ta b"), format!("100644 blob {oid}\tx/.gitattributes")].map(String::into_bytes);
        let found = read(&index);
        assert_eq!(found, read(&tree));
        assert_eq!((found.gitlinks.len(), found.gitlinks[0].path.to_string(), found.has_attributes), (1, "a b".into(), true));
        assert_eq!(read(&[format!("100644 {oid} 0\tx.gitattributes").into_bytes()]), Contents::default());
    }
}
