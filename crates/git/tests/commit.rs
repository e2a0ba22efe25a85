//! Committing what an agent left.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{Lab, odd_names, script, write, yard};
use taskyard_domain::repository::{HookPolicy, SignPolicy};
use taskyard_git::commit::{AutoCommit, AutoCommitted, LeftOut, auto_commit};
use taskyard_git::copy::copy_files;
use taskyard_git::record::Author;
use taskyard_git::worktree::{self, Plan};
use taskyard_git::{Error, Git, Limits, Policy, Repo};

struct Work {
    lab: Lab,
    r: PathBuf,
    w: PathBuf,
}

async fn work(name: &str) -> Work {
    let lab = Lab::new();
    let r = lab.repo(name).await;
    let w = tree(&lab, &r).await;
    Work { lab, r, w }
}

async fn tree(lab: &Lab, r: &Path) -> PathBuf {
    let plan = Plan { path: lab.path("trees/w"), branch: "taskyard/w".into() };
    worktree::create(&lab.open(r).await, &plan, &lab.oid(r, "HEAD").await).await.unwrap().path
}

fn author(hooks: HookPolicy, sign: SignPolicy) -> Author {
    Author { who: yard(), policy: Policy { hooks, sign } }
}

impl Work {
    async fn commit_by(&self, git: &Git, author: &Author) -> Result<AutoCommitted, Error> {
        let (project, tree) = (Repo::open(git, &self.r).await?, Repo::open(git, &self.w).await?);
        let scratch = self.lab.path("scratch");
        auto_commit(&project, &tree, &AutoCommit { message: "Left by the agent", author, copied: &[], scratch: &scratch }).await
    }

    async fn commit(&self) -> Result<AutoCommitted, Error> {
        self.commit_by(&self.lab.git, &author(HookPolicy::Run, SignPolicy::Inherit)).await
    }

    async fn status(&self) -> String {
        self.lab.git_in(&self.w, &["status", "--porcelain", "-uall"]).await
    }
}

#[tokio::test]
async fn a13_everything_left_is_committed_once_whatever_its_name() {
    let work = work("mein repo é 'x'").await;
    for name in odd_names() {
        write(&work.w, &name, "new");
    }
    write(&work.w, "a.txt", "changed");
    let before = work.lab.snap(&work.r).await;
    let done = work.commit().await.unwrap();
    let files: BTreeSet<_> = done.files.iter().map(|path| PathBuf::from(path.as_os_str())).collect();
    assert_eq!(files, odd_names().into_iter().chain(["a.txt".into()]).collect());
    assert_eq!(work.status().await, "");
    let shown = work.lab.git_in(&work.w, &["log", "-1", "--format=%an %ae %cn %s"]).await;
    assert_eq!(shown, "Taskyard taskyard@example.invalid Taskyard Left by the agent");
    let again = work.commit().await.unwrap();
    assert_eq!((again.commit, again.files.len()), (None, 0));
    let after = work.lab.snap(&work.r).await;
    assert_eq!(before[1..3], after[1..3], "status and configuration of the user's checkout");
}

#[tokio::test]
async fn deletions_modes_links_and_folders_that_became_links_are_committed() {
    let work = work("r").await;
    write(&work.w, "d/x", "x");
    write(&work.w, "gone", "x");
    write(&work.w, "f", "x");
    work.lab.commit(&work.w, "more").await;
    std::fs::remove_dir_all(work.w.join("d")).unwrap();
    std::fs::remove_file(work.w.join("gone")).unwrap();
    std::fs::remove_file(work.w.join("f")).unwrap();
    symlink("a.txt", work.w.join("d")).unwrap();
    write(&work.w, "f/inside", "x");
    work.commit().await.unwrap();
    assert_eq!(work.status().await, "");
    assert_eq!(work.lab.git_in(&work.w, &["ls-files"]).await, "a.txt\nd\nf/inside");
}

#[tokio::test]
async fn ignored_files_and_repositories_inside_stay_out() {
    let work = work("r").await;
    write(&work.w, ".gitignore", "*.log\n");
    write(&work.w, "x.log", "x");
    write(&work.w, "inner/f", "x");
    work.lab.git_in(&work.w.join("inner"), &["init", "-q"]).await;
    work.lab.commit(&work.w.join("inner"), "inner").await;
    let done = work.commit().await.unwrap();
    assert_eq!(done.files, [".gitignore".into()]);
    assert_eq!(done.left_out, [("inner".into(), LeftOut::EmbeddedRepository)]);
    work.lab.git_in(&work.w, &["add", "inner"]).await;
    assert_eq!(work.commit().await.unwrap().commit, None, "nor when the agent had staged it");
    assert_eq!(work.lab.git_in(&work.w, &["ls-files"]).await, ".gitignore\na.txt");
}

#[tokio::test]
async fn b6_a_link_in_place_of_an_ignored_folder_stays_out() {
    let work = work("r").await;
    write(&work.w, ".gitignore", "node_modules/\n");
    write(&work.w, "pkg/.gitignore", "/target/\n");
    write(&work.w, "pkg/new", "x");
    work.lab.commit(&work.w, "rules").await;
    write(&work.lab.path("shared"), "f", "x");
    for link in ["node_modules", "pkg/node_modules", "pkg/target", "other"] {
        symlink(work.lab.path("shared"), work.w.join(link)).unwrap();
    }
    let done = work.commit().await.unwrap();
    assert_eq!(done.files, ["other".into()]);
    let out: Vec<_> = done.left_out.iter().map(|(path, why)| (path.to_string(), *why)).collect();
    let ignored = |path: &str| (path.to_owned(), LeftOut::IgnoredLink);
    assert_eq!(out, [ignored("node_modules"), ignored("pkg/node_modules"), ignored("pkg/target")]);
}

#[tokio::test]
async fn a14_copied_files_are_never_committed() {
    let work = work("r").await;
    write(&work.r, ".env", "secret");
    let (project, tree) = (work.lab.open(&work.r).await, work.lab.open(&work.w).await);
    let copied = copy_files(&project, &tree, &[".env".into()]).await.unwrap().copied;
    write(&work.w, "b", "b");
    let (author, scratch) = (author(HookPolicy::Run, SignPolicy::Inherit), work.lab.path("scratch"));
    let what = AutoCommit { message: "m", author: &author, copied: &copied, scratch: &scratch };
    for content in ["secret", "changed"] {
        write(&work.w, ".env", content);
        write(&work.w, "b", content);
        work.lab.git_in(&work.w, &["add", "-A"]).await;
        let done = auto_commit(&project, &tree, &what).await.unwrap();
        assert_eq!((done.files, done.left_out), (vec!["b".into()], vec![(".env".into(), LeftOut::CopiedIn)]));
        assert_eq!(work.status().await, "?? .env");
    }
}

#[tokio::test]
async fn b3_a_hook_that_refuses_is_named_with_its_text_and_nothing_is_half_done() {
    let work = work("r").await;
    script(&work.r.join(".git/hooks/pre-commit"), "git add -A; echo 'secret found' >&2; exit 1");
    write(&work.w, "a.txt", "changed");
    write(&work.w, "b.txt", "new");
    let (status, head) = (work.status().await, work.lab.oid(&work.w, "HEAD").await);
    let error = work.commit().await.unwrap_err();
    assert!(matches!(&error, Error::HookFailed { hook, text } if hook == "pre-commit" && text.contains("secret found")), "{error}");
    assert_eq!((work.status().await, work.lab.oid(&work.w, "HEAD").await), (status, head));
    work.commit_by(&work.lab.git, &author(HookPolicy::Skip, SignPolicy::Inherit)).await.unwrap();
    assert_eq!(work.status().await, "");
}

#[tokio::test]
async fn a_hook_that_never_ends_is_ended_and_named() {
    let work = work("r").await;
    script(&work.r.join(".git/hooks/commit-msg"), "sleep 1000");
    write(&work.w, "a.txt", "changed");
    let git = work.lab.git.clone().with_limits(Limits { hooks: Duration::from_millis(500), ..Limits::default() });
    let error = work.commit_by(&git, &author(HookPolicy::Run, SignPolicy::Inherit)).await.unwrap_err();
    assert!(matches!(&error, Error::HookFailed { hook, .. } if hook == "commit-msg"), "{error}");
    assert_eq!(work.status().await, " M a.txt");
}

#[tokio::test]
async fn b4_signing_that_cannot_work_is_said_in_bounded_time() {
    let work = work("r").await;
    script(&work.lab.path("pin"), "sleep 1000");
    work.lab.config("commit.gpgsign", "true").await;
    write(&work.w, "b.txt", "new");
    let git = work.lab.git.clone().with_limits(Limits { signing: Duration::from_millis(500), ..Limits::default() });
    for program in ["/bin/false".to_owned(), work.lab.path("pin").display().to_string()] {
        work.lab.config("gpg.program", &program).await;
        let error = work.commit_by(&git, &author(HookPolicy::Run, SignPolicy::Inherit)).await.unwrap_err();
        assert!(matches!(&error, Error::SigningFailed { .. }) && error.to_string().contains("signing"), "{error}");
        assert_eq!(work.status().await, "?? b.txt");
    }
    let done = work.commit_by(&git, &author(HookPolicy::Run, SignPolicy::Never)).await.unwrap();
    assert!(done.commit.is_some());
}

/// The hook that made repositories of its own and so, under git's own variables, broke the main one.
const FIXTURE_HOOK: &str =
    "d=$(mktemp -d) && cd $d && git init -q . && git config core.bare false && echo x >x && git add x && git commit -qm fixture";

#[tokio::test]
async fn b1_a_hook_sees_nothing_that_redirects_git() {
    let work = work("r").await;
    let seen = work.lab.path("seen");
    script(&work.r.join(".git/hooks/pre-commit"), &format!("env > '{}'; {FIXTURE_HOOK}", seen.display()));
    write(&work.w, "b.txt", "new");
    let done = work.commit().await.unwrap();
    let env = std::fs::read_to_string(&seen).unwrap();
    for name in [
        "GIT_DIR=",
        "GIT_WORK_TREE=",
        "GIT_INDEX_FILE=",
        "GIT_CONFIG_PARAMETERS",
        "GIT_CONFIG_COUNT",
        "GIT_LITERAL",
        "GIT_OPTIONAL",
        "GIT_OBJECT",
        "TASKYARD",
    ] {
        assert!(!env.lines().any(|line| line.starts_with(name)), "{name}: {env}");
    }
    assert_eq!(done.warning, None);
    assert_eq!(work.lab.git_in(&work.w, &["log", "--format=%s"]).await, "Left by the agent\ninit");
    assert_eq!(work.lab.git_in(&work.r, &["config", "core.bare"]).await, "false");
}

#[tokio::test]
async fn b1_core_bare_switched_on_by_a_hook_is_reported_with_the_repair() {
    let work = work("r").await;
    let hook = format!("git --git-dir='{}' config core.bare true", work.r.join(".git").display());
    script(&work.r.join(".git/hooks/pre-commit"), &hook);
    write(&work.w, "b.txt", "new");
    let warning = work.commit().await.unwrap().warning.unwrap();
    assert!(warning.contains("core.bare was switched on") && warning.contains("core.bare false"), "{warning}");
    write(&work.w, "c.txt", "new");
    assert_eq!(work.commit().await.unwrap().warning, None, "it is not this one's doing, and doesn't hinder it");
    work.lab.git_in(&work.r.join(".git"), &["config", "core.bare", "false"]).await;
    script(&work.r.join(".git/hooks/pre-commit"), &format!("{hook}; exit 1"));
    write(&work.w, "d.txt", "new");
    assert!(matches!(work.commit().await, Err(Error::BareSwitchedOn { .. })));
}

#[tokio::test]
async fn an_open_merge_is_not_committed() {
    let work = work("r").await;
    write(&work.w, "a.txt", "mine");
    work.lab.commit(&work.w, "mine").await;
    write(&work.r, "a.txt", "theirs");
    work.lab.commit(&work.r, "theirs").await;
    assert!(!work.lab.try_git(&work.w, &["merge", "main"]).await.ok());
    assert!(matches!(work.commit().await, Err(Error::InProgress { operation: "merge", .. })));
}

#[tokio::test]
async fn an_attempt_that_was_killed_is_taken_up_again() {
    let work = work("r").await;
    write(&work.w, "b.txt", "new");
    let dir = PathBuf::from(work.lab.git_in(&work.w, &["rev-parse", "--absolute-git-dir"]).await);
    // Killed after the commit, before the copy of the index was dropped.
    std::fs::copy(dir.join("index"), dir.join("taskyard-index-before")).unwrap();
    work.lab.commit(&work.w, "made by the killed one").await;
    assert_eq!(work.commit().await.unwrap().commit, None);
    assert_eq!(work.status().await, "");
    assert!(!dir.join("taskyard-index-before").exists());
}

#[tokio::test]
async fn the_locks_that_an_ended_agent_left_are_taken_away() {
    let work = work("r").await;
    let branch = work.lab.git_in(&work.w, &["symbolic-ref", "HEAD"]).await;
    let own = ["worktrees/w/index.lock", "worktrees/w/HEAD.lock", "worktrees/w/next-index-4026.lock"];
    for lock in own.into_iter().chain([format!("{branch}.lock").as_str()]) {
        write(&work.w, "b.txt", lock);
        let lock = work.r.join(".git").join(lock);
        std::fs::write(&lock, "").unwrap();
        assert!(work.commit().await.unwrap().commit.is_some());
        assert!(!lock.exists());
    }
}
