//! Links that stand where an ignored folder would be.
//!
//! A rule such as `node_modules/` matches folders only, so git calls a link of that name untracked. Whoever links
//! a folder of packages into a worktree doesn't mean it to be committed.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::repo::Repo;
use crate::runner::{Call, split_nul};
use std::collections::HashSet;
use std::path::Path;

/// Those of `links` that would be ignored if they were folders.
pub(crate) async fn ignored_links(repo: &Repo, links: &[FilePath]) -> Result<HashSet<FilePath>> {
    if links.is_empty() {
        return Ok(HashSet::new());
    }
    // Git won't look at `link/` in the real tree, so it is asked about a copy of the rules with folders in it.
    let model = tempfile::tempdir().map_err(Error::io("make a folder in", std::env::temp_dir()))?;
    for link in links {
        model_rules(repo.root(), model.path(), link)?;
    }
    let call = repo.git().call("check what is ignored", model.path()).arg("--git-dir").arg(repo.git_dir());
    let call = call.arg("--work-tree").arg(model.path()).args(["check-ignore", "--no-index"]);
    let names = links.iter().map(|link| [link.as_bytes(), b"/"].concat()).collect::<Vec<_>>();
    Ok(ask(call, &names).await?.iter().filter_map(|name| name.strip_suffix(b"/")).map(FilePath::new).collect())
}

fn model_rules(root: &Path, model: &Path, link: &FilePath) -> Result<()> {
    let folder = link.within(model);
    std::fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
    let inside = Path::new(link.as_os_str());
    for above in inside.ancestors().skip(1) {
        let (rules, copy) = (root.join(above).join(".gitignore"), model.join(above).join(".gitignore"));
        if rules.is_file() && !copy.exists() {
            std::fs::copy(&rules, &copy).map_err(Error::io("copy", &rules))?;
        }
    }
    Ok(())
}

/// Those of `names` that a `check-ignore` call says are ignored.
pub(crate) async fn ask(call: Call, names: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    // The command takes no literal pathspecs; `./` keeps a leading colon from being magic.
    let input = names.iter().flat_map(|name| [b"./", &name[..], b"\0"].concat()).collect::<Vec<u8>>();
    let output = call.pathspec_magic().args(["-z", "--stdin"]).input(input).accept(&[0, 1]).await?;
    Ok(split_nul(&output.stdout).iter().map(|name| name.strip_prefix(b"./").unwrap_or(name).to_vec()).collect())
}
