//! Temporary repositories for tests: own HOME, own configuration, fixed dates and people.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "shared by several test binaries")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_git::{Git, Identity, Limits, Oid, Repo};
use taskyard_process::{Command, Environment, Output};

/// A folder with a HOME in which git knows nobody's configuration but its own.
pub struct Lab {
    dir: tempfile::TempDir,
    /// The runner under test.
    pub git: Git,
    env: Environment,
}

impl Lab {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("home")).unwrap();
        let config =
            "[user]\n\tname = t\n\temail = t@example.invalid\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n";
        std::fs::write(root.join("home/gitconfig"), config).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let env = Environment::default()
            .with("PATH", path)
            .with("HOME", root.join("home"))
            .with("GIT_CONFIG_GLOBAL", root.join("home/gitconfig"))
            .with("GIT_CONFIG_NOSYSTEM", "1")
            .with("GIT_AUTHOR_DATE", "2024-01-02T03:04:05Z")
            .with("GIT_COMMITTER_DATE", "2024-01-02T03:04:05Z");
        let git = Git::new(env.clone()).with_limits(Limits { call: Duration::from_secs(60), ..Limits::default() });
        Self { dir, git, env }
    }

    /// A path below the lab.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn env(&self) -> Environment {
        self.env.clone()
    }

    /// Adds to the configuration that plays the user's own.
    pub async fn config(&self, key: &str, value: &str) {
        self.git_in(&self.path(""), &["config", "--global", key, value]).await;
    }

    /// A repository with one commit: `a.txt` holding `a`.
    pub async fn repo(&self, name: impl AsRef<Path>) -> PathBuf {
        let at = self.path(name);
        std::fs::create_dir_all(&at).unwrap();
        self.git_in(&at, &["init", "-q"]).await;
        write(&at, "a.txt", "a\n");
        self.commit(&at, "init").await;
        at
    }

    /// Opens it with the runner under test.
    pub async fn open(&self, at: &Path) -> Repo {
        Repo::open(&self.git, at).await.unwrap()
    }

    /// Commits everything, as a person would.
    pub async fn commit(&self, at: &Path, message: &str) -> Oid {
        self.git_in(at, &["add", "-A"]).await;
        self.git_in(at, &["commit", "-q", "--allow-empty", "-m", message]).await;
        self.oid(at, "HEAD").await
    }

    pub async fn oid(&self, at: &Path, rev: &str) -> Oid {
        Oid::parse(&self.git_in(at, &["rev-parse", rev]).await).unwrap()
    }

    /// Plain git, as a person would run it; must succeed. Gives standard output.
    pub async fn git_in<S: AsRef<OsStr>>(&self, at: &Path, args: &[S]) -> String {
        let output = self.try_git(at, args).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.ok(), "git {:?} in {}: {said}", args.iter().map(AsRef::as_ref).collect::<Vec<_>>(), at.display());
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Plain git, whatever it comes to.
    pub async fn try_git<S: AsRef<OsStr>>(&self, at: &Path, args: &[S]) -> Output {
        let args = args.iter().map(|a| a.as_ref().to_owned());
        taskyard_process::run(Command::new("git", at, self.env()).args(args)).await.unwrap()
    }

    /// Everything of a repository that must not change behind the user's back: refs, status, configuration,
    /// worktrees, HEAD, operations in progress and the checkout's files with their contents.
    pub async fn snap(&self, at: &Path) -> Vec<String> {
        let mut seen = vec![
            self.git_in(at, &["for-each-ref"]).await,
            self.git_in(at, &["--no-optional-locks", "status", "--porcelain=v2", "--branch"]).await,
            self.git_in(at, &["config", "--list", "--local"]).await,
            self.git_in(at, &["worktree", "list", "--porcelain"]).await,
            self.git_in(at, &["stash", "list"]).await,
        ];
        let git_dir = PathBuf::from(self.git_in(at, &["rev-parse", "--absolute-git-dir"]).await);
        for name in ["HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"] {
            let state = git_dir.join(name);
            seen.push(format!("{name} {} {:?}", state.exists(), std::fs::read_to_string(&state).ok()));
        }
        seen.extend(files(at));
        seen
    }
}

/// Each file below `at` (git folders left out) with its kind and contents, by name.
pub fn files(at: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if entry.file_name() == ".git" {
                continue;
            }
            if kind.is_symlink() {
                found.push(format!("{path:?} -> {:?}", std::fs::read_link(&path).unwrap()));
            } else if kind.is_dir() {
                folders.push(path);
            } else {
                found.push(format!("{path:?} = {:?}", std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Writes a file, making its folders.
pub fn write(at: &Path, name: impl AsRef<Path>, content: &str) {
    let path = at.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub fn read(at: &Path, name: impl AsRef<Path>) -> String {
    std::fs::read_to_string(at.join(name)).unwrap()
}

/// Writes an executable shell script.
pub fn script(path: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Names that break naive quoting.
pub fn odd_names() -> Vec<PathBuf> {
    let names: [&[u8]; 9] =
        [b"-n", b"a\"b", b"tab\there", b"new\nline", "Auftr\u{e4}ge/\u{e9} x.md".as_bytes(), b"' q'", b"a => b", b"star*", b"\xff.bin"];
    names.iter().map(|n| PathBuf::from(OsStr::from_bytes(n))).collect()
}

/// Whom Taskyard's own commits are by in tests.
pub fn yard() -> Identity {
    Identity { name: "Taskyard".into(), email: "taskyard@example.invalid".into() }
}
