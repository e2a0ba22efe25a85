//! Copying untracked files into worktrees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use std::os::unix::fs::{PermissionsExt, symlink};
use support::{Lab, odd_names, read, write};
use taskyard_git::copy::copy_files;
use taskyard_git::worktree::{self, Plan};
use taskyard_git::{Error, FilePath, Repo};

async fn trees(lab: &Lab) -> (Repo, Repo) {
    let repo = lab.open(&lab.path("r")).await;
    let plan = Plan { path: lab.path("w"), branch: "w".into() };
    let base = lab.oid(repo.root(), "HEAD").await;
    let ready = worktree::create(&repo, &plan, &base).await.unwrap();
    (repo, lab.open(&ready.path).await)
}

fn patterns(list: &[&str]) -> Vec<String> {
    list.iter().map(|pattern| (*pattern).to_owned()).collect()
}

fn names<'a>(paths: impl IntoIterator<Item = &'a FilePath>) -> Vec<String> {
    paths.into_iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a14_untracked_configuration_is_copied_and_the_rest_is_reported() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    write(&r, ".gitignore", ".env*\n");
    write(&r, "conf", "committed");
    lab.commit(&r, "rules").await;
    write(&r, "conf", "changed here");
    write(&r, ".env", "one");
    write(&r, "sub/.env.local", "two");
    write(&r, "plain", "three");
    std::fs::set_permissions(r.join(".env"), std::fs::Permissions::from_mode(0o600)).unwrap();
    write(&lab.path("outside"), "secret", "s");
    symlink(lab.path("outside/secret"), r.join(".env.link")).unwrap();
    let (repo, tree) = trees(&lab).await;
    let wanted = patterns(&[".env", "**/.env.local", "nothing*", "conf", ".env.link", "plain"]);
    for _ in 0..2 {
        let report = copy_files(&repo, &tree, &wanted).await.unwrap();
        assert_eq!(names(report.copied.iter().map(|file| &file.path)), [".env", "plain", "sub/.env.local"]);
        assert_eq!(report.missing, ["nothing*"]);
        let skipped: Vec<_> = report.skipped.iter().map(|file| (file.path.to_string(), file.reason)).collect();
        let outside = "it is a link to something outside the repository, or to nothing";
        assert_eq!(skipped, [(".env.link".into(), outside), ("conf".into(), "git tracks it")]);
        assert_eq!(names(&report.not_ignored), ["plain"]);
    }
    assert_eq!((read(tree.root(), "conf"), read(tree.root(), "sub/.env.local")), ("committed".into(), "two".into()));
    assert_eq!(tree.root().join(".env").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!tree.root().join(".env.link").is_symlink());
}

#[tokio::test]
async fn folders_and_odd_names_are_copied_and_records_survive_storage() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    for name in odd_names() {
        write(&r, std::path::Path::new("local").join(name), "x");
    }
    let (repo, tree) = trees(&lab).await;
    let report = copy_files(&repo, &tree, &patterns(&["local/"])).await.unwrap();
    assert_eq!(report.copied.len(), odd_names().len());
    assert!(report.copied.iter().all(|file| file.is_unchanged(tree.root())));
    let stored = serde_json::to_string(&report.copied).unwrap();
    let back: Vec<taskyard_git::copy::CopiedFile> = serde_json::from_str(&stored).unwrap();
    assert_eq!(back, report.copied);
}

#[tokio::test]
async fn what_the_worktree_has_is_never_overwritten() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    write(&r, ".env", "users");
    write(&r, "d/.env", "users");
    let (repo, tree) = trees(&lab).await;
    write(tree.root(), ".env", "agents");
    write(&lab.path("elsewhere"), "x", "");
    symlink(lab.path("elsewhere"), tree.root().join("d")).unwrap();
    let report = copy_files(&repo, &tree, &patterns(&["**/.env"])).await.unwrap();
    assert_eq!((report.copied.len(), report.skipped.len()), (0, 2));
    assert_eq!(read(tree.root(), ".env"), "agents");
    assert!(!lab.path("elsewhere/.env").exists());
}

#[tokio::test]
async fn patterns_that_lead_out_or_cannot_be_read_are_refused() {
    let lab = Lab::new();
    lab.repo("r").await;
    let (repo, tree) = trees(&lab).await;
    for bad in ["../x", "a/../../x", "", "/", "[a"] {
        let error = copy_files(&repo, &tree, &patterns(&[bad])).await.unwrap_err();
        assert!(matches!(error, Error::BadPattern { .. }), "{bad}: {error}");
    }
}
