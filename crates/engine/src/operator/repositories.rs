//! Repositories: what is known of them, and how Taskyard treats them.

use crate::commands::check;
use crate::{Caller, Engine, change, fold, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Component, Path};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::RepositoryId;
use taskyard_domain::repository::{HookPolicy, Repository, SignPolicy};
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_git::Repo;
use taskyard_store::{Read, Tx};

/// Longest script, bytes.
const SCRIPT: usize = 64 << 10;
/// Most patterns of files to copy.
const PATTERNS: usize = 100;
const CLEARABLE: &[&str] = &["default_branch", "setup_script", "cleanup_script", "verify_script", "copy_files"];

/// Which repositories.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RepositoryList {
    /// Only those of this workspace.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// A repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RepositoryView {
    /// UUID.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The workspace's slug.
    pub workspace: String,
    /// The user's checkout.
    pub local_path: Option<String>,
    /// Where it was cloned from.
    pub remote_url: Option<String>,
    /// Where merges go when nothing nearer says otherwise.
    pub default_branch: Option<String>,
    /// First part of the names of task branches.
    pub branch_prefix: String,
    /// Run in a new worktree before the agent.
    pub setup_script: Option<String>,
    /// Run before a worktree is removed.
    pub cleanup_script: Option<String>,
    /// Run on combined trees by `preview_merge_set`.
    pub verify_script: Option<String>,
    /// Globs of untracked files to copy into worktrees.
    pub copy_files: Vec<String>,
    /// `run` or `skip`.
    pub hook_policy: String,
    /// `inherit` or `never`.
    pub sign_policy: String,
    /// When it was added.
    pub created_at: Timestamp,
}

impl RepositoryView {
    fn of(repository: &Repository, workspace: &str) -> Self {
        Self {
            id: repository.id.to_string(),
            name: repository.name.clone(),
            workspace: workspace.to_owned(),
            local_path: repository.local_path.clone(),
            remote_url: repository.remote_url.clone(),
            default_branch: repository.default_branch.clone(),
            branch_prefix: repository.branch_prefix.clone(),
            setup_script: repository.setup_script.clone(),
            cleanup_script: repository.cleanup_script.clone(),
            verify_script: repository.verify_script.clone(),
            copy_files: repository.copy_files.clone(),
            hook_policy: repository.hook_policy.to_string(),
            sign_policy: repository.sign_policy.to_string(),
            created_at: repository.created_at,
        }
    }
}

/// The repositories.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RepositoryListOutput {
    /// Oldest first.
    pub repositories: Vec<RepositoryView>,
}

/// What to change about a repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RepositoryUpdate {
    /// The repository.
    pub repository_id: String,
    /// Where merges go when nothing nearer says otherwise; a local branch.
    #[serde(default)]
    pub default_branch: Option<String>,
    /// First part of the names of new task branches.
    #[serde(default)]
    pub branch_prefix: Option<String>,
    /// Run in a new worktree before the agent; blank for none.
    #[serde(default)]
    pub setup_script: Option<String>,
    /// Run before a worktree is removed; blank for none.
    #[serde(default)]
    pub cleanup_script: Option<String>,
    /// Run on combined trees by `preview_merge_set`; blank for none.
    #[serde(default)]
    pub verify_script: Option<String>,
    /// Globs of untracked files to copy into worktrees.
    #[serde(default)]
    pub copy_files: Option<Vec<String>>,
    /// `run` or `skip`.
    #[serde(default)]
    pub hook_policy: Option<String>,
    /// `inherit` or `never`.
    #[serde(default)]
    pub sign_policy: Option<String>,
    /// Fields to empty.
    #[serde(default)]
    pub clear: Option<Vec<String>>,
}

/// The repository as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RepositoryUpdateOutput {
    /// Whether anything changed.
    pub updated: bool,
    /// The repository.
    #[serde(flatten)]
    pub repository: RepositoryView,
}

impl Engine {
    /// The repositories of a workspace, or of all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace; `FORBIDDEN` for a run.
    pub async fn repository_list(&self, caller: &Caller, input: RepositoryList) -> Result<RepositoryListOutput> {
        caller.require_person("see how repositories are set up")?;
        let caller = caller.clone();
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let mut repositories = Vec::new();
                    for workspace in crate::commands::list_workspaces::seen(read, &caller, input.workspace.as_deref()).await? {
                        let found = read.repository_list(workspace.id).await?;
                        repositories.extend(found.iter().map(|repository| RepositoryView::of(repository, &workspace.slug)));
                    }
                    Ok(RepositoryListOutput { repositories })
                })
            })
            .await
    }

    /// Changes how a repository is treated. Worktrees that exist keep their branches.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_ARGUMENT` naming the field, for a default branch that doesn't exist too; `FORBIDDEN`
    /// for a run.
    pub async fn repository_update(&self, caller: &Caller, input: RepositoryUpdate) -> Result<RepositoryUpdateOutput> {
        caller.require_person("change repositories")?;
        if let Some(branch) = &input.default_branch {
            self.check_branch(caller, &input.repository_id, branch).await?;
        }
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { update(tx, &caller, input).await })).await
    }

    async fn check_branch(&self, caller: &Caller, repository_id: &str, branch: &str) -> Result<()> {
        let (id, branch) = (repository_id.to_owned(), check::branch("default_branch", branch)?);
        let caller = caller.clone();
        let repository = self.store().read(move |read| Box::pin(async move { fetch(read, &caller, &id).await })).await?;
        let Some(path) = repository.local_path else { return Ok(()) };
        let repo = Repo::open(self.git(), Path::new(&path)).await.map_err(fold::git)?;
        let branches = repo.branch_names().await.map_err(fold::git)?;
        if branches.contains(&branch) {
            return Ok(());
        }
        let message = format!("default_branch: {branch} is no local branch of {path}; there are {}", branches.join(", "));
        Err(Error::invalid("default_branch", message))
    }
}

async fn fetch(read: &mut Read, caller: &Caller, id: &str) -> Result<Repository> {
    let parsed: RepositoryId = handle::id("repository_id", id)?;
    let found = read.repository_fetch(parsed).await?.ok_or_else(|| Error::not_found("repository", id).with_field("repository_id"))?;
    caller.require_workspace(found.workspace_id, "repository", id).map_err(|error| error.with_field("repository_id"))?;
    Ok(found)
}

async fn update(tx: &mut Tx, caller: &Caller, input: RepositoryUpdate) -> Result<RepositoryUpdateOutput> {
    let mut repository = fetch(tx, caller, &input.repository_id).await?;
    let before = repository.clone();
    let named = set(&mut repository, &input)?;
    check::some(&named)?;
    let updated = repository != before;
    if updated {
        tx.repository_update(&repository).await?;
        let data = json!({ "repository_id": repository.id, "fields": named });
        tx.event(NewEvent::new(repository.workspace_id, Kind::RepositoryAdded).data(data.clone()));
        change::audit(tx, caller, repository.workspace_id, Action::RepositoryUpdated, About::Repository(repository.id), data).await?;
    }
    let workspace = tx.workspace_fetch(repository.workspace_id).await?.map(|workspace| workspace.slug).unwrap_or_default();
    Ok(RepositoryUpdateOutput { updated, repository: RepositoryView::of(&repository, &workspace) })
}

/// Writes the fields that the call names into `repository`; returns their names.
fn set(repository: &mut Repository, input: &RepositoryUpdate) -> Result<Vec<&'static str>> {
    let mut named = Vec::new();
    if let Some(branch) = &input.default_branch {
        repository.default_branch = Some(check::branch("default_branch", branch)?);
        named.push("default_branch");
    }
    if let Some(prefix) = &input.branch_prefix {
        repository.branch_prefix = check::branch("branch_prefix", prefix.trim_end_matches('/'))?;
        named.push("branch_prefix");
    }
    let scripts = [
        ("setup_script", &input.setup_script, &mut repository.setup_script),
        ("cleanup_script", &input.cleanup_script, &mut repository.cleanup_script),
        ("verify_script", &input.verify_script, &mut repository.verify_script),
    ];
    for (field, text, place) in scripts {
        if let Some(text) = text {
            let text = check::text(field, text, SCRIPT)?;
            *place = (!text.trim().is_empty()).then_some(text);
            named.push(field);
        }
    }
    if let Some(patterns) = &input.copy_files {
        repository.copy_files = copy_files(patterns)?;
        named.push("copy_files");
    }
    if let Some(policy) = &input.hook_policy {
        repository.hook_policy = HookPolicy::read("hook_policy", policy)?;
        named.push("hook_policy");
    }
    if let Some(policy) = &input.sign_policy {
        repository.sign_policy = SignPolicy::read("sign_policy", policy)?;
        named.push("sign_policy");
    }
    let cleared = check::clear(input.clear.as_deref().unwrap_or_default(), CLEARABLE)?;
    check::not_both(&cleared, &named)?;
    for field in &cleared {
        match *field {
            "default_branch" => repository.default_branch = None,
            "setup_script" => repository.setup_script = None,
            "cleanup_script" => repository.cleanup_script = None,
            "verify_script" => repository.verify_script = None,
            _ => repository.copy_files.clear(),
        }
    }
    named.extend(cleared);
    Ok(named)
}

fn copy_files(patterns: &[String]) -> Result<Vec<String>> {
    if patterns.len() > PATTERNS {
        return Err(Error::invalid("copy_files", format!("copy_files has {} patterns; at most {PATTERNS} fit", patterns.len())));
    }
    for pattern in patterns {
        let inside = Path::new(pattern).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if pattern.trim().is_empty() || !inside {
            return Err(Error::invalid(
                "copy_files",
                format!("copy_files: {pattern:?} must be a pattern inside the repository, such as .env"),
            ));
        }
    }
    Ok(patterns.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_files_stay_inside_the_repository() {
        assert!(copy_files(&[".env".into(), "sub/*.local".into()]).is_ok());
        for bad in ["/etc/passwd", "../x", "a/../../b", " "] {
            assert_eq!(copy_files(&[bad.into()]).unwrap_err().field.as_deref(), Some("copy_files"), "{bad}");
        }
    }
}
