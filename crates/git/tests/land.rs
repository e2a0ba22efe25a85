//! Landing: the branch moves, checked-out trees follow, the user's edits stay or refuse, crashes are completed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::{STRATEGIES, Yard, landing};
use pretty_assertions::assert_eq;
use support::{Lab, read, script, write};
use taskyard_domain::merge::Strategy;
use taskyard_git::land::land;
use taskyard_git::merge::Computed;
use taskyard_git::{Error, Policy};

/// A task that changes `a.txt`, adds `b.txt` and removes `gone.txt`, computed but not landed.
async fn ready(strategy: Strategy) -> (Yard, Computed) {
    let lab = Lab::new();
    let main = lab.repo("r").await;
    write(&main, "k.txt", "k\n");
    write(&main, "gone.txt", "gone\n");
    lab.commit(&main, "more").await;
    let yard = Yard::around(lab, main).await;
    std::fs::remove_file(yard.task.join("gone.txt")).unwrap();
    write(&yard.task, "a.txt", "changed\n");
    yard.work("b.txt", "b\n").await;
    let made = yard.compute(strategy).await.unwrap();
    (yard, made)
}

/// Everything of the landed work is in the tree, and nothing else.
async fn assert_landed(yard: &Yard, made: &Computed) {
    assert_eq!(yard.target().await, made.commit);
    assert_eq!((read(&yard.main, "a.txt"), read(&yard.main, "b.txt")), ("changed\n".into(), "b\n".into()));
    assert!(!yard.main.join("gone.txt").exists());
}

/// C4, C1
#[tokio::test]
async fn the_checked_out_tree_follows_and_unrelated_edits_stay() {
    for strategy in STRATEGIES {
        let (yard, made) = ready(strategy).await;
        let landed = yard.land(&made.target_before, &made.commit).await.unwrap();
        assert_eq!((landed.trees, landed.already), (vec![yard.main.clone()], false));
        assert_landed(&yard, &made).await;
        assert_eq!(yard.status(&yard.main).await, "");

        let (yard, made) = ready(strategy).await;
        write(&yard.main, "k.txt", "edited\n");
        write(&yard.main, "untracked.txt", "mine\n");
        write(&yard.main, "staged.txt", "mine\n");
        yard.lab.git_in(&yard.main, &["add", "staged.txt"]).await;
        yard.land(&made.target_before, &made.commit).await.unwrap();
        assert_landed(&yard, &made).await;
        assert_eq!(yard.status(&yard.main).await, " M k.txt\nA  staged.txt\n?? untracked.txt");
        assert_eq!(read(&yard.main, "k.txt"), "edited\n");
        assert_eq!(yard.lab.git_in(&yard.main, &["stash", "list"]).await, "");
    }
}

/// C2
#[tokio::test]
async fn edits_in_the_way_refuse_and_are_named_with_their_tree() {
    type Spoil = fn(&Yard);
    let spoil: [(&str, Spoil); 6] = [
        ("a.txt", |yard| write(&yard.main, "a.txt", "mine\n")),
        ("b.txt", |yard| write(&yard.main, "b.txt", "mine\n")),
        ("gone.txt", |yard| write(&yard.main, "gone.txt", "mine\n")),
        ("a.txt", |yard| std::fs::remove_file(yard.main.join("a.txt")).unwrap()),
        ("b.txt/x", |yard| write(&yard.main, "b.txt/x", "mine\n")),
        ("b.txt", |yard| {
            write(&yard.main, ".git/info/exclude", "b.txt\n");
            write(&yard.main, "b.txt", "ignored, but mine\n");
        }),
    ];
    for (file, spoil) in spoil {
        let (yard, made) = ready(Strategy::Merge).await;
        spoil(&yard);
        let before = yard.snap().await;
        let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
        let text = error.to_string();
        let Error::Dirty { tree, files } = error else { panic!("{file}: {text}") };
        assert_eq!((&tree, &files), (&yard.main, &vec![file.to_owned()]));
        assert!(text.contains(file) && text.contains(tree.to_str().unwrap()), "{text}");
        assert_eq!(yard.snap().await, before, "{file}");
    }
}

#[tokio::test]
async fn a_staged_edit_in_the_way_refuses_too() {
    let (yard, made) = ready(Strategy::Squash).await;
    write(&yard.main, "a.txt", "mine\n");
    yard.lab.git_in(&yard.main, &["add", "-A"]).await;
    let before = yard.snap().await;
    assert!(matches!(yard.land(&made.target_before, &made.commit).await, Err(Error::Dirty { .. })));
    assert_eq!(yard.snap().await, before);
}

/// A7
#[tokio::test]
async fn a_linked_worktree_that_has_the_target_follows() {
    let (yard, _) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["branch", "dev"]).await;
    let dev = yard.lab.path("wdev");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", dev.to_str().unwrap(), "dev"]).await;
    let repo = yard.lab.open(&dev).await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    let onto_dev = landing("dev", &made.target_before, &made.commit);

    write(&dev, "a.txt", "mine\n");
    let before = (yard.snap().await, yard.lab.snap(&dev).await);
    let error = land(&repo, &yard.scratch, &onto_dev).await.unwrap_err();
    assert!(matches!(&error, Error::Dirty { tree, files } if *tree == dev && files == &["a.txt"]), "{error}");
    assert_eq!((yard.snap().await, yard.lab.snap(&dev).await), before);

    yard.lab.git_in(&dev, &["checkout", "-q", "a.txt"]).await;
    land(&repo, &yard.scratch, &onto_dev).await.unwrap();
    assert_eq!(yard.lab.oid(&dev, "dev").await, made.commit);
    assert_eq!((yard.status(&dev).await, read(&dev, "b.txt")), (String::new(), "b\n".into()));
    assert_eq!(yard.target().await, made.target_before, "main stays");
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn one_tree_that_cannot_follow_holds_back_all() {
    let (yard, made) = ready(Strategy::Merge).await;
    let second = yard.lab.path("second");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--force", second.to_str().unwrap(), "main"]).await;
    write(&second, "a.txt", "mine\n");
    let before = (yard.snap().await, yard.lab.snap(&second).await);
    let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert!(matches!(&error, Error::Dirty { tree, .. } if *tree == second), "{error}");
    assert_eq!((yard.snap().await, yard.lab.snap(&second).await), before);
    yard.lab.git_in(&second, &["checkout", "-q", "a.txt"]).await;
    assert_eq!(yard.land(&made.target_before, &made.commit).await.unwrap().trees.len(), 2);
    assert_eq!((yard.status(&second).await, yard.status(&yard.main).await), (String::new(), String::new()));
}

/// C12
#[tokio::test]
async fn a_moved_target_is_said_and_nothing_touched() {
    let (yard, made) = ready(Strategy::Merge).await;
    let found = yard.others("c.txt", "c\n").await;
    let before = yard.snap().await;
    match yard.land(&made.target_before, &made.commit).await.unwrap_err() {
        Error::Moved { name, expected, found: at } => {
            assert_eq!((name.as_str(), &expected, at), ("refs/heads/main", &made.target_before, Some(found)));
        }
        other => panic!("{other}"),
    }
    assert_eq!(yard.snap().await, before);
    let missing = landing("nowhere", &made.target_before, &made.commit);
    assert!(matches!(land(&yard.repo, &yard.scratch, &missing).await, Err(Error::Moved { found: None, .. })));
}

/// C12
#[tokio::test]
async fn an_operation_in_progress_refuses_in_plain_words() {
    for operation in ["merge", "rebase", "cherry-pick"] {
        let (yard, _) = ready(Strategy::Merge).await;
        yard.lab.git_in(&yard.main, &["checkout", "-q", "-b", "side"]).await;
        yard.others("k.txt", "side\n").await;
        yard.lab.git_in(&yard.main, &["checkout", "-q", "main"]).await;
        yard.others("k.txt", "main\n").await;
        let made = yard.compute(Strategy::Merge).await.unwrap();
        assert!(!yard.lab.try_git(&yard.main, &[operation, "side"]).await.ok());
        let before = yard.snap().await;
        let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::InProgress { operation: found, .. } if found == operation), "{text}");
        assert!(text.contains("finish or abort it first"), "{text}");
        assert_eq!(yard.snap().await, before, "{operation}");
    }
}

#[tokio::test]
async fn landing_twice_is_landing_once() {
    for strategy in STRATEGIES {
        let (yard, made) = ready(strategy).await;
        yard.land(&made.target_before, &made.commit).await.unwrap();
        write(&yard.main, "a.txt", "edited since\n");
        write(&yard.main, "b.txt", "staged since\n");
        yard.lab.git_in(&yard.main, &["add", "b.txt"]).await;
        let before = yard.snap().await;
        assert!(yard.land(&made.target_before, &made.commit).await.unwrap().already);
        assert_eq!(yard.snap().await, before, "{strategy:?}");
        yard.others("c.txt", "built on it\n").await;
        assert!(yard.land(&made.target_before, &made.commit).await.unwrap().already);
    }
}

/// A crash between moving the branch and refreshing the tree.
#[tokio::test]
async fn a_landing_that_was_cut_off_after_the_branch_moved_is_completed() {
    let (yard, made) = ready(Strategy::Merge).await;
    write(&yard.main, "k.txt", "edited\n");
    yard.lab.git_in(&yard.main, &["update-ref", "refs/heads/main", made.commit.as_str()]).await;
    assert!(yard.status(&yard.main).await.contains("D  b.txt"), "the reverse change is staged");
    let landed = yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_eq!((landed.trees, landed.already), (vec![yard.main.clone()], true));
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, " M k.txt");
}

/// A crash while git was writing files: some are new, the index isn't.
#[tokio::test]
async fn a_landing_that_was_cut_off_between_files_is_completed() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["update-ref", "refs/heads/main", made.commit.as_str()]).await;
    write(&yard.main, "a.txt", "changed\n");
    write(&yard.main, "b.txt", "b\n");
    std::fs::remove_file(yard.main.join("gone.txt")).unwrap();
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

/// A full disk, and a crash before anything could be taken back: what git had only begun to write is written to its end.
#[tokio::test]
async fn a_landing_that_was_cut_off_within_files_is_completed() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["update-ref", "refs/heads/main", made.commit.as_str()]).await;
    for (name, begun) in [("a.txt", ""), ("b.txt", "b")] {
        std::fs::remove_file(yard.main.join(name)).ok();
        write(&yard.main, name, begun);
    }
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

/// What a user has written there meanwhile is no beginning of ours, though the new text may begin like it.
#[tokio::test]
async fn a_file_of_the_users_in_the_way_of_a_cut_off_landing_stays() {
    for (name, own) in [("a.txt", "chan"), ("b.txt", "bb"), ("b.txt", "b\nand more\n")] {
        let (yard, made) = ready(Strategy::Merge).await;
        yard.lab.git_in(&yard.main, &["update-ref", "refs/heads/main", made.commit.as_str()]).await;
        write(&yard.main, name, own);
        let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
        assert!(matches!(&error, Error::NotRefreshed { files, .. } if files.iter().any(|file| file == name)), "{name}: {error}");
        assert_eq!(std::fs::read_to_string(yard.main.join(name)).unwrap(), own);
    }
}

#[tokio::test]
async fn an_edit_made_after_the_cut_is_kept_and_named_until_it_is_set_aside() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["update-ref", "refs/heads/main", made.commit.as_str()]).await;
    write(&yard.main, "a.txt", "mine\n");
    let before = yard.snap().await;
    let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert!(matches!(&error, Error::NotRefreshed { files, .. } if files == &["a.txt"]), "{error}");
    assert_eq!(yard.snap().await, before);
    yard.lab.git_in(&yard.main, &["checkout-index", "-f", "a.txt"]).await;
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn a_lock_held_for_a_moment_is_waited_for() {
    let (yard, made) = ready(Strategy::Merge).await;
    let lock = yard.main.join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let (landed, ()) = tokio::join!(yard.land(&made.target_before, &made.commit), async {
        // Until the branch has moved, that is, until the tree waits for its index.
        while yard.lab.oid(&yard.main, "refs/heads/main").await != made.commit {
            tokio::task::yield_now().await;
        }
        std::fs::remove_file(&lock).unwrap();
    });
    landed.unwrap();
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn a_tree_whose_user_leaves_the_branch_at_the_last_moment_is_left_as_it_is() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["branch", "elsewhere", made.target_before.as_str()]).await;
    // The hook plays a user who switches just when the branch moves.
    let on_move = "[ \"$1\" = committed ] && grep -q ' refs/heads/main$'";
    let leave = format!("{on_move} && env -u GIT_DIR git -C '{}' checkout -q elsewhere\nexit 0", yard.main.display());
    script(&yard.main.join(".git/hooks/reference-transaction"), &leave);
    let landed = yard.land(&made.target_before, &made.commit).await.unwrap();
    std::fs::remove_file(yard.main.join(".git/hooks/reference-transaction")).unwrap();
    assert_eq!((landed.trees, yard.target().await), (Vec::new(), made.commit.clone()));
    assert_eq!(yard.status(&yard.main).await, "");
    yard.lab.git_in(&yard.main, &["checkout", "-q", "main"]).await;
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn a_tree_that_refuses_at_the_last_moment_takes_the_branch_back() {
    let (yard, made) = ready(Strategy::Merge).await;
    // The hook plays a user who edits the file just when the branch moves.
    let edit = format!("[ \"$1\" = committed ] && echo mine > '{}/a.txt'\nexit 0", yard.main.display());
    script(&yard.main.join(".git/hooks/reference-transaction"), &edit);
    let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert!(matches!(&error, Error::Dirty { files, .. } if files == &["a.txt"]), "{error}");
    assert_eq!(yard.target().await, made.target_before);
    assert_eq!(yard.status(&yard.main).await, " M a.txt");
    assert_eq!(read(&yard.main, "a.txt"), "mine\n");
}

#[tokio::test]
async fn a_refusing_transaction_hook_refuses_the_landing() {
    let (yard, made) = ready(Strategy::Merge).await;
    script(&yard.main.join(".git/hooks/reference-transaction"), "[ \"$1\" = prepared ] && echo frozen >&2 && exit 1\nexit 0");
    let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert!(matches!(&error, Error::HookFailed { text, .. } if text.contains("frozen")), "{error}");
    assert_eq!(yard.target().await, made.target_before);
    let skipping = taskyard_git::land::Landing {
        policy: Policy { hooks: taskyard_domain::repository::HookPolicy::Skip, ..Policy::default() },
        ..landing("main", &made.target_before, &made.commit)
    };
    land(&yard.repo, &yard.scratch, &skipping).await.unwrap();
}

#[tokio::test]
async fn odd_names_line_ends_and_sparse_trees_follow() {
    let yard = Yard::new().await;
    yard.lab.git_in(&yard.main, &["config", "core.autocrlf", "true"]).await;
    write(&yard.main, "deep/out.txt", "1\n");
    yard.lab.commit(&yard.main, "deep").await;
    yard.lab.git_in(&yard.task, &["reset", "-q", "--hard", "main"]).await;
    yard.lab.git_in(&yard.main, &["sparse-checkout", "set", "top"]).await;
    for name in support::odd_names() {
        write(&yard.task, name, "odd\n");
    }
    write(&yard.task, "deep/out.txt", "2\n");
    write(&yard.task, "top/in.txt", "in\n");
    yard.work("a.txt", "b\n").await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_eq!(yard.status(&yard.main).await, "");
    assert_eq!(read(&yard.main, "top/in.txt"), "in\r\n");
    assert!(!yard.main.join("deep/out.txt").exists());
}

#[tokio::test]
async fn a_repository_switched_to_bare_is_reported_with_its_repair() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["config", "core.bare", "true"]).await;
    let repo = yard.lab.open(&yard.main).await;
    let error = land(&repo, &yard.scratch, &landing("main", &made.target_before, &made.commit)).await.unwrap_err();
    assert!(matches!(error, Error::BareSwitchedOn { .. }), "{error}");
    assert_eq!(yard.lab.oid(&yard.main, "main").await, made.target_before);
}

#[tokio::test]
async fn of_two_that_land_at_once_one_is_told_that_the_target_moved() {
    let (yard, first) = ready(Strategy::Merge).await;
    let second = yard.compute(Strategy::Squash).await.unwrap();
    let (a, b) = tokio::join!(yard.land(&first.target_before, &first.commit), yard.land(&second.target_before, &second.commit));
    assert!(a.is_ok() != b.is_ok());
    let lost = a.and(b).unwrap_err();
    assert!(matches!(lost, Error::Moved { .. }), "{lost}");
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn trees_that_had_followed_go_back_with_the_branch() {
    let (yard, made) = ready(Strategy::Merge).await;
    let second = yard.lab.path("second");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--force", second.to_str().unwrap(), "main"]).await;
    let edit = format!("[ \"$1\" = committed ] && echo mine > '{}/a.txt'\nexit 0", second.display());
    script(&yard.main.join(".git/hooks/reference-transaction"), &edit);
    let error = yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert!(matches!(&error, Error::Dirty { tree, .. } if *tree == second), "{error}");
    assert_eq!(yard.target().await, made.target_before);
    assert_eq!((yard.status(&yard.main).await, yard.status(&second).await), (String::new(), " M a.txt".into()));
    assert!(!yard.main.join("b.txt").exists() && yard.main.join("gone.txt").exists());
}

#[tokio::test]
async fn a_tree_that_is_switched_to_the_branch_in_this_moment_follows_too() {
    let (yard, made) = ready(Strategy::Merge).await;
    yard.lab.git_in(&yard.main, &["checkout", "-q", "-b", "elsewhere"]).await;
    let switch = format!(
        "[ \"$1\" = prepared ] || exit 0\nunset $(git rev-parse --local-env-vars)\ncd '{}' && git checkout -q main\nexit 0",
        yard.main.display()
    );
    script(
        &yard.main.join(".git/hooks/reference-transaction"),
        &format!("[ -e '{0}' ] && exit 0\ntouch '{0}'\n{switch}", yard.lab.path("once").display()),
    );
    let landed = yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_eq!(landed.trees, std::slice::from_ref(&yard.main));
    assert_landed(&yard, &made).await;
    assert_eq!(yard.status(&yard.main).await, "");
}

#[tokio::test]
async fn a_tree_in_which_git_breaks_off_is_as_it_was() {
    let (yard, _) = ready(Strategy::Merge).await;
    write(&yard.task, ".gitattributes", "z.bin filter=picky\n");
    yard.work("z.bin", "z\n").await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    // The filter fails when all other files are written: by then git has half of the work in the tree.
    for (key, value) in [("filter.picky.clean", "cat"), ("filter.picky.smudge", "false"), ("filter.picky.required", "true")] {
        yard.lab.git_in(&yard.main, &["config", key, value]).await;
    }
    write(&yard.main, "k.txt", "edited\n");
    let before = yard.snap().await;
    yard.land(&made.target_before, &made.commit).await.unwrap_err();
    assert_eq!((yard.target().await, yard.snap().await), (made.target_before.clone(), before));
    assert_eq!(yard.status(&yard.main).await, " M k.txt");
    yard.lab.git_in(&yard.main, &["config", "filter.picky.smudge", "cat"]).await;
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_landed(&yard, &made).await;
}

#[tokio::test]
async fn a_tree_whose_folder_is_gone_holds_nobody_back() {
    let (yard, made) = ready(Strategy::Merge).await;
    let second = yard.lab.path("second");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--force", second.to_str().unwrap(), "main"]).await;
    std::fs::remove_dir_all(&second).unwrap();
    let landed = yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_eq!(landed.trees, std::slice::from_ref(&yard.main));
}

#[tokio::test]
async fn submodule_pointers_land_without_touching_the_submodule() {
    let lab = Lab::new();
    let sub = lab.repo("sub").await;
    let main = lab.repo("r").await;
    lab.git_in(&main, &["submodule", "--quiet", "add", sub.to_str().unwrap(), "sub"]).await;
    lab.commit(&main, "sub").await;
    let yard = Yard::around(lab, main).await;
    let before = yard.lab.oid(&yard.main.join("sub"), "HEAD").await;
    write(&sub, "s.txt", "s\n");
    let newer = yard.lab.commit(&sub, "newer").await;
    yard.lab.git_in(&yard.task, &["update-index", "--cacheinfo", &format!("160000,{newer},sub")]).await;
    yard.lab.git_in(&yard.task, &["commit", "-q", "-m", "pointer"]).await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    yard.land(&made.target_before, &made.commit).await.unwrap();
    assert_eq!(yard.lab.oid(&yard.main.join("sub"), "HEAD").await, before);
    assert_eq!(yard.status(&yard.main).await, " M sub", "as after a merge by hand: the pointer is newer than the folder");
}
