//! Submodules, facts about repositories, scripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use std::path::PathBuf;
use std::time::Duration;
use support::{Lab, read, write, yard};
use taskyard_git::facts::facts;
use taskyard_git::removal::{Removal, remove};
use taskyard_git::script::{Script, run_script};
use taskyard_git::submodule::{SubmoduleReport, fill_submodules};
use taskyard_git::unsaved::{Known, unsaved};
use taskyard_git::worktree::{self, Plan};
use taskyard_git::{Error, Repo};

/// A repository with the submodule `sub`, and a worktree of it.
async fn with_submodule(lab: &Lab) -> (Repo, PathBuf) {
    lab.repo("sub").await;
    let r = lab.repo("r").await;
    lab.git_in(&r, &["submodule", "--quiet", "add", "../sub", "sub"]).await;
    lab.commit(&r, "submodule").await;
    let repo = lab.open(&r).await;
    let plan = Plan { path: lab.path("w"), branch: "w".into() };
    let w = worktree::create(&repo, &plan, &lab.oid(&r, "HEAD").await).await.unwrap().path;
    (repo, w)
}

#[tokio::test]
async fn a8_a_submodule_is_filled_from_the_users_checkout_and_goes_with_the_worktree() {
    let lab = Lab::new();
    let (repo, w) = with_submodule(&lab).await;
    let before = (lab.snap(repo.root()).await, lab.snap(&repo.root().join("sub")).await);
    let tree = lab.open(&w).await;
    for _ in 0..2 {
        let report = fill_submodules(&repo, &tree).await.unwrap();
        assert_eq!(report, SubmoduleReport { filled: vec!["sub".into()], empty: vec![] });
        assert_eq!(read(&w, "sub/a.txt"), "a\n");
    }
    assert_eq!(lab.git_in(&w, &["status", "--porcelain"]).await, "");
    assert_eq!(lab.git_in(&w.join("sub"), &["config", "remote.origin.url"]).await, lab.path("sub").to_str().unwrap());
    assert!(unsaved(&tree, Known::default()).await.unwrap().is_empty());
    remove(&repo, &Removal { path: &w, known: Known::default(), snapshot: None }).await.unwrap();
    assert!(!w.exists());
    lab.git_in(repo.root(), &["branch", "-D", "w"]).await;
    let after = (lab.snap(repo.root()).await, lab.snap(&repo.root().join("sub")).await);
    assert_eq!(after.1, before.1, "the user's submodule");
    assert_eq!(after.0[1..3], before.0[1..3]);
}

#[tokio::test]
async fn a8_a_changed_address_is_not_fetched_from() {
    let lab = Lab::new();
    let (repo, w) = with_submodule(&lab).await;
    lab.repo("evil").await;
    let evil = lab.commit(&lab.path("evil"), "evil").await;
    lab.git_in(&w, &["config", "--file", ".gitmodules", "submodule.sub.url", lab.path("evil").to_str().unwrap()]).await;
    lab.git_in(&w, &["update-index", "--cacheinfo", &format!("160000,{evil},sub")]).await;
    let report = fill_submodules(&repo, &lab.open(&w).await).await.unwrap();
    let note = report.note().unwrap();
    assert!(note.starts_with("submodules are not initialised: sub (the project's own checkout doesn't have its commit"), "{note}");
    assert_eq!(std::fs::read_dir(w.join("sub")).unwrap().count(), 0);
}

#[tokio::test]
async fn a8_a_submodule_that_nobody_has_is_noted() {
    let lab = Lab::new();
    let (repo, _) = with_submodule(&lab).await;
    lab.git_in(repo.root(), &["clone", "-q", ".", "../c"]).await;
    let clone = lab.open(&lab.path("c")).await;
    let plan = Plan { path: lab.path("cw"), branch: "cw".into() };
    worktree::create(&clone, &plan, &lab.oid(clone.root(), "HEAD").await).await.unwrap();
    let report = fill_submodules(&clone, &lab.open(&plan.path).await).await.unwrap();
    assert_eq!(report.note().unwrap(), "submodules are not initialised: sub (the project's own checkout doesn't have it)");
}

#[tokio::test]
async fn submodules_inside_submodules_are_filled_and_their_commits_not_lost() {
    let lab = Lab::new();
    lab.repo("innermost").await;
    let middle = lab.repo("middle").await;
    lab.git_in(&middle, &["submodule", "--quiet", "add", "../innermost", "in ner"]).await;
    lab.commit(&middle, "innermost").await;
    let r = lab.repo("r").await;
    lab.git_in(&r, &["submodule", "--quiet", "add", "../middle", "deep/middle"]).await;
    lab.git_in(&r, &["submodule", "--quiet", "update", "--init", "--recursive"]).await;
    lab.commit(&r, "middle").await;
    let repo = lab.open(&r).await;
    let plan = Plan { path: lab.path("w"), branch: "w".into() };
    let w = worktree::create(&repo, &plan, &lab.oid(&r, "HEAD").await).await.unwrap().path;
    let (tree, inner) = (lab.open(&w).await, w.join("deep/middle/in ner"));
    for _ in 0..2 {
        let report = fill_submodules(&repo, &tree).await.unwrap();
        assert_eq!(report, SubmoduleReport { filled: vec!["deep/middle".into(), "deep/middle/in ner".into()], empty: vec![] });
        assert_eq!(read(&inner, "a.txt"), "a\n");
    }
    assert_eq!(lab.git_in(&w, &["status", "--porcelain"]).await, "");
    assert!(unsaved(&tree, Known::default()).await.unwrap().is_empty());
    // On a branch of its own that nothing outside names.
    lab.git_in(&inner, &["checkout", "-q", "-b", "side"]).await;
    lab.commit(&inner, "work").await;
    lab.git_in(&inner, &["checkout", "-q", "--detach", "HEAD^"]).await;
    let found = unsaved(&tree, Known::default()).await.unwrap();
    assert_eq!((found.inner.len(), found.inner[0].path.to_string()), (1, "deep/middle/in ner".into()));
    // The middle one is there, the innermost one isn't: said by its path from the top.
    let other = lab.path("clone");
    lab.git_in(&lab.path(""), &["clone", "-q", r.to_str().unwrap(), other.to_str().unwrap()]).await;
    lab.git_in(&other, &["submodule", "--quiet", "update", "--init"]).await;
    let clone = lab.open(&other).await;
    let plan = Plan { path: lab.path("w2"), branch: "w2".into() };
    let second = worktree::create(&clone, &plan, &lab.oid(&other, "HEAD").await).await.unwrap().path;
    let report = fill_submodules(&clone, &lab.open(&second).await).await.unwrap();
    let note = report.note().unwrap();
    assert!(note.contains("deep/middle/in ner (the project's own checkout doesn't have it)"), "{note}");
}

#[tokio::test]
async fn a_commit_inside_a_submodule_is_not_lost() {
    let lab = Lab::new();
    let (repo, w) = with_submodule(&lab).await;
    let tree = lab.open(&w).await;
    fill_submodules(&repo, &tree).await.unwrap();
    write(&w, "sub/new", "x");
    let inner = lab.commit(&w.join("sub"), "inside").await;
    lab.commit(&w, "points at it").await;
    let removal = Removal { path: &w, known: Known::default(), snapshot: None };
    let error = remove(&repo, &removal).await.unwrap_err();
    assert!(error.to_string().contains("work inside repositories (sub)"), "{error}");
    remove(&repo, &Removal { snapshot: Some(("s1", &yard())), ..removal }).await.unwrap();
    assert!(lab.git_in(repo.root(), &["rev-list", "refs/taskyard/snapshots/s1"]).await.contains(inner.as_str()));
}

#[tokio::test]
async fn a_submodule_of_a_folder_that_was_lost_comes_back_with_its_commits() {
    let lab = Lab::new();
    let (repo, w) = with_submodule(&lab).await;
    let tree = lab.open(&w).await;
    fill_submodules(&repo, &tree).await.unwrap();
    write(&w, "sub/new", "x");
    let inner = lab.commit(&w.join("sub"), "inside").await;
    std::fs::remove_dir_all(&w).unwrap();
    let plan = Plan { path: w.clone(), branch: "w".into() };
    worktree::attach(&repo, &plan, None).await.unwrap();
    let report = fill_submodules(&repo, &lab.open(&w).await).await.unwrap();
    assert_eq!(report, SubmoduleReport { filled: vec!["sub".into()], empty: vec![] });
    assert_eq!(lab.oid(&w.join("sub"), "HEAD").await.as_str(), inner.as_str());
    assert_eq!(read(&w, "sub/new"), "x");
    // One that was emptied on purpose, with nothing of its own, is filled with what the commit says.
    lab.git_in(&w.join("sub"), &["checkout", "-q", "--detach", "HEAD~1"]).await;
    lab.git_in(&w, &["submodule", "--quiet", "deinit", "-f", "sub"]).await;
    fill_submodules(&repo, &lab.open(&w).await).await.unwrap();
    assert_eq!(lab.git_in(&w, &["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn facts_name_submodules_and_programs_that_are_missing() {
    let lab = Lab::new();
    let (repo, _) = with_submodule(&lab).await;
    write(repo.root(), ".gitattributes", "*.bin filter=lfs diff=lfs -text\n# filter=comment\n");
    write(repo.root(), "deep/down/.gitattributes", "*.x filter=odd\n*.y filter=fine\n");
    lab.commit(repo.root(), "attributes").await;
    lab.config("filter.odd.smudge", "no-such-program --x").await;
    lab.config("filter.odd.required", "true").await;
    lab.config("filter.fine.smudge", "cat").await;
    let facts = facts(&repo).await.unwrap();
    assert!(facts.has_commits && facts.submodules);
    assert_eq!(
        facts.notes,
        [
            "the filter lfs is used but not set up in git's configuration: large files stay pointers",
            "the filter odd needs the program no-such-program, which isn't installed: files can't be checked out",
        ]
    );
    assert_eq!(facts.filters.len(), 3);
}

#[tokio::test]
async fn facts_of_a_repository_without_a_commit() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("r")).unwrap();
    lab.git_in(&lab.path("r"), &["init", "-q"]).await;
    let facts = facts(&lab.open(&lab.path("r")).await).await.unwrap();
    assert_eq!((facts.has_commits, facts.notes.len()), (false, 1));
}

fn script<'a>(lab: &Lab, text: &'a str, log: &'a std::path::Path, folder: &'a std::path::Path) -> Script<'a> {
    let time_limit = Duration::from_secs(30);
    Script { name: "setup", text, folder, env: lab.env().with("GREETING", "hello"), log, log_limit: 1000, time_limit, marker: None }
}

#[tokio::test]
async fn a_script_runs_in_its_folder_with_its_variables_and_is_logged() {
    let lab = Lab::new();
    let (log, folder) = (lab.path("logs/setup.log"), lab.path("home"));
    run_script(&script(&lab, "echo $GREETING; pwd; echo oops >&2; touch made", &log, &folder)).await.unwrap();
    run_script(&script(&lab, "  ", &log, &folder)).await.unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("hello\n") && text.contains(folder.to_str().unwrap()) && text.contains("oops"), "{text}");
    assert!(folder.join("made").exists());
}

#[tokio::test]
async fn a_script_stops_at_its_first_failing_command() {
    let lab = Lab::new();
    let (log, folder) = (lab.path("log"), lab.path("home"));
    let error = run_script(&script(&lab, "echo before\n(exit 3)\ntouch after", &log, &folder)).await.unwrap_err();
    assert_eq!(error.to_string(), "the setup script ended with exit code 3: before");
    assert!(!folder.join("after").exists());
}

#[tokio::test]
async fn a_script_is_bounded_in_time_and_output() {
    let lab = Lab::new();
    let (log, folder) = (lab.path("log"), lab.path("home"));
    let slow = Script { time_limit: Duration::from_millis(300), ..script(&lab, "echo waiting; sleep 1000", &log, &folder) };
    assert!(matches!(run_script(&slow).await, Err(Error::TimedOut { stderr, .. }) if stderr == "waiting"));
    let log = lab.path("big");
    run_script(&script(&lab, "head -c 5000000 /dev/zero", &log, &folder)).await.unwrap();
    assert!(std::fs::metadata(&log).unwrap().len() < 1100);
}

#[tokio::test]
async fn what_a_script_leaves_in_the_background_ends_with_it() {
    let lab = Lab::new();
    let (log, folder) = (lab.path("log"), lab.path("home"));
    run_script(&script(&lab, "sleep 1000 & echo $! > pid", &log, &folder)).await.unwrap();
    let pid: i32 = read(&folder, "pid").trim().parse().unwrap();
    let gone = async {
        while taskyard_process::tree::start_time(pid).is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the process is still there");
}
