//! Making worktrees, finding them made, and isolation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use std::path::{Path, PathBuf};
use support::{Lab, files, odd_names, read, script, write};
use taskyard_git::worktree::{self, Plan, Wanted};
use taskyard_git::{Error, Repo, isolation, refs};

fn wanted(root: &Path) -> Wanted<'_> {
    Wanted { root, prefix: "taskyard", name: "ty-1-fix" }
}

async fn planned(lab: &Lab, repo: &Repo) -> Plan {
    worktree::plan(repo, &wanted(&lab.path("trees"))).await.unwrap()
}

async fn branches(lab: &Lab, at: &Path) -> String {
    lab.git_in(at, &["for-each-ref", "--format=%(refname)", "refs/heads"]).await
}

/// A server that was killed while git made the branch leaves it locked.
#[tokio::test]
async fn a_branch_that_a_dead_git_left_locked_is_made_all_the_same() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let base = lab.oid(&r, "HEAD").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let lock = r.join(format!(".git/refs/heads/{}.lock", plan.branch));
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(&lock, "").unwrap();
    assert_eq!(worktree::create(&repo, &plan, &base).await.unwrap().head, base);
    assert!(!lock.exists());
}

/// An agent that was killed while its git deleted a ref leaves all packed refs locked.
#[tokio::test]
async fn packed_refs_that_a_dead_git_left_locked_keep_no_ref_of_ours() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let base = lab.oid(&r, "HEAD").await;
    let repo = lab.open(&r).await;
    taskyard_git::record::protect(&repo, "one", &base).await.unwrap();
    let lock = r.join(".git/packed-refs.lock");
    let file = std::fs::File::create(&lock).unwrap();
    // Older than any git that runs while tests do.
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(7 * 24 * 3600)).unwrap();
    taskyard_git::record::release(&repo, "one").await.unwrap();
    assert!(!lock.exists());
    assert_eq!(lab.git_in(&r, &["for-each-ref", "refs/taskyard"]).await, "");
}

#[tokio::test]
async fn a_worktree_is_made_once_and_found_again() {
    let lab = Lab::new();
    let r = lab.repo("mein repo é 'x'").await;
    for name in odd_names() {
        write(&r, &name, "x");
    }
    let base = lab.commit(&r, "odd").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    assert_eq!((&*plan.path, &*plan.branch), (&*lab.path("trees/ty-1-fix"), "taskyard/ty-1-fix"));
    let first = worktree::create(&repo, &plan, &base).await.unwrap();
    let again = worktree::create(&repo, &plan, &base).await.unwrap();
    assert_eq!((first.existed, again.existed, first.head), (false, true, base));
    let names = |at: &Path| files(at).iter().map(|f| f.replace(&format!("{at:?}").trim_matches('"').to_owned(), "")).collect::<Vec<_>>();
    assert_eq!(names(&plan.path), names(&r));
    assert_eq!(lab.try_git(&plan.path, &["rev-parse", "@{upstream}"]).await.code, Some(128), "no upstream is set");
    assert_eq!(lab.git_in(&plan.path, &["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a1_a_foreign_folder_at_the_path_is_left_alone() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let first = planned(&lab, &repo).await;
    write(&first.path, "mine", "keep");
    let base = lab.oid(&r, "main").await;
    assert!(matches!(worktree::create(&repo, &first, &base).await, Err(Error::PathTaken { .. })));
    assert_eq!(branches(&lab, &r).await, "refs/heads/main");
    let second = planned(&lab, &repo).await;
    assert_eq!((&*second.path, &*second.branch), (&*lab.path("trees/ty-1-fix-2"), "taskyard/ty-1-fix-2"));
    worktree::create(&repo, &second, &base).await.unwrap();
    assert_eq!(read(&first.path, "mine"), "keep");
}

#[tokio::test]
async fn a2_a_branch_named_like_the_prefix_gives_another_name() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["branch", "taskyard"]).await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    assert_eq!(plan.branch, "taskyard-ty-1-fix");
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
}

#[tokio::test]
async fn a2_a_branch_below_the_wanted_name_gives_another_name() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let wanted = planned(&lab, &repo).await.branch;
    lab.git_in(&r, &["branch", &format!("{wanted}/x")]).await;
    let plan = planned(&lab, &repo).await;
    assert_ne!(plan.branch, wanted);
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
}

#[tokio::test]
async fn a2_a_ref_that_comes_in_the_way_is_named_and_nothing_is_left() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    lab.git_in(&r, &["branch", "taskyard"]).await;
    let before = lab.snap(&r).await;
    let error = worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap_err();
    assert!(matches!(&error, Error::RefInTheWay { existing, .. } if existing == "refs/heads/taskyard"), "{error}");
    assert_eq!(lab.snap(&r).await, before);
    assert!(!plan.path.exists());
}

#[tokio::test]
async fn a_checkout_that_fails_leaves_nothing() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    write(&r, ".gitattributes", "*.bin filter=gone\n");
    write(&r, "x.bin", "x");
    let base = lab.commit(&r, "filtered").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let before = lab.snap(&r).await;
    lab.config("filter.gone.smudge", "no-such-program-anywhere").await;
    lab.config("filter.gone.required", "true").await;
    let error = worktree::create(&repo, &plan, &base).await.unwrap_err();
    lab.config("filter.gone.required", "false").await;
    assert!(error.to_string().contains("gone"), "{error}");
    assert_eq!(lab.snap(&r).await, before);
    assert!(!plan.path.exists() && std::fs::read_dir(r.join(".git/worktrees")).map_or(0, Iterator::count) == 0);
}

#[tokio::test]
async fn a_branch_checked_out_elsewhere_is_named_with_its_tree() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = Plan { path: lab.path("trees/x"), branch: "main".into() };
    let error = worktree::attach(&repo, &plan, None).await.unwrap_err();
    assert!(matches!(&error, Error::BranchInUse { path, .. } if *path == r), "{error}");
    assert!(!plan.path.exists());
}

#[tokio::test]
async fn a7_a_linked_worktree_and_a_bare_repository_can_be_the_project() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["worktree", "add", "-q", "-b", "dev", "../wdev"]).await;
    lab.git_in(&r, &["clone", "-q", "--bare", ".", "../b.git"]).await;
    for (project, root) in [("wdev", "t1"), ("b.git", "t2")] {
        let repo = lab.open(&lab.path(project)).await;
        let base = repo.base(None, None).await.unwrap();
        let plan = worktree::plan(&repo, &wanted(&lab.path(root))).await.unwrap();
        let ready = worktree::create(&repo, &plan, &base.oid).await.unwrap();
        isolation::verify(&repo, &ready.path, Some(&plan.branch)).await.unwrap();
        assert_eq!(base.branch.as_deref(), Some(if project == "wdev" { "dev" } else { "main" }));
    }
}

#[tokio::test]
async fn a11_eight_at_once_from_a_remote_tracking_branch_with_the_configuration_locked() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["clone", "-q", ".", "../c"]).await;
    let repo = lab.open(&lab.path("c")).await;
    let base = repo.base(Some("origin/main"), None).await.unwrap();
    let lock = lab.path("c/.git/config.lock");
    std::fs::write(&lock, "").unwrap();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (repo, base, root) = (repo.clone(), base.oid.clone(), lab.path("trees"));
        all.spawn(async move {
            let name = format!("ty-{n}-x");
            let plan = worktree::plan(&repo, &Wanted { root: &root, prefix: "taskyard", name: &name }).await?;
            worktree::create(&repo, &plan, &base).await
        });
    }
    let made = all.join_all().await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(made.len(), 8);
    assert_eq!(worktree::list(&repo).await.unwrap().len(), 9);
    assert_eq!(branches(&lab, repo.root()).await.lines().count(), 9);
}

#[tokio::test]
async fn a12_a_folder_that_is_no_worktree_of_ours_is_caught() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let base = lab.oid(&r, "main").await;
    let plan = worktree::plan(&repo, &wanted(&r.join("trees"))).await.unwrap();
    worktree::create(&repo, &plan, &base).await.unwrap();
    let (path, aside) = (plan.path.clone(), lab.path("aside"));
    let reason = async |branch: &str| match isolation::verify(&repo, &path, Some(branch)).await {
        Ok(()) => "fine".to_owned(),
        Err(Error::Isolation { reason, .. }) => reason,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(reason(&plan.branch).await, "fine");
    assert!(reason("main").await.contains("it is on branch taskyard/ty-1-fix, not main"));

    std::fs::rename(&path, &aside).unwrap();
    assert!(reason(&plan.branch).await.contains("can't be looked at"));
    std::fs::create_dir(&path).unwrap();
    assert!(reason(&plan.branch).await.contains("no .git file"), "an empty folder inside the main repository");
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink(&r, &path).unwrap();
    assert!(reason(&plan.branch).await.contains("link to another folder"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join(".git"), format!("gitdir: {}\n", r.join(".git").display())).unwrap();
    assert!(reason(&plan.branch).await.contains("is not a worktree of"));
    std::fs::remove_dir_all(&path).unwrap();

    let other = lab.open(&lab.repo("other").await).await;
    let foreign = Plan { path: path.clone(), branch: "x".into() };
    worktree::create(&other, &foreign, &lab.oid(other.root(), "main").await).await.unwrap();
    assert!(reason("x").await.contains("is not a worktree of"), "a worktree of another repository");
}

#[tokio::test]
async fn a12_the_copy_of_a_worktree_is_not_the_worktree() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
    let copy = lab.path("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(plan.path.join(".git"), copy.join(".git")).unwrap();
    assert!(matches!(isolation::verify(&repo, &copy, None).await, Err(Error::Isolation { .. })));
}

/// What a server killed inside `worktree add` leaves: a branch, a registration, a part of the files.
async fn half_made(lab: &Lab, r: &Path, plan: &Plan) {
    lab.git_in(r, &["worktree", "add", "-q", "--no-checkout", "-b", &plan.branch, plan.path.to_str().unwrap()]).await;
    write(&plan.path, "half", "x");
}

#[tokio::test]
async fn a_half_made_worktree_is_made_anew() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    half_made(&lab, &r, &plan).await;
    let below = worktree::below(&repo, &lab.path("trees")).await.unwrap();
    assert_eq!(below.iter().map(|(tree, finished)| (&*tree.path, *finished)).collect::<Vec<_>>(), [(&*plan.path, false)]);
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
    assert_eq!(files(&plan.path), [format!("{:?} = {:?}", plan.path.join("a.txt"), b"a\n")]);
    assert!(worktree::below(&repo, &lab.path("trees")).await.unwrap()[0].1);
    assert_eq!(worktree::list(&repo).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_half_made_worktree_is_cleared_and_a_finished_one_is_not() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let before = lab.snap(&r).await;
    half_made(&lab, &r, &plan).await;
    for _ in 0..2 {
        worktree::discard_half_made(&repo, &plan).await.unwrap();
        assert_eq!(lab.snap(&r).await, before);
        assert!(!plan.path.exists());
    }
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
    assert!(matches!(worktree::discard_half_made(&repo, &plan).await, Err(Error::Unsaved { .. })));
    assert!(plan.path.join("a.txt").exists());
}

#[tokio::test]
async fn a_branch_left_without_its_worktree_is_taken_up() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let base = lab.oid(&r, "main").await;
    lab.git_in(&r, &["branch", &plan.branch]).await;
    worktree::create(&repo, &plan, &base).await.unwrap();
    let other = Plan { path: lab.path("trees/other"), branch: "mine".into() };
    lab.git_in(&r, &["branch", "mine"]).await;
    let next = lab.commit(&r, "next").await;
    assert!(matches!(worktree::create(&repo, &other, &next).await, Err(Error::BranchTaken { .. })));
    assert!(!other.path.exists());
}

#[tokio::test]
async fn a_folder_that_somebody_replaced_stays_and_the_work_goes_to_another_place() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let (repo, base) = (lab.open(&r).await, lab.oid(&r, "HEAD").await);
    let plan = planned(&lab, &repo).await;
    worktree::create(&repo, &plan, &base).await.unwrap();
    write(&plan.path, "b.txt", "b\n");
    let tip = lab.commit(&plan.path, "work").await;
    write(&plan.path, "a.txt", "staged\n");
    lab.git_in(&plan.path, &["add", "-A"]).await;
    std::fs::remove_dir_all(&plan.path).unwrap();
    // A repository of somebody's own, and then plain files.
    lab.repo("trees/ty-1-fix").await;
    for _ in 0..2 {
        let before = files(&plan.path);
        assert!(matches!(worktree::attach(&repo, &plan, None).await, Err(Error::PathTaken { .. })));
        assert_eq!(files(&plan.path), before);
        let _ = std::fs::remove_dir_all(plan.path.join(".git"));
    }
    let moved = Plan { path: worktree::free_path(&repo, &lab.path("trees"), "ty-1-fix").await.unwrap(), branch: plan.branch.clone() };
    let ready = worktree::attach(&repo, &moved, None).await.unwrap();
    assert_eq!((ready.head, lab.git_in(&moved.path, &["status", "--porcelain"]).await), (tip, "M  a.txt".into()));
    assert_eq!((read(&moved.path, "a.txt"), read(&plan.path, "a.txt")), ("staged\n".into(), "a\n".into()));
    assert_eq!(worktree::list(&repo).await.unwrap().len(), 2);
    assert!(worktree::attach(&repo, &moved, None).await.unwrap().existed);
    // An empty folder in its place is in nobody's way.
    std::fs::remove_dir_all(&moved.path).unwrap();
    std::fs::create_dir(&moved.path).unwrap();
    assert_eq!(worktree::attach(&repo, &moved, None).await.unwrap().path, moved.path);
    assert_eq!(read(&moved.path, "a.txt"), "staged\n");
}

#[tokio::test]
async fn a_filter_whose_program_is_missing_is_named_with_the_file() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    write(&r, ".gitattributes", "*.bin filter=heavy\n");
    write(&r, "some data.bin", "x\n");
    let base = lab.commit(&r, "data").await;
    for (name, value) in [("clean", "no-such-program"), ("smudge", "no-such-program"), ("required", "true")] {
        lab.git_in(&r, &["config", &format!("filter.heavy.{name}"), value]).await;
    }
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let error = worktree::create(&repo, &plan, &base).await.unwrap_err();
    let Error::FilterFailed { filter, file, text } = &error else { panic!("{error}") };
    assert_eq!((&**filter, &**file), ("heavy", "some data.bin"));
    assert!(text.contains("no-such-program"), "{text}");
    assert!(!plan.path.exists() && branches(&lab, &r).await == "refs/heads/main");
    assert_eq!(worktree::list(&repo).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_folder_is_restored_with_its_commits_and_staged_changes() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let base = lab.oid(&r, "main").await;
    worktree::create(&repo, &plan, &base).await.unwrap();
    write(&plan.path, "b.txt", "committed");
    let tip = lab.commit(&plan.path, "work").await;
    write(&plan.path, "c.txt", "staged");
    lab.git_in(&plan.path, &["add", "c.txt"]).await;
    std::fs::remove_dir_all(&plan.path).unwrap();
    for _ in 0..2 {
        let ready = worktree::attach(&repo, &plan, None).await.unwrap();
        assert_eq!(ready.head, tip);
        assert_eq!(lab.git_in(&plan.path, &["status", "--porcelain"]).await, "A  c.txt");
        assert_eq!(read(&plan.path, "c.txt"), "staged");
    }
}

#[tokio::test]
async fn a_worktree_is_rebuilt_from_its_branch_or_from_a_kept_tip() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    let tip = lab.commit(&r, "tip").await;
    assert!(matches!(worktree::attach(&repo, &plan, None).await, Err(Error::NotFound { .. })));
    refs::keep_tip(&repo, "refs/taskyard/tasks/t/1", &tip).await.unwrap();
    refs::keep_tip(&repo, "refs/taskyard/tasks/t/1", &tip).await.unwrap();
    lab.git_in(&r, &["reset", "-q", "--hard", "HEAD~1"]).await;
    let ready = worktree::attach(&repo, &plan, Some(&tip)).await.unwrap();
    assert_eq!((ready.head, ready.existed), (tip, false));
}

#[tokio::test]
async fn hooks_do_not_run_while_a_worktree_is_made() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    script(&r.join(".git/hooks/post-checkout"), "touch hook-ran; exit 1");
    let repo = lab.open(&r).await;
    let plan = planned(&lab, &repo).await;
    worktree::create(&repo, &plan, &lab.oid(&r, "main").await).await.unwrap();
    assert!(!plan.path.join("hook-ran").exists());
}

#[tokio::test]
async fn a_branch_goes_only_when_another_ref_reaches_its_tip() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let base = lab.oid(&r, "main").await;
    lab.git_in(&r, &["branch", "same"]).await;
    assert_eq!(refs::delete_branch_if_reached(&repo, "same").await.unwrap(), refs::Deleted::Yes { tip: base });
    assert_eq!(refs::delete_branch_if_reached(&repo, "same").await.unwrap(), refs::Deleted::Absent);
    lab.git_in(&r, &["checkout", "-q", "-b", "own"]).await;
    let tip = lab.commit(&r, "own").await;
    let at: PathBuf = r.clone();
    assert_eq!(refs::delete_branch_if_reached(&repo, "own").await.unwrap(), refs::Deleted::CheckedOut { path: at });
    lab.git_in(&r, &["checkout", "-q", "main"]).await;
    assert_eq!(refs::delete_branch_if_reached(&repo, "own").await.unwrap(), refs::Deleted::OnlyReach { tip: tip.clone() });
    refs::keep_tip(&repo, "refs/taskyard/tasks/t/1", &tip).await.unwrap();
    assert_eq!(refs::delete_branch_if_reached(&repo, "own").await.unwrap(), refs::Deleted::Yes { tip });
}
