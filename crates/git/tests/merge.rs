//! Merging by every strategy: what comes out, what is refused, and that a refusal leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;
use merging::{STRATEGIES, Yard, author};
use support::{read, script, write};

use pretty_assertions::assert_eq;
use std::time::Duration;
use taskyard_domain::merge::Strategy;
use taskyard_domain::repository::{HookPolicy, SignPolicy};
use taskyard_git::merge::{Merge, compute};
use taskyard_git::{Error, Limits, Policy, Repo};

#[tokio::test]
async fn each_strategy_makes_the_history_it_promises() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        let tip = yard.work("b.txt", "b\n").await;
        let before = yard.others("c.txt", "c\n").await;
        let made = yard.compute(strategy).await.unwrap();
        assert_eq!((&made.target_before, &made.tip), (&before, &tip));
        let parents = yard.lab.git_in(&yard.main, &["log", "-1", "--format=%P", made.commit.as_str()]).await;
        let wanted = if strategy == Strategy::Merge { format!("{before} {tip}") } else { before.to_string() };
        assert_eq!(parents, wanted, "{strategy:?}");
        assert_eq!(yard.show(&made.commit, "b.txt").await, "b");
        assert_eq!(yard.show(&made.commit, "c.txt").await, "c");
        let people = yard.lab.git_in(&yard.main, &["log", "-1", "--format=%an/%cn/%s", made.commit.as_str()]).await;
        let wanted = if strategy == Strategy::Rebase { "t/Taskyard/task: b.txt" } else { "Taskyard/Taskyard/Merge the task" };
        assert_eq!(people, wanted);
        assert_eq!(yard.target().await, before, "computing moves nothing");
        let kept = yard.lab.oid(&yard.main, "refs/taskyard/merges/m1").await;
        assert_eq!(kept, made.commit);
    }
}

#[tokio::test]
async fn computing_leaves_only_the_private_ref() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        yard.work("b.txt", "b\n").await;
        yard.others("c.txt", "c\n").await;
        write(&yard.main, "k.txt", "edit\n");
        let before = yard.snap().await;
        yard.compute(strategy).await.unwrap();
        yard.compute(strategy).await.unwrap();
        yard.release().await;
        assert_eq!(yard.snap().await, before, "{strategy:?}");
    }
}

#[tokio::test]
async fn a_merge_commit_is_made_even_where_the_target_could_fast_forward() {
    let yard = Yard::new().await;
    yard.lab.config("merge.ff", "only").await;
    let tip = yard.work("b.txt", "b\n").await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    assert!(made.commit != tip);
    let rebased = yard.compute(Strategy::Rebase).await.unwrap();
    assert_eq!(rebased.commit, tip);
}

/// C6
#[tokio::test]
async fn a_conflict_names_the_files_and_leaves_nothing() {
    for strategy in STRATEGIES {
        for hooks in [false, true] {
            let yard = Yard::new().await;
            if hooks {
                for name in ["pre-merge-commit", "pre-commit", "pre-rebase"] {
                    script(&yard.main.join(".git/hooks").join(name), "exit 0");
                }
            }
            let tip = yard.work("a.txt", "theirs\n").await;
            let target = yard.lab.git_in(&yard.main, &["-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "x"]);
            target.await;
            write(&yard.main, "a.txt", "ours\n");
            let target = yard.lab.commit(&yard.main, "ours").await;
            let before = yard.snap().await;
            let error = yard.compute(strategy).await.unwrap_err();
            let Error::Conflict { ours, theirs, files } = error else { panic!("{strategy:?}: {error}") };
            assert_eq!((ours, theirs, files), (target, tip, vec!["a.txt".to_owned()]));
            assert_eq!(yard.snap().await, before, "{strategy:?}");
        }
    }
}

#[tokio::test]
async fn nothing_to_merge_is_said() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        assert!(matches!(yard.compute(strategy).await, Err(Error::NothingToMerge { .. })), "{strategy:?}: no commits");
        yard.work("b.txt", "b\n").await;
        yard.others("b.txt", "b\n").await;
        let error = yard.compute(strategy).await.unwrap_err();
        assert!(matches!(error, Error::NothingToMerge { .. }), "{strategy:?}, same change on both sides: {error}");
    }
}

#[tokio::test]
async fn histories_without_a_common_commit_are_refused_in_plain_words() {
    let yard = Yard::new().await;
    yard.lab.git_in(&yard.task, &["checkout", "-q", "--orphan", "other"]).await;
    yard.lab.commit(&yard.task, "root").await;
    yard.lab.git_in(&yard.task, &["branch", "-f", "task"]).await;
    let error = yard.compute(Strategy::Merge).await.unwrap_err();
    assert!(matches!(error, Error::UnrelatedHistories { .. }), "{error}");
}

/// B3
#[tokio::test]
async fn a_refusing_hook_is_quoted_and_nothing_changes() {
    let cases = [(Strategy::Merge, "pre-merge-commit"), (Strategy::Squash, "pre-commit"), (Strategy::Rebase, "pre-rebase")];
    for (strategy, hook) in cases {
        let yard = Yard::new().await;
        yard.work("b.txt", "b\n").await;
        yard.others("c.txt", "c\n").await;
        script(&yard.main.join(".git/hooks").join(hook), "echo secret found; exit 1");
        let before = yard.snap().await;
        match yard.compute(strategy).await.unwrap_err() {
            Error::HookFailed { hook: named, text } => {
                assert_eq!(named, hook);
                assert!(text.contains("secret found"), "{text}");
            }
            other => panic!("{strategy:?}: {other}"),
        }
        assert_eq!(yard.snap().await, before, "{strategy:?}");
        let mut request = yard.request(strategy).await;
        request.author.policy.hooks = HookPolicy::Skip;
        compute(&yard.repo, &yard.scratch, &request).await.unwrap();
    }
}

#[tokio::test]
async fn hooks_of_the_message_and_of_a_relative_hooks_path_run() {
    let yard = Yard::new().await;
    yard.lab.git_in(&yard.main, &["config", "core.hooksPath", ".hooks"]).await;
    script(&yard.main.join(".hooks/commit-msg"), "echo 'Signed-by: hook' >> \"$1\"\ntest -z \"$GIT_CONFIG_PARAMETERS\"");
    script(&yard.main.join(".hooks/post-merge"), "touch \"$HOME/announced\"");
    yard.work("b.txt", "b\n").await;
    for strategy in [Strategy::Merge, Strategy::Squash] {
        let made = yard.compute(strategy).await.unwrap();
        let message = yard.lab.git_in(&yard.main, &["log", "-1", "--format=%B", made.commit.as_str()]).await;
        assert!(message.starts_with("Merge the task\n\nWith a body.") && message.contains("Signed-by: hook"), "{message}");
        assert_eq!(yard.show(&made.commit, "b.txt").await, "b");
    }
    assert!(!yard.lab.path("home/announced").exists());
}

#[tokio::test]
async fn a_tasks_branch_cannot_change_the_hooks_that_judge_it() {
    let yard = Yard::new().await;
    yard.lab.git_in(&yard.main, &["config", "core.hooksPath", ".hooks"]).await;
    script(&yard.main.join(".hooks/pre-merge-commit"), "echo no; exit 1");
    script(&yard.task.join(".hooks/pre-merge-commit"), "exit 0");
    yard.lab.git_in(&yard.task, &["add", "-A"]).await;
    yard.lab.git_in(&yard.task, &["commit", "-q", "-m", "x"]).await;
    let error = yard.compute(Strategy::Merge).await.unwrap_err();
    assert!(matches!(error, Error::HookFailed { .. }), "{error}");
}

/// B4
#[tokio::test]
async fn signing_that_cannot_work_is_said_in_bounded_time() {
    for (program, hooks) in [("exit 1", false), ("sleep 100", false), ("exit 1", true), ("sleep 100", true)] {
        for strategy in STRATEGIES {
            let mut yard = Yard::new().await;
            yard.work("b.txt", "b\n").await;
            yard.others("c.txt", "c\n").await;
            if hooks {
                for name in ["pre-merge-commit", "commit-msg", "prepare-commit-msg"] {
                    script(&yard.main.join(".git/hooks").join(name), "exit 0");
                }
            }
            script(&yard.lab.path("gpg"), program);
            yard.lab.config("commit.gpgSign", "true").await;
            yard.lab.config("gpg.program", yard.lab.path("gpg").to_str().unwrap()).await;
            let limits = Limits { signing: Duration::from_millis(300), ..Limits::default() };
            yard.repo = Repo::open(&yard.lab.git.clone().with_limits(limits), &yard.main).await.unwrap();
            let before = yard.snap().await;
            let error = yard.compute(strategy).await.unwrap_err();
            assert!(matches!(error, Error::SigningFailed { .. }), "{strategy:?} {program} {hooks}: {error}");
            assert_eq!(yard.snap().await, before, "{strategy:?}");
            let mut request = yard.request(strategy).await;
            request.author.policy.sign = SignPolicy::Never;
            compute(&yard.repo, &yard.scratch, &request).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_hanging_hook_is_ended_and_named() {
    let mut yard = Yard::new().await;
    yard.work("b.txt", "b\n").await;
    script(&yard.main.join(".git/hooks/pre-merge-commit"), "sleep 100");
    let limits = Limits { hooks: Duration::from_millis(800), ..Limits::default() };
    yard.repo = Repo::open(&yard.lab.git.clone().with_limits(limits), &yard.main).await.unwrap();
    let before = yard.snap().await;
    let error = yard.compute(Strategy::Merge).await.unwrap_err();
    assert!(matches!(&error, Error::HookFailed { hook, .. } if hook == "pre-merge-commit"), "{error}");
    assert_eq!(yard.snap().await, before);
}

#[tokio::test]
async fn the_users_settings_do_not_bend_the_result() {
    let yard = Yard::new().await;
    for (key, value) in [
        ("merge.ff", "only"),
        ("merge.verifySignatures", "true"),
        ("merge.conflictStyle", "zdiff3"),
        ("rebase.autoSquash", "true"),
        ("rebase.updateRefs", "true"),
        ("rebase.autoStash", "true"),
        ("rerere.enabled", "true"),
        ("commit.template", "/nowhere"),
        ("commit.cleanup", "scissors"),
        ("core.autocrlf", "true"),
        ("submodule.recurse", "true"),
        ("diff.noprefix", "true"),
    ] {
        yard.lab.config(key, value).await;
    }
    script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
    yard.work("b.txt", "b\r\nc\r\n").await;
    yard.lab.git_in(&yard.task, &["branch", "mine"]).await;
    let mine = yard.work("d.txt", "d\n").await;
    yard.lab.git_in(&yard.task, &["commit", "-q", "--allow-empty", "-m", "fixup! task: b.txt"]).await;
    yard.others("c.txt", "c\n").await;
    for strategy in STRATEGIES {
        let made = yard.compute(strategy).await.unwrap();
        assert_eq!(yard.show(&made.commit, "d.txt").await, "d", "{strategy:?}");
    }
    let other = yard.lab.oid(&yard.main, "refs/heads/mine").await;
    assert_eq!(other, yard.lab.oid(&yard.main, &format!("{mine}^")).await, "rebase.updateRefs moves other branches");
}

#[tokio::test]
async fn several_results_are_built_on_one_another() {
    let yard = Yard::new().await;
    yard.work("b.txt", "b\n").await;
    let first = yard.compute(Strategy::Squash).await.unwrap();
    let other = yard.lab.path("second");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "-b", "second", other.to_str().unwrap()]).await;
    write(&other, "d.txt", "d\n");
    let tip = yard.lab.commit(&other, "second").await;
    let request =
        Merge { id: "m2".into(), base: first.commit.clone(), tip, strategy: Strategy::Merge, message: "second".into(), author: author() };
    let second = compute(&yard.repo, &yard.scratch, &request).await.unwrap();
    yard.land(&first.target_before, &second.commit).await.unwrap();
    assert_eq!((read(&yard.main, "b.txt"), read(&yard.main, "d.txt")), ("b\n".into(), "d\n".into()));
    assert_eq!(yard.status(&yard.main).await, "");
}

/// Without hooks a rebase is computed in memory; it must come to what git makes of it in a checkout.
#[tokio::test]
async fn a_rebase_in_memory_is_what_git_makes_of_it() {
    let yard = Yard::new().await;
    let git = async |args: &[&str]| yard.lab.git_in(&yard.task, args).await;
    write(&yard.task, "é.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    git(&["add", "-A"]).await;
    git(&["commit", "-q", "--author=Ä É <a@b>", "--date=2001-02-03T04:05:06+0700", "-m", "Subject\n\nBody äöü\n\n  indented"]).await;
    let picked = yard.work("picked.txt", "p\n").await;
    git(&["commit", "-q", "--allow-empty", "-m", "Empty from the start"]).await;
    git(&["mv", "é.txt", "moved.txt"]).await;
    yard.lab.commit(&yard.task, "Rename").await;
    git(&["checkout", "-q", "-b", "side", "HEAD~2"]).await;
    yard.work("side.txt", "s\n").await;
    git(&["checkout", "-q", "task"]).await;
    git(&["merge", "-q", "--no-ff", "--no-edit", "side"]).await;
    yard.lab.git_in(&yard.main, &["cherry-pick", picked.as_str()]).await;
    yard.others("c.txt", "c\n").await;
    // Becomes empty, though it isn't the same change.
    yard.work("c.txt", "c\n").await;
    yard.work("last.txt", "l\n").await;
    let made = yard.compute(Strategy::Rebase).await.unwrap();
    let (_, copy) = (yard.release().await, yard.lab.path("copy"));
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--detach", copy.to_str().unwrap(), "task"]).await;
    yard.lab.git_in(&copy, &["rebase", "-q", "main"]).await;
    let told = async |tip: &str| yard.lab.git_in(&yard.main, &["log", "--format=%T %an %ae %ad %B", &format!("main..{tip}")]).await;
    assert_eq!(told(made.commit.as_str()).await, told(yard.lab.oid(&copy, "HEAD").await.as_str()).await);
    // Straight on the target already: nothing is made anew.
    yard.lab.git_in(&yard.task, &["reset", "-q", "--hard", "main"]).await;
    let tip = yard.work("straight.txt", "s\n").await;
    assert_eq!(yard.compute(Strategy::Rebase).await.unwrap().commit, tip);
}

#[tokio::test]
async fn a_bare_repository_merges_too() {
    let yard = Yard::new().await;
    let tip = yard.work("b.txt", "b\n").await;
    let bare = yard.lab.path("bare.git");
    yard.lab.git_in(&yard.main, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]).await;
    let repo = yard.lab.open(&bare).await;
    for strategy in STRATEGIES {
        let mut request = yard.request(strategy).await;
        request.author.policy = Policy::default();
        let made = compute(&repo, &yard.scratch, &request).await.unwrap();
        assert_eq!(made.tip, tip);
        let landing = merging::landing("main", &made.target_before, &made.commit);
        let landed = taskyard_git::land::land(&repo, &yard.scratch, &landing);
        assert!(landed.await.unwrap().trees.is_empty());
        assert_eq!(yard.lab.oid(&bare, "main").await, made.commit);
        yard.lab.git_in(&bare, &["update-ref", "refs/heads/main", made.target_before.as_str()]).await;
    }
}

#[tokio::test]
async fn renames_modes_and_submodule_pointers_merge_as_git_does() {
    let yard = Yard::new().await;
    yard.others("name.txt", "some content\nthat is long enough\nto be seen as the same\n").await;
    yard.lab.git_in(&yard.task, &["merge", "-q", "--ff-only", "main"]).await;
    yard.lab.git_in(&yard.task, &["mv", "name.txt", "Name.txt"]).await;
    yard.lab.git_in(&yard.task, &["update-index", "--chmod=+x", "a.txt"]).await;
    let pointer = format!("160000,{},sub", yard.target().await);
    yard.lab.git_in(&yard.task, &["update-index", "--add", "--cacheinfo", &pointer]).await;
    yard.lab.git_in(&yard.task, &["commit", "-q", "-m", "case, mode, pointer"]).await;
    yard.others("name.txt", "some content\nthat is long enough\nto be seen as the same\nand more\n").await;
    for strategy in STRATEGIES {
        let made = yard.compute(strategy).await.unwrap();
        assert!(yard.show(&made.commit, "Name.txt").await.ends_with("and more"), "{strategy:?}");
        let tree = yard.lab.git_in(&yard.main, &["ls-tree", made.commit.as_str()]).await;
        assert!(tree.contains("160000 commit") && tree.contains("100755 blob"), "{tree}");
    }
}

/// A crash while computing: the scratch tree and its registration are still there.
#[tokio::test]
async fn what_a_killed_attempt_left_is_replaced() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        yard.work("b.txt", "b\n").await;
        yard.others("c.txt", "c\n").await;
        script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
        let before = yard.snap().await;
        let left = yard.scratch.join("m1");
        yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--detach", left.to_str().unwrap()]).await;
        yard.lab.git_in(&left, &["merge", "-q", "--no-commit", "--no-ff", "task"]).await;
        write(&left, "junk", "x");
        yard.compute(strategy).await.unwrap();
        yard.release().await;
        assert_eq!(yard.snap().await, before, "{strategy:?}");
    }
}

#[tokio::test]
async fn commits_are_signed_where_the_repository_asks() {
    for hooks in [false, true] {
        for strategy in STRATEGIES {
            let yard = Yard::new().await;
            yard.work("b.txt", "b\n").await;
            yard.others("c.txt", "c\n").await;
            if hooks {
                script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
            }
            script(&yard.lab.path("gpg"), "cat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho signature");
            yard.lab.config("commit.gpgSign", "true").await;
            yard.lab.config("gpg.program", yard.lab.path("gpg").to_str().unwrap()).await;
            let made = yard.compute(strategy).await.unwrap();
            let raw = yard.lab.git_in(&yard.main, &["cat-file", "commit", made.commit.as_str()]).await;
            assert!(raw.contains("gpgsig signature"), "{strategy:?} {hooks}: {raw}");
            let mut request = yard.request(strategy).await;
            request.author.policy.sign = SignPolicy::Never;
            let made = compute(&yard.repo, &yard.scratch, &request).await.unwrap();
            let raw = yard.lab.git_in(&yard.main, &["cat-file", "commit", made.commit.as_str()]).await;
            assert!(!raw.contains("gpgsig"), "{strategy:?} {hooks}: {raw}");
        }
    }
}

#[tokio::test]
async fn a_sparse_checkout_loses_nothing() {
    let yard = Yard::new().await;
    yard.others("deep/out.txt", "out\n").await;
    yard.others("top/in.txt", "in\n").await;
    yard.lab.git_in(&yard.task, &["merge", "-q", "--ff-only", "main"]).await;
    yard.work("deep/out.txt", "changed\n").await;
    yard.work("b.txt", "b\n").await;
    yard.others("top/in.txt", "changed\n").await;
    yard.lab.git_in(&yard.main, &["sparse-checkout", "set", "top"]).await;
    script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
    for strategy in STRATEGIES {
        let made = yard.compute(strategy).await.unwrap();
        assert_eq!(yard.show(&made.commit, "deep/out.txt").await, "changed", "{strategy:?}");
        assert_eq!(yard.show(&made.commit, "top/in.txt").await, "changed");
    }
}
