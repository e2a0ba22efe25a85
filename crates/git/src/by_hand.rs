//! Tells what a person did in a private merge worktree from what git itself put there.
//!
//! A print says where HEAD, index and files stand. One is kept when a conflict has been laid out; as long as the
//! folder gives the same, nothing in it is anybody's. Owns nothing; writes objects, and never a ref, index or file.

use crate::error::{Error, Result};
use crate::index;
use crate::repo::Repo;
use crate::scratch::Tree;
use crate::status::{ChangeKind, all_changes};
use std::path::Path;

/// The print of the worktree as it is. Ignored files are left out.
pub(crate) async fn print(repo: &Repo, tree: &Tree) -> Result<String> {
    let here = Repo::open(repo.git(), tree.path()).await?;
    let scratch = tempfile::tempdir().map_err(Error::io("make a folder in", std::env::temp_dir()))?;
    let private = scratch.path().join("index");
    index::private(&here, &private).await?;
    let (inner, changes): (Vec<_>, Vec<_>) =
        all_changes(&here, &[]).await?.into_iter().partition(|change| change.kind == ChangeKind::EmbeddedRepository);
    let call = || here.call("look at the files").env("GIT_INDEX_FILE", &private);
    index::put(&call, &changes).await?;
    let files = call().arg("write-tree").oid().await?;
    let entries = here.call("look at the index").args(["ls-files", "--stage", "-z"]).run().await?.stdout;
    let staged = here.call("look at the index").args(["hash-object", "--stdin"]).input(entries).oid().await?;
    let inner: Vec<String> = inner.iter().map(|change| change.path.to_string()).collect();
    Ok(format!("{} {staged} {files} {inner:?}", tree.head().await?))
}

/// Whether nothing in the worktree differs from the commit it stands on.
pub(crate) async fn is_clean(repo: &Repo, path: &Path) -> Result<bool> {
    let here = Repo::open(repo.git(), path).await?;
    Ok(all_changes(&here, &[]).await?.is_empty())
}
