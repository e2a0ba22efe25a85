//! Projects of every odd kind beside the yard's own, and a picture of all that Taskyard must leave alone in them.

use crate::support::{Task, Yard, eventually};
use serde_json::{Value, json};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A repository with a list of its own.
pub struct Project<'y> {
    /// The stage it is on.
    pub yard: &'y Yard,
    /// The user's checkout.
    pub path: PathBuf,
    /// Its list.
    pub list: String,
}

impl<'y> Project<'y> {
    /// The yard's own repository, with the file `a.txt` besides.
    pub async fn own(yard: &'y Yard) -> Self {
        let own = Self { yard, path: yard.repo.path(), list: yard.list.clone() };
        own.write("a.txt", "a\n");
        own.commit("a.txt").await;
        own
    }

    /// A new repository `name` whose branch `main` has `a.txt`.
    pub async fn new(yard: &'y Yard, name: &str) -> Self {
        let path = repository(yard, name).await;
        Self::at(yard, path).await
    }

    /// A list for the repository at `path`.
    pub async fn at(yard: &'y Yard, path: PathBuf) -> Self {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let made = yard.server.call("create_list", json!({ "name": name, "local_path": path })).await;
        Self { yard, path, list: made["list_id"].as_str().unwrap().into() }
    }

    /// Runs git in the checkout; its trimmed output.
    pub async fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.path, args).await
    }

    /// Runs git in any folder; its trimmed output.
    pub async fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        self.yard.repo.git_in(folder, args).await.unwrap()
    }

    /// Writes a file of the checkout, with its folders.
    pub fn write(&self, file: &str, text: &str) {
        put(&self.path.join(file), text);
    }

    /// Reads a file of the checkout; `None` when there is none.
    pub fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(file)).ok()
    }

    /// Commits everything in the checkout; the commit.
    pub async fn commit(&self, message: &str) -> String {
        commit_all(self.yard, &self.path, message).await
    }

    /// Installs a hook.
    pub fn hook(&self, name: &str, script: &str) {
        program(&self.path.join(".git/hooks").join(name), script);
    }

    /// Changes the repository's settings.
    pub async fn set(&self, mut changes: Value) {
        let known = self.yard.server.call("get_list_config", json!({ "list_id": self.list })).await;
        changes["repository_id"] = known["effective"]["repository_id"]["value"].clone();
        self.yard.server.call("repository_update", changes).await;
    }

    /// Adds and queues a task.
    pub async fn queue(&self, title: &str, steps: Value) -> Task {
        self.yard.add(title, steps, json!({ "list_id": self.list, "queue": true })).await
    }

    /// The same, and waits until its work can be reviewed.
    pub async fn work(&self, title: &str, steps: Value) -> Task {
        let task = self.queue(title, steps).await;
        self.yard.reviewable(&task).await;
        task
    }

    /// Sends a task's session on with `steps`, and waits until that can be reviewed.
    pub async fn go_on(&self, task: &str, steps: Value) {
        let prompt = crate::support::prompt("Go on.", steps);
        self.yard.server.call("continue_task", json!({ "task_id": task, "prompt": prompt })).await;
        self.yard.reviewable(task).await;
    }

    /// Approves; panics with the error.
    pub async fn approve(&self, task: &str) -> Value {
        self.yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await
    }

    /// Approves what has to be refused with class `code`; gives the error.
    pub async fn refused(&self, task: &str, code: &str) -> Value {
        self.yard.server.refused("review_task", json!({ "task_id": task, "decision": "approve" }), code).await
    }

    /// Waits until a merged task's folder and branch are gone.
    pub async fn tidied(&self, task: &str) {
        let worktree = self.yard.get(task).await["worktree"].clone();
        let branch = format!("refs/heads/{}", worktree["branch"].as_str().unwrap());
        eventually(&format!("{branch} to be tidied away"), async || {
            let gone = self.yard.get(task).await["worktree"]["has_folder"] == false;
            (gone && self.git(&["for-each-ref", &branch]).await.is_empty()).then_some(())
        })
        .await;
    }

    /// Everything of the checkout that nobody but its user may change: refs, status, configuration, worktrees, files,
    /// and every trace of an operation in progress.
    pub async fn picture(&self) -> String {
        let mut picture = String::new();
        for args in [
            &["for-each-ref"][..],
            &["stash", "list"],
            &["status", "--porcelain=v2", "--branch", "--untracked-files=all"],
            &["config", "--list", "--local"],
            &["worktree", "list", "--porcelain"],
        ] {
            writeln!(picture, "{}", self.git(args).await).unwrap();
        }
        let mut files = Vec::new();
        walk(&self.path, &mut files);
        files.sort();
        for file in files {
            let content = if file.is_symlink() {
                std::fs::read_link(&file).unwrap().into_os_string().into_encoded_bytes()
            } else {
                std::fs::read(&file).unwrap()
            };
            writeln!(picture, "{}: {}", file.display(), String::from_utf8_lossy(&content)).unwrap();
        }
        let git_dir = self.git(&["rev-parse", "--absolute-git-dir"]).await;
        for trace in
            ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE", "rebase-merge", "rebase-apply", "sequencer", "index.lock"]
        {
            writeln!(picture, "{trace}: {}", Path::new(&git_dir).join(trace).exists()).unwrap();
        }
        picture
    }

    /// Waits until the registered worktrees are those at `expected` and nothing of ours is half-made.
    pub async fn trees(&self) -> Vec<PathBuf> {
        let list = self.git(&["worktree", "list", "--porcelain"]).await;
        list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from).collect()
    }
}

/// A repository `name` beside the yard's own, whose branch `main` has `a.txt`; no list.
pub async fn repository(yard: &Yard, name: &str) -> PathBuf {
    let path = yard.repo.outside().join(name);
    std::fs::create_dir_all(&path).unwrap();
    yard.repo.git_in(&path, &["init", "-q", "-b", "main"]).await.unwrap();
    put(&path.join("a.txt"), "a\n");
    commit_all(yard, &path, "First").await;
    path
}

/// Commits everything in `folder`; the commit.
pub async fn commit_all(yard: &Yard, folder: &Path, message: &str) -> String {
    yard.repo.git_in(folder, &["add", "-A"]).await.unwrap();
    yard.repo.git_in(folder, &["commit", "-q", "--allow-empty", "-m", message]).await.unwrap();
    yard.repo.git_in(folder, &["rev-parse", "HEAD"]).await.unwrap()
}

/// Writes a file with its folders.
pub fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes a shell script that can be run.
pub fn program(path: &Path, script: &str) {
    put(path, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A step that writes `file`.
pub fn write(file: &str, text: &str) -> Value {
    json!({ "write": { "path": file, "content": text } })
}

/// Steps that write `file` and commit it.
pub fn committed(file: &str, text: &str) -> Value {
    json!([write(file, text), { "commit": format!("Write {file}") }])
}

/// The text of an error, for looking into it.
pub fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            if path.file_name().unwrap() != ".git" {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}
