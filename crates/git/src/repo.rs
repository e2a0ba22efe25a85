//! A repository as seen from one of its folders: where things are, what HEAD is, which branches there are.
//!
//! Holds paths, and what the user has set about commits, read once; everything else that can change is asked of git, or
//! of the files that git documents, each time. To be opened for each operation. Never changes anything.

use crate::error::{Error, Result};
use crate::layout::{self, Layout, head_in};
use crate::oid::Oid;
use crate::runner::{Call, Git, RepoLock, path_from, split_nul};
use crate::settings::Settings;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A repository opened from a checkout, a linked worktree, or a bare repository.
#[derive(Debug, Clone)]
pub struct Repo {
    git: Git,
    root: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    bare: bool,
    bare_switched_on: bool,
    /// Nothing moves things elsewhere, and refs are files: what they say is what git would say.
    plain: bool,
    settings: Arc<OnceCell<Settings>>,
}

/// What HEAD is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Head {
    /// On a branch that has commits.
    Branch {
        /// Its name without `refs/heads/`.
        name: String,
        /// Its tip.
        oid: Oid,
    },
    /// On a commit, on no branch.
    Detached {
        /// The commit.
        oid: Oid,
    },
    /// On a branch that has no commit yet.
    Unborn {
        /// Its name without `refs/heads/`.
        branch: String,
    },
}

impl Head {
    /// The commit, if there is one.
    pub fn oid(&self) -> Option<&Oid> {
        match self {
            Self::Branch { oid, .. } | Self::Detached { oid } => Some(oid),
            Self::Unborn { .. } => None,
        }
    }

    /// The branch, with or without commits.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Branch { name, .. } | Self::Unborn { branch: name } => Some(name),
            Self::Detached { .. } => None,
        }
    }
}

/// A local branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Its name without `refs/heads/`.
    pub name: String,
    /// Its tip.
    pub oid: Oid,
    /// The tree it is checked out in.
    pub checked_out_at: Option<PathBuf>,
}

/// Where a base came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseSource {
    /// It was named.
    Named,
    /// The repository's default branch.
    DefaultBranch,
    /// The branch checked out in the repository's folder.
    CheckedOut,
}

/// What a worktree starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Base {
    /// The commit.
    pub oid: Oid,
    /// The local branch, when it is one.
    pub branch: Option<String>,
    /// Where it came from.
    pub source: BaseSource,
}

impl Repo {
    /// Opens the repository that `path` is in.
    ///
    /// # Errors
    /// [`Error::NoFolder`], [`Error::NotARepository`], [`Error::Untrusted`].
    pub async fn open(git: &Git, path: &Path) -> Result<Self> {
        match layout::read(path) {
            Some(Layout { root, git_dir, common_dir }) => {
                let (git, settings) = (git.clone(), Arc::default());
                Ok(Self { git, root, git_dir, common_dir, bare: false, bare_switched_on: false, plain: true, settings })
            }
            None => Self::ask(git, path).await,
        }
    }

    /// The same by what git itself makes of the folder, whatever its files say.
    ///
    /// # Errors
    /// See [`Repo::open`].
    pub(crate) async fn ask(git: &Git, path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Err(Error::NoFolder { path: path.to_owned() });
        }
        let Asked { git_dir, common_dir, mut bare, inside, top } = match ask_at_once(git, path).await? {
            Some(asked) => asked,
            None => ask_one_by_one(git, path).await?,
        };
        // A real bare repository has no index; one that has and sits in `.git` was a checkout until somebody set core.bare.
        let beside = git_dir.parent().filter(|_| git_dir.file_name().is_some_and(|name| name == ".git"));
        let switched = git_dir == common_dir && bare && beside.is_some() && git_dir.join("index").exists();
        let root = match (top.filter(|_| inside), beside) {
            (Some(top), _) => top,
            (None, Some(parent)) if !bare || switched => parent.to_owned(),
            _ => git_dir.clone(),
        };
        bare &= !switched;
        let bare_switched_on = switched || (git_dir != common_dir && main_switched(git, &common_dir).await?);
        let (git, settings) = (git.clone(), Arc::default());
        Ok(Self { git, root, git_dir, common_dir, bare, bare_switched_on, plain: false, settings })
    }

    /// The same repository opened anew: what has changed since is seen.
    ///
    /// # Errors
    /// See [`Repo::open`].
    pub async fn again(&self) -> Result<Self> {
        Self::open(&self.git, &self.root).await
    }

    /// The runner.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Top of the checkout; the git folder of a bare repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The git folder of this checkout (`.git/worktrees/…` for a linked worktree).
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git folder all worktrees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Whether it is a bare repository (and means to be one).
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// The folders of all checkouts, the main one first, where files say it plainly.
    pub(crate) fn plain_checkouts(&self) -> Option<Vec<PathBuf>> {
        let main = self.common_dir.parent().filter(|_| self.plain && self.common_dir.file_name().is_some_and(|name| name == ".git"))?;
        Some(std::iter::once(main.to_owned()).chain(crate::worktree::places(self)).collect())
    }

    /// Whether it is a linked worktree.
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Somebody switched `core.bare` on in the main repository, which breaks its checkout.
    ///
    /// # Errors
    /// [`Error::BareSwitchedOn`] with the repair if so.
    pub fn check_not_switched_bare(&self) -> Result<()> {
        if !self.bare_switched_on {
            return Ok(());
        }
        let repair = format!("git --git-dir={} config core.bare false", quoted(&self.common_dir));
        Err(Error::BareSwitchedOn { path: self.common_dir.clone(), repair })
    }

    /// A call of git in this checkout.
    pub fn call(&self, stage: &'static str) -> Call {
        self.git.call(stage, if self.bare_switched_on && !self.is_linked() { &self.common_dir } else { &self.root })
    }

    /// A call of git that needs no checkout, with the shared git folder as its own: unmoved by what is checked out.
    pub fn call_common(&self, stage: &'static str) -> Call {
        self.git.call(stage, &self.common_dir)
    }

    /// What the user has set about commits, read when it is first asked for.
    pub(crate) async fn settings(&self) -> Result<&Settings> {
        self.settings.get_or_try_init(|| Settings::read(self)).await
    }

    /// Waits for the lock on shared state (refs, worktrees, configuration) of this repository.
    pub async fn lock(&self) -> RepoLock {
        self.git.lock(&self.common_dir).await
    }

    /// What HEAD of this checkout is.
    ///
    /// # Errors
    /// Git's.
    pub async fn head(&self) -> Result<Head> {
        match (self.head_branch().await?, self.resolve("HEAD").await?) {
            (Some(name), Some(oid)) => Ok(Head::Branch { name, oid }),
            (None, Some(oid)) => Ok(Head::Detached { oid }),
            (Some(branch), None) => Ok(Head::Unborn { branch }),
            (None, None) => Err(Error::Unreadable { stage: "read HEAD", what: "HEAD names no commit".into() }),
        }
    }

    /// The branch that HEAD of this checkout is on, with or without commits; `None` when it is detached.
    ///
    /// # Errors
    /// Git's.
    pub async fn head_branch(&self) -> Result<Option<String>> {
        if let Some(branch) = head_in(&self.git_dir) {
            return Ok(branch);
        }
        let name = self.call("read HEAD").args(["symbolic-ref", "-q", "HEAD"]).accept(&[0, 1]).await?;
        let name = String::from_utf8_lossy(&name.stdout).trim_end_matches('\n').to_owned();
        Ok((!name.is_empty()).then(|| name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()))
    }

    /// The commit that `rev` names, `None` when it names none.
    ///
    /// # Errors
    /// Git's.
    pub async fn resolve(&self, rev: &str) -> Result<Option<Oid>> {
        if rev.is_empty() || rev.contains('\0') {
            return Ok(None);
        }
        if let Some(oid) = self.on_file(rev) {
            return Ok(Some(oid));
        }
        let peeled = format!("{rev}^{{commit}}");
        let output = self.call("resolve a commit").args(["rev-parse", "-q", "--verify", "--end-of-options"]).arg(peeled);
        let output = output.accept(&[0, 1, 128]).await?;
        Ok(output.ok().then(|| Oid::parse(&String::from_utf8_lossy(&output.stdout))).flatten())
    }

    /// The commit of HEAD, a branch or a private ref where files say it.
    fn on_file(&self, rev: &str) -> Option<Oid> {
        if !self.plain {
            return None;
        }
        if rev != "HEAD" {
            return layout::loose_ref(&self.common_dir, rev);
        }
        match head_in(&self.git_dir)? {
            Some(branch) => layout::loose_ref(&self.common_dir, &format!("refs/heads/{branch}")),
            None => layout::detached_in(&self.git_dir),
        }
    }

    /// Where a ref (`refs/…`) points, peeled to a commit.
    ///
    /// # Errors
    /// Git's.
    pub async fn tip(&self, full_ref: &str) -> Result<Option<Oid>> {
        // `refs/heads/x@{1}` or `refs/heads/x~1` would be revisions, not refs.
        if !full_ref.starts_with("refs/") || full_ref.contains("@{") || full_ref.contains(['~', '^', ':']) {
            return Ok(None);
        }
        self.resolve(full_ref).await
    }

    /// The local branches, by name.
    ///
    /// # Errors
    /// Git's.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        let format = "--format=%(refname)%00%(objectname)%00%(worktreepath)%00";
        let output = self.call("list branches").args(["for-each-ref", format, "refs/heads"]).run().await?;
        Ok(read_branches(&output.stdout))
    }

    /// The commit that work starts from: `named`, else the repository's `default_branch`, else the branch checked
    /// out here. Offline, and never guessed. A name is a local branch, a remote-tracking branch (`origin/x`), a tag
    /// or a commit, in that order.
    ///
    /// # Errors
    /// [`Error::NoCommit`], [`Error::NotFound`], [`Error::DetachedNoBase`].
    pub async fn base(&self, named: Option<&str>, default_branch: Option<&str>) -> Result<Base> {
        let named = named.map(|name| (name, BaseSource::Named));
        let wanted = named.or(default_branch.map(|name| (name, BaseSource::DefaultBranch)));
        if let Some((name, source)) = wanted {
            if let Some((oid, branch)) = self.find_base(name).await? {
                return Ok(Base { oid, branch, source });
            }
            self.check_has_commits().await?;
            return Err(Error::NotFound { path: self.root.clone(), name: name.into(), branches: self.branch_names().await? });
        }
        match self.head().await? {
            Head::Branch { name, oid } => Ok(Base { oid, branch: Some(name), source: BaseSource::CheckedOut }),
            Head::Detached { .. } | Head::Unborn { .. } => {
                self.check_has_commits().await?;
                Err(Error::DetachedNoBase { path: self.root.clone(), branches: self.branch_names().await? })
            }
        }
    }

    /// The commit of a local branch, a remote-tracking branch, a tag or a commit, in that order.
    ///
    /// # Errors
    /// Git's.
    pub async fn find_commit(&self, name: &str) -> Result<Option<Oid>> {
        Ok(self.find_base(name).await?.map(|(oid, _)| oid))
    }

    async fn find_base(&self, name: &str) -> Result<Option<(Oid, Option<String>)>> {
        let short = name.strip_prefix("refs/heads/").unwrap_or(name);
        if let Some(oid) = self.tip(&format!("refs/heads/{short}")).await? {
            return Ok(Some((oid, Some(short.to_owned()))));
        }
        if let Some(oid) = self.tip(&format!("refs/remotes/{name}")).await? {
            return Ok(Some((oid, None)));
        }
        Ok(self.resolve(name).await?.map(|oid| (oid, None)))
    }

    /// The URL of the remote `name` as the repository's configuration has it.
    ///
    /// # Errors
    /// Git's.
    pub async fn remote_url(&self, name: &str) -> Result<Option<String>> {
        let key = format!("remote.{name}.url");
        let output = self.call("look up the remote").args(["config", "--null", "--get", &key]).accept(&[0, 1]).await?;
        let url = split_nul(&output.stdout).into_iter().next().map(|url| String::from_utf8_lossy(&url).into_owned());
        Ok(url.filter(|url| !url.is_empty()))
    }

    /// Names of the local branches.
    ///
    /// # Errors
    /// Git's.
    pub async fn branch_names(&self) -> Result<Vec<String>> {
        Ok(self.branches().await?.into_iter().map(|branch| branch.name).collect())
    }

    /// Whether any ref or HEAD names a commit.
    ///
    /// # Errors
    /// Git's.
    pub async fn has_commits(&self) -> Result<bool> {
        if self.resolve("HEAD").await?.is_some() {
            return Ok(true);
        }
        let any = self.call("look for commits").args(["for-each-ref", "--count=1", "--format=%(refname)"]).text().await?;
        Ok(!any.is_empty())
    }

    async fn check_has_commits(&self) -> Result<()> {
        if self.has_commits().await? { Ok(()) } else { Err(Error::NoCommit { path: self.root.clone() }) }
    }
}

/// Where things are, as git says.
struct Asked {
    git_dir: PathBuf,
    common_dir: PathBuf,
    bare: bool,
    inside: bool,
    /// Top of the checkout, when `inside` one.
    top: Option<PathBuf>,
}

fn ask(git: &Git, path: &Path, what: &[&str]) -> Call {
    git.call("open the repository", path).args(["rev-parse", "--path-format=absolute"]).args(what)
}

/// Asks everything in one call. `None` when the answers can't be told apart (a path with a line end in it) or something
/// is wrong: asking one by one says what.
async fn ask_at_once(git: &Git, path: &Path) -> Result<Option<Asked>> {
    let what = ["--git-dir", "--git-common-dir", "--is-bare-repository", "--is-inside-work-tree", "--show-toplevel"];
    let output = ask(git, path, &what).output().await?;
    let lines: Vec<&[u8]> = output.stdout.split(|b| *b == b'\n').collect();
    // Outside of a checkout the last question fails, after the answers to all others.
    let (git_dir, common_dir, bare, inside, top) = match (lines.as_slice(), output.code) {
        ([git_dir, common_dir, bare, b"true", top, b""], Some(0)) => (git_dir, common_dir, bare, true, Some(path_from(top))),
        ([git_dir, common_dir, bare, b"false", b""], Some(128)) => (git_dir, common_dir, bare, false, None),
        _ => return Ok(None),
    };
    Ok(Some(Asked { git_dir: path_from(git_dir), common_dir: path_from(common_dir), bare: *bare == b"true", inside, top }))
}

async fn ask_one_by_one(git: &Git, path: &Path) -> Result<Asked> {
    let ask = |what: &'static str| ask(git, path, &[what]);
    let git_dir = one_path(ask("--git-dir")).await?;
    let common_dir = one_path(ask("--git-common-dir")).await?;
    let bare = ask("--is-bare-repository").text().await? == "true";
    let inside = ask("--is-inside-work-tree").text().await? == "true";
    let top = if inside { Some(one_path(ask("--show-toplevel")).await?) } else { None };
    Ok(Asked { git_dir, common_dir, bare, inside, top })
}

/// Whether `core.bare` was switched on in the main repository of a worktree.
async fn main_switched(git: &Git, common_dir: &Path) -> Result<bool> {
    if common_dir.file_name().is_none_or(|name| name != ".git") || !common_dir.join("index").exists() {
        return Ok(false);
    }
    if std::fs::read_to_string(common_dir.join("config")).is_ok_and(|config| layout::is_plain(&config)) {
        return Ok(false);
    }
    let bare = git.call("read core.bare", common_dir).args(["config", "--type=bool", "--default=false", "--get", "core.bare"]);
    Ok(bare.text().await? == "true")
}

async fn one_path(call: Call) -> Result<PathBuf> {
    let output = call.run().await?;
    Ok(path_from(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout)))
}

/// `path` as one word of a shell command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// Reads `for-each-ref` of local branches: name, commit and worktree of each, with a line end behind it.
pub(crate) fn read_branches(bytes: &[u8]) -> Vec<Branch> {
    let fields = split_nul(bytes);
    let branch = |record: &[Vec<u8>]| {
        let [name, oid, tree] = record else { return None };
        let name = String::from_utf8_lossy(name).trim_start_matches('\n').strip_prefix("refs/heads/")?.to_owned();
        let oid = Oid::parse(&String::from_utf8_lossy(oid))?;
        Some(Branch { name, oid, checked_out_at: Some(tree).filter(|tree| !tree.is_empty()).map(|tree| path_from(tree)) })
    };
    fields.chunks(3).filter_map(branch).collect()
}
