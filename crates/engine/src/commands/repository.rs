//! Finds the repository that a caller means, and makes its row where it is new.
//!
//! Git is asked before the transaction; the row is written inside it, so that a refused call leaves none.

use super::remote;
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use std::path::{Path, PathBuf};
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RepositoryId, WorkspaceId};
use taskyard_domain::repository::{HookPolicy, Repository, SignPolicy};
use taskyard_domain::{Error, Result};
use taskyard_git::Repo;
use taskyard_git::repo::Head;
use taskyard_store::{Read, Tx};

/// First part of the names of task branches.
const PREFIX: &str = "taskyard";

/// A repository as git sees it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    root: PathBuf,
    default_branch: Option<String>,
    remote_url: Option<String>,
}

impl Engine {
    /// Looks at the repository at `path`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a path that isn't absolute; `FAILED_PRECONDITION` about `local_path` when no usable
    /// repository is there.
    pub(crate) async fn look_at_repository(&self, path: &str) -> Result<Found> {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(Error::invalid("local_path", format!("local_path: {} isn't an absolute path", path.display())));
        }
        let told = |error| fold::git(error).with_field("local_path");
        let repo = Repo::open(self.git(), path).await.map_err(told)?;
        repo.check_not_switched_bare().map_err(told)?;
        let head = repo.head().await.map_err(told)?;
        if head.oid().is_none() && !repo.has_commits().await.map_err(told)? {
            let root = repo.root().display();
            let hint = if repo.is_bare() {
                "push a first commit to it, then repeat the call".to_owned()
            } else {
                format!("make a first commit, then repeat the call: git -C '{root}' commit --allow-empty -m 'First commit'")
            };
            return Err(Error::precondition(format!(
                "local_path: the repository at {root} has no commit yet, so no work can start from it"
            ))
            .with_field("local_path")
            .with_hint(hint));
        }
        let default_branch = match head {
            Head::Branch { name, .. } => Some(name),
            Head::Detached { .. } | Head::Unborn { .. } => None,
        };
        let remote_url = repo.remote_url("origin").await.map_err(told)?.map(|url| remote::without_secrets(&url));
        Ok(Found { root: repo.root().to_owned(), default_branch, remote_url })
    }
}

/// The row of the repository that was found, made where it is new. Says whether it is new.
pub(crate) async fn ensure(tx: &mut Tx, caller: &Caller, workspace: WorkspaceId, found: Found) -> Result<(Repository, bool)> {
    let Some(path) = found.root.to_str() else {
        let shown = found.root.display();
        return Err(Error::invalid("local_path", format!("local_path: {shown} isn't UTF-8, which the database needs")));
    };
    if let Some(known) = tx.repository_by_path(workspace, path).await? {
        return Ok((follow(tx, caller, known, found.remote_url).await?, false));
    }
    let folder = found.root.file_name().map(|name| name.to_string_lossy());
    let name = folder.map_or_else(|| path.to_owned(), |name| name.trim_end_matches(".git").to_owned());
    let repository = Repository {
        id: RepositoryId::new(tx.ids()),
        workspace_id: workspace,
        name: if name.is_empty() { path.to_owned() } else { name },
        local_path: Some(path.to_owned()),
        remote_url: found.remote_url,
        default_branch: found.default_branch,
        branch_prefix: PREFIX.into(),
        setup_script: None,
        cleanup_script: None,
        verify_script: None,
        copy_files: Vec::new(),
        hook_policy: HookPolicy::Run,
        sign_policy: SignPolicy::Inherit,
        created_at: tx.now(),
    };
    tx.repository_insert(&repository).await?;
    let data = json!({ "repository_id": repository.id, "name": repository.name, "local_path": repository.local_path });
    tx.event(NewEvent::new(workspace, Kind::RepositoryAdded).data(data.clone()));
    change::audit(tx, caller, workspace, Action::RepositoryAdded, About::Repository(repository.id), data).await?;
    Ok((repository, true))
}

/// A known repository, with the URL that its clone has now.
async fn follow(tx: &mut Tx, caller: &Caller, mut known: Repository, remote_url: Option<String>) -> Result<Repository> {
    if remote_url.is_none() || known.remote_url == remote_url {
        return Ok(known);
    }
    known.remote_url = remote_url;
    tx.repository_update(&known).await?;
    let data = json!({ "repository_id": known.id, "fields": ["remote_url"] });
    tx.event(NewEvent::new(known.workspace_id, Kind::RepositoryAdded).data(data.clone()));
    change::audit(tx, caller, known.workspace_id, Action::RepositoryUpdated, About::Repository(known.id), data).await?;
    Ok(known)
}

/// The known repository that was cloned from `url`, or that a `file` URL names.
///
/// # Errors
/// `FAILED_PRECONDITION` with the way out when there is none.
pub(crate) async fn by_url(read: &mut Read, workspace: WorkspaceId, url: &str) -> Result<Repository> {
    let wanted = remote::plain(url);
    let same = |known: &Repository| {
        let names = [known.remote_url.as_deref(), known.local_path.as_deref()];
        names.into_iter().flatten().any(|known| remote::plain(known) == wanted)
    };
    let found = read.repository_list(workspace).await?.into_iter().find(same);
    found.ok_or_else(|| {
        Error::precondition(format!("repository_url: no repository of this workspace was cloned from {}", remote::without_secrets(url)))
            .with_field("repository_url")
            .with_hint("clone it, then pass the clone's folder as local_path")
    })
}
