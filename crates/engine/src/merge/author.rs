//! Whom the commits are by that Taskyard makes, and under which policy.

use crate::{Engine, fold};
use taskyard_domain::Result;
use taskyard_domain::repository::Repository;
use taskyard_git::record::Author;
use taskyard_git::{Identity, Policy, Repo};

impl Engine {
    /// The person that git is configured for in `repo`, else Taskyard itself; with the repository's policy.
    ///
    /// # Errors
    /// When git's configuration can't be read.
    pub(crate) async fn author(&self, repository: &Repository, repo: &Repo) -> Result<Author> {
        let who = identity(repo).await.map_err(fold::git)?;
        let policy = Policy { hooks: repository.hook_policy, sign: repository.sign_policy };
        Ok(Author { who, policy })
    }
}

/// Name and address from git's configuration when both are set.
async fn identity(repo: &Repo) -> taskyard_git::Result<Identity> {
    let name = setting(repo, "user.name").await?;
    let email = setting(repo, "user.email").await?;
    Ok(match (name, email) {
        (Some(name), Some(email)) => Identity { name, email },
        _ => Identity { name: "Taskyard".into(), email: "taskyard@localhost".into() },
    })
}

async fn setting(repo: &Repo, key: &str) -> taskyard_git::Result<Option<String>> {
    let output = repo.call("read the user's name").args(["config", "--get", key]).accept(&[0, 1]).await?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((output.ok() && !text.is_empty()).then_some(text))
}
