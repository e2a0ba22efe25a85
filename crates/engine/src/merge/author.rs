//! Whom the commits are by that Taskyard makes, and under which policy.

use crate::{Engine, fold};
use taskyard_domain::Result;
use taskyard_domain::repository::Repository;
use taskyard_git::record::{Author, configured};
use taskyard_git::{Identity, Policy, Repo};

impl Engine {
    /// The person that git is configured for in `repo`, else Taskyard itself; with the repository's policy.
    ///
    /// # Errors
    /// When git's configuration can't be read.
    pub(crate) async fn author(&self, repository: &Repository, repo: &Repo) -> Result<Author> {
        let taskyard = || Identity { name: "Taskyard".into(), email: "taskyard@localhost".into() };
        let who = configured(repo).await.map_err(fold::git)?.unwrap_or_else(taskyard);
        let policy = Policy { hooks: repository.hook_policy, sign: repository.sign_policy };
        Ok(Author { who, policy })
    }
}
