//! Opening repositories and finding bases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use support::{Lab, write};
use taskyard_git::repo::{BaseSource, Head};
use taskyard_git::{Error, Git, Repo};

#[tokio::test]
async fn a_repository_opens_from_a_checkout_a_linked_worktree_and_bare() {
    let lab = Lab::new();
    let r = lab.repo("mein repo é 'x'\n").await;
    write(&r, "sub/dir/x", "");
    lab.git_in(&r, &["worktree", "add", "-q", "-b", "w", "../w"]).await;
    lab.git_in(&r, &["clone", "-q", "--bare", ".", "../b.git"]).await;
    let main = lab.open(&r.join("sub/dir")).await;
    assert_eq!((main.root(), main.common_dir(), main.is_linked(), main.is_bare()), (&*r, &*r.join(".git"), false, false));
    let linked = lab.open(&lab.path("w")).await;
    assert_eq!((linked.root(), linked.common_dir(), linked.is_linked()), (&*lab.path("w"), &*r.join(".git"), true));
    let bare = lab.open(&lab.path("b.git")).await;
    assert_eq!((bare.root(), bare.is_bare()), (&*lab.path("b.git"), true));
    let names: Vec<_> = main.branches().await.unwrap().into_iter().map(|b| (b.name, b.checked_out_at)).collect();
    assert_eq!(names, [("main".into(), Some(r.clone())), ("w".into(), Some(lab.path("w")))]);
}

#[tokio::test]
async fn a_folder_outside_any_repository_is_said_to_be_one() {
    let lab = Lab::new();
    assert!(matches!(Repo::open(&lab.git, &lab.path("home")).await, Err(Error::NotARepository { .. })));
    assert!(matches!(Repo::open(&lab.git, &lab.path("nowhere")).await, Err(Error::NoFolder { .. })));
}

#[tokio::test]
async fn a3_a_repository_without_a_commit_is_named_as_such() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("r")).unwrap();
    lab.git_in(&lab.path("r"), &["init", "-q"]).await;
    write(&lab.path("r"), "f", "x");
    let repo = lab.open(&lab.path("r")).await;
    assert_eq!(repo.head().await.unwrap(), Head::Unborn { branch: "main".into() });
    for (named, default) in [(None, None), (Some("main"), None), (None, Some("main"))] {
        let error = repo.base(named, default).await.unwrap_err();
        assert!(matches!(error, Error::NoCommit { .. }), "{error}");
        assert!(error.to_string().contains("make a first commit"));
    }
}

#[tokio::test]
async fn a4_a_detached_head_needs_a_named_base() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["branch", "other"]).await;
    lab.git_in(&r, &["checkout", "-q", "--detach"]).await;
    lab.git_in(&r, &["branch", "-D", "main"]).await;
    let repo = lab.open(&r).await;
    let error = repo.base(None, None).await.unwrap_err();
    assert!(matches!(&error, Error::DetachedNoBase { branches, .. } if branches == &["other"]), "{error}");
    assert!(error.to_string().contains("name a base or check out a branch"));
    let named = repo.base(Some("other"), None).await.unwrap();
    assert_eq!((named.branch.as_deref(), named.source), (Some("other"), BaseSource::Named));
    assert!(repo.base(Some("HEAD"), None).await.unwrap().branch.is_none());
    assert!(matches!(repo.base(Some("nope"), None).await, Err(Error::NotFound { .. })));
    assert!(
        matches!(repo.base(None, Some("main")).await, Err(Error::NotFound { .. })),
        "a default branch that is gone isn't replaced by a guess"
    );
}

#[tokio::test]
async fn a_remote_tracking_branch_is_a_base() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["clone", "-q", ".", "../c"]).await;
    let repo = lab.open(&lab.path("c")).await;
    let base = repo.base(Some("origin/main"), None).await.unwrap();
    assert_eq!((base.branch, base.oid), (None, lab.oid(&r, "main").await));
}

#[tokio::test]
async fn b1_core_bare_switched_on_is_reported_with_the_repair() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["worktree", "add", "-q", "-b", "w", "../w"]).await;
    lab.git_in(&r, &["config", "core.bare", "true"]).await;
    for at in [r.clone(), lab.path("w")] {
        let repo = lab.open(&at).await;
        assert_eq!(repo.root(), at);
        assert_eq!(repo.branches().await.unwrap().len(), 2);
        let error = repo.check_not_switched_bare().unwrap_err().to_string();
        assert!(error.contains("core.bare was switched on") && error.contains("config core.bare false"), "{error}");
    }
    lab.git_in(&r.join(".git"), &["config", "core.bare", "false"]).await;
    assert!(lab.open(&r).await.check_not_switched_bare().is_ok());
}

#[tokio::test]
async fn b1_variables_that_redirect_git_do_not_reach_it() {
    let lab = Lab::new();
    let (r, other) = (lab.repo("r").await, lab.repo("other").await);
    let leaky = lab.env().iter().map(|(n, v)| (n.clone(), v.clone())).collect::<Vec<_>>();
    let leaks = [("GIT_DIR", other.join(".git")), ("GIT_WORK_TREE", other.clone()), ("GIT_INDEX_FILE", other.join(".git/index"))];
    let vars = leaky.into_iter().chain(leaks.into_iter().map(|(n, v)| (n.into(), v.into())));
    let git = Git::new(taskyard_process::Environment::from_vars(vars));
    assert_eq!(Repo::open(&git, &r).await.unwrap().root(), r);
}

#[tokio::test]
async fn a_lock_that_is_let_go_is_waited_for() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let lock = r.join(".git/config.lock");
    std::fs::write(&lock, "").unwrap();
    let repo = lab.open(&r).await;
    let set = repo.call("set a value").args(["config", "x.y", "z"]).run();
    let free = async {
        tokio::task::yield_now().await;
        std::fs::remove_file(&lock).unwrap();
    };
    let (set, ()) = tokio::join!(set, free);
    set.unwrap();
    assert_eq!(lab.git_in(&r, &["config", "x.y"]).await, "z");
}

#[tokio::test]
async fn a_lock_that_stays_is_named() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    std::fs::write(r.join(".git/config.lock"), "").unwrap();
    let limits = taskyard_git::Limits { lock: std::time::Duration::from_millis(50), ..Default::default() };
    let repo = Repo::open(&lab.git.clone().with_limits(limits), &r).await.unwrap();
    let error = repo.call("set a value").args(["config", "x.y", "z"]).run().await.unwrap_err();
    assert!(matches!(&error, Error::Locked { lock, .. } if lock.contains("config")), "{error}");
}

#[tokio::test]
async fn what_files_say_is_what_git_says() {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    lab.git_in(&r, &["worktree", "add", "-q", "-b", "deep/w", "../w"]).await;
    lab.git_in(&r, &["worktree", "add", "-q", "--detach", "../d"]).await;
    std::os::unix::fs::symlink(&r, lab.path("link")).unwrap();
    for round in ["loose", "packed"] {
        for at in ["r", "w", "d", "link"].map(|name| lab.path(name)) {
            let calls = lab.git.calls();
            let repo = lab.open(&at).await;
            assert_eq!(lab.git.calls(), calls, "{}", at.display());
            let ask = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"];
            let said = [repo.root(), repo.git_dir(), repo.common_dir()].map(|path| path.to_str().unwrap().to_owned()).join("\n");
            assert_eq!(said, lab.git_in(&at, &ask).await);
            assert!(!repo.is_bare());
            assert_eq!(repo.head().await.unwrap().oid(), Some(&lab.oid(&at, "HEAD").await), "{round}");
            assert_eq!(repo.tip("refs/heads/deep/w").await.unwrap(), Some(lab.oid(&at, "deep/w").await), "{round}");
            assert_eq!(repo.tip("refs/heads/deep").await.unwrap(), None);
        }
        lab.git_in(&r, &["pack-refs", "--all"]).await;
        lab.git_in(&r, &["commit", "-q", "--allow-empty", "-m", "next"]).await;
        lab.git_in(&r, &["pack-refs", "--all"]).await;
    }
    // Where the configuration moves things git is asked.
    std::fs::create_dir(lab.path("elsewhere")).unwrap();
    lab.git_in(&r, &["config", "core.worktree", "../../elsewhere"]).await;
    let calls = lab.git.calls();
    lab.open(&lab.path("w")).await;
    assert_ne!(lab.git.calls(), calls);
}
