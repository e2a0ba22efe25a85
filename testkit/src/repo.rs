//! Temporary repositories with a git that sees nothing of the machine: own home, own configuration,
//! fixed author and dates. Removed when dropped.

use std::path::{Path, PathBuf};
use taskyard_process::{Command, Environment, run};
use tempfile::TempDir;

/// When everything in a test repository was committed.
pub const DATE: &str = "2026-01-02T03:04:05Z";

/// A repository in a temporary folder.
#[derive(Debug)]
pub struct Repo {
    folder: TempDir,
    env: Environment,
}

/// Git failed where a test needs it to work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file couldn't be made.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Git couldn't be run.
    #[error(transparent)]
    Run(#[from] taskyard_process::Error),
    /// Git said no.
    #[error("git {args} failed: {stderr}")]
    Git {
        /// Its arguments.
        args: String,
        /// What it said.
        stderr: String,
    },
}

impl Repo {
    /// A repository whose branch `main` has one commit with the file `README.md`.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn new() -> Result<Self, Error> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let folder = TempDir::with_prefix("taskyard-repo-").map_err(file(&std::env::temp_dir()))?;
        for name in ["home", "repo", "tmp"] {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).map_err(file(&path))?;
        }
        let config = folder.path().join("gitconfig");
        std::fs::write(&config, "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
            .map_err(file(&config))?;
        let env = environment(folder.path());
        let repo = Self { folder, env };
        repo.git(&["init", "-q", "-b", "main"]).await?;
        repo.write("README.md", "# A repository\n")?;
        repo.commit("First").await?;
        Ok(repo)
    }

    /// The repository's folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// The temporary folder around it, for files beside the repository.
    pub fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// The variables to run git (and agents) with.
    pub fn env(&self) -> &Environment {
        &self.env
    }

    /// Writes a file of the working tree, with its folders.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &str, content: &str) -> Result<(), Error> {
        let path = self.path().join(path);
        let folders = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        folders.and_then(|()| std::fs::write(&path, content)).map_err(|source| Error::File { path, source })
    }

    /// Commits everything; the commit's id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn commit(&self, message: &str) -> Result<String, Error> {
        self.git(&["add", "-A"]).await?;
        self.git(&["commit", "-q", "--allow-empty", "-m", message]).await?;
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// Runs git in the repository; its trimmed output.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn git(&self, args: &[&str]) -> Result<String, Error> {
        self.git_in(&self.path(), args).await
    }

    /// Runs git in any folder with the repository's variables; its trimmed output.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn git_in(&self, folder: &Path, args: &[&str]) -> Result<String, Error> {
        let output = run(Command::new("git", folder, self.env.clone()).args(args)).await?;
        if output.ok() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(Error::Git { args: args.join(" "), stderr: output.stderr_tail() })
    }
}

/// Variables for a git (and an agent) that must not see the machine: `folder` holds its home, its
/// temporary folder and its git configuration.
pub fn environment(folder: &Path) -> Environment {
    let mut env = Environment::default();
    if let Some(path) = std::env::var_os("PATH") {
        env.set("PATH", path);
    }
    for (name, inside) in [("HOME", "home"), ("TMPDIR", "tmp"), ("GIT_CONFIG_GLOBAL", "gitconfig")] {
        env.set(name, folder.join(inside));
    }
    for who in ["AUTHOR", "COMMITTER"] {
        env.set(format!("GIT_{who}_NAME"), "Test");
        env.set(format!("GIT_{who}_EMAIL"), "test@example.invalid");
        env.set(format!("GIT_{who}_DATE"), DATE);
    }
    env.with("GIT_CONFIG_NOSYSTEM", "1").with("GIT_TERMINAL_PROMPT", "0").with("LC_ALL", "C").with("TZ", "UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repositories_are_the_same_every_time() {
        let (one, two) = (Repo::new().await.unwrap(), Repo::new().await.unwrap());
        assert_ne!(one.path(), two.path());
        assert_eq!(one.git(&["rev-parse", "main"]).await.unwrap(), two.git(&["rev-parse", "main"]).await.unwrap());
        assert!(one.git(&["rev-parse", "nothing"]).await.is_err());
    }
}
