//! Repositories made for measuring, and bare git beside Taskyard's.

use crate::place::Place;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Files in one folder of a made repository.
const PER_FOLDER: usize = 100;

/// A repository with `main` checked out.
pub struct Repo {
    folder: TempDir,
    env: Vec<(OsString, OsString)>,
}

impl Repo {
    /// With this many small files in one commit.
    ///
    /// # Errors
    /// When git fails.
    pub async fn new(place: &Place, files: usize) -> Result<Self> {
        let folder = place.folder("repo")?;
        let env = crate::process::environment(folder.path())?;
        let repo = Self { folder, env };
        std::fs::create_dir(repo.path())?;
        repo.git(&["init", "-q", "-b", "main"]).await?;
        let mut stream = String::from("commit refs/heads/main\ncommitter Bench <bench@example.invalid> 1767323045 +0000\ndata 5\nFirst\n");
        for number in 0..files {
            let text = content(number, 0);
            let _ = write!(stream, "M 100644 inline {}\ndata {}\n{text}\n", file(number), text.len());
        }
        repo.feed(&["fast-import", "--quiet"], stream.as_bytes()).await?;
        repo.git(&["reset", "-q", "--hard"]).await?;
        Ok(repo)
    }

    /// Its folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// A path beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs git in the repository; its trimmed output.
    ///
    /// # Errors
    /// When it fails.
    pub async fn git(&self, args: &[&str]) -> Result<String> {
        self.git_in(&self.path(), args).await
    }

    /// Runs git in any folder.
    ///
    /// # Errors
    /// When it fails.
    pub async fn git_in(&self, folder: &Path, args: &[&str]) -> Result<String> {
        let output = self.command(folder, args).stdin(Stdio::null()).output().await?;
        if !output.status.success() {
            bail!("git {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    async fn feed(&self, args: &[&str], input: &[u8]) -> Result<()> {
        let mut child = self.command(&self.path(), args).stdin(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no pipe")?;
        stdin.write_all(input).await?;
        drop(stdin);
        if !child.wait().await?.success() {
            bail!("git {} failed", args.join(" "));
        }
        Ok(())
    }

    fn command(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(args).current_dir(folder).env_clear().envs(self.env.iter().cloned()).kill_on_drop(true);
        command
    }

    /// The variables that git is run with.
    pub fn env(&self) -> &[(OsString, OsString)] {
        &self.env
    }
}

/// The path of the file with this number.
pub fn file(number: usize) -> String {
    format!("src/part{}/file{number}.txt", number / PER_FOLDER)
}

/// Its content in this version.
pub fn content(number: usize, version: usize) -> String {
    (0..20).map(|line| format!("file {number} line {line} version {}\n", if line == 10 { version } else { 0 })).collect()
}
