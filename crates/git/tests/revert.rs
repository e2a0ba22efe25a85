//! Reverting by every strategy, and merging the same work again afterwards.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::{STRATEGIES, Yard};
use pretty_assertions::assert_eq;
use support::{read, script};
use taskyard_domain::merge::Strategy;
use taskyard_git::merge::Computed;
use taskyard_git::revert::{Reverted, compute_again};
use taskyard_git::{Error, Result, history};

/// Two commits of work, merged beside a commit of somebody else's.
async fn merged(strategy: Strategy) -> (Yard, Computed) {
    let yard = Yard::new().await;
    yard.work("a.txt", "first\n").await;
    yard.work("b.txt", "first\n").await;
    yard.others("c.txt", "c\n").await;
    let made = yard.merge(strategy).await;
    (yard, made)
}

async fn again(yard: &Yard, strategy: Strategy, merged: &Computed, reverted: &Reverted) -> Result<Computed> {
    let earlier = merging::earlier(merged, reverted);
    compute_again(&yard.repo, &yard.scratch, &yard.request(strategy).await, &earlier).await
}

#[tokio::test]
async fn a_revert_is_one_commit_that_takes_all_of_it_out() {
    for strategy in STRATEGIES {
        let (yard, made) = merged(strategy).await;
        let later = yard.others("d.txt", "later\n").await;
        let reverted = yard.revert(&made).await;
        assert_eq!(history::parents(&yard.repo, &reverted.commit).await.unwrap(), [later]);
        assert_eq!(read(&yard.main, "a.txt"), "a\n", "{strategy:?}");
        assert!(!yard.main.join("b.txt").exists());
        assert_eq!((read(&yard.main, "c.txt"), read(&yard.main, "d.txt")), ("c\n".into(), "later\n".into()));
        assert_eq!(yard.status(&yard.main).await, "");
    }
}

/// C11: what a revert can't undo is refused, and so is doing it twice.
#[tokio::test]
async fn a_conflicting_or_second_revert_is_refused_and_changes_nothing() {
    for strategy in STRATEGIES {
        let (yard, made) = merged(strategy).await;
        yard.others("a.txt", "changed by another\n").await;
        let before = yard.snap().await;
        let error = yard.compute_revert(&made).await.unwrap_err();
        assert!(matches!(&error, Error::Conflict { files, .. } if files == &["a.txt"]), "{strategy:?}: {error}");
        assert_eq!(yard.snap().await, before);

        let (yard, made) = merged(strategy).await;
        let reverted = yard.revert(&made).await;
        assert!(history::contains(&yard.repo, "main", &reverted.commit).await.unwrap());
        let before = yard.snap().await;
        let error = yard.compute_revert(&made).await.unwrap_err();
        assert!(matches!(error, Error::NothingToMerge { .. }), "{strategy:?}: {error}");
        assert_eq!(yard.snap().await, before);
    }
}

#[tokio::test]
async fn only_what_the_target_contains_can_be_reverted() {
    let yard = Yard::new().await;
    yard.work("a.txt", "x\n").await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    let error = yard.compute_revert(&made).await.unwrap_err();
    assert!(matches!(error, Error::NotContained { .. }), "{error}");
}

#[tokio::test]
async fn the_hooks_of_a_commit_judge_a_revert() {
    let (yard, made) = merged(Strategy::Merge).await;
    script(&yard.main.join(".git/hooks/pre-commit"), "echo not today; exit 1");
    let before = yard.snap().await;
    let error = yard.compute_revert(&made).await.unwrap_err();
    assert!(matches!(&error, Error::HookFailed { hook, text } if hook == "pre-commit" && text.contains("not today")), "{error}");
    assert_eq!(yard.snap().await, before);
}

/// C11, both variants: the later commit changes a file of the first work, or another one.
#[tokio::test]
async fn merging_again_lands_the_first_and_the_second_work() {
    for strategy in STRATEGIES {
        for (file, content, hooks) in [("a.txt", "first\nsecond\n", true), ("e.txt", "second\n", false)] {
            let (yard, made) = merged(strategy).await;
            let reverted = yard.revert(&made).await;
            if hooks {
                script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
            }
            let tip = yard.work(file, content).await;
            let second = again(&yard, strategy, &made, &reverted).await.unwrap();
            assert_eq!((&second.target_before, &second.tip), (&reverted.commit, &tip));
            yard.land(&second.target_before, &second.commit).await.unwrap();
            yard.release().await;
            assert_eq!(read(&yard.main, file), content, "{strategy:?} {file}");
            assert!(read(&yard.main, "a.txt").starts_with("first\n"), "{strategy:?} {file}: the first work is back");
            assert!(yard.main.join("b.txt").exists() && yard.main.join("c.txt").exists());
            assert_eq!(yard.status(&yard.main).await, "");

            let out = yard.revert(&second).await;
            assert_eq!(read(&yard.main, "a.txt"), "a\n", "{strategy:?} {file}: all of it is out again");
            let tip = yard.work(file, &format!("{content}third\n")).await;
            let third = again(&yard, strategy, &second, &out).await.unwrap();
            assert_eq!(third.tip, tip);
            assert_eq!(yard.show(&third.commit, file).await, format!("{content}third"), "{strategy:?} {file}");
        }
    }
}

#[tokio::test]
async fn merging_again_without_new_work_brings_the_old_back() {
    for strategy in STRATEGIES {
        let (yard, made) = merged(strategy).await;
        let reverted = yard.revert(&made).await;
        let second = again(&yard, strategy, &made, &reverted).await.unwrap();
        assert_eq!(second.tree, made.tree, "{strategy:?}");
        let said = yard.lab.git_in(&yard.main, &["log", "-1", "--format=%s", second.commit.as_str()]).await;
        assert_eq!(said, "Reapply \"TY-1: the task\"");
    }
}

#[tokio::test]
async fn merging_again_by_another_strategy_works_too() {
    for first in STRATEGIES {
        for then in STRATEGIES {
            let (yard, made) = merged(first).await;
            let reverted = yard.revert(&made).await;
            yard.work("a.txt", "first\nsecond\n").await;
            for hooks in [false, true] {
                if hooks {
                    script(&yard.main.join(".git/hooks/pre-commit"), "exit 0");
                }
                let second = again(&yard, then, &made, &reverted).await.unwrap();
                assert_eq!(yard.show(&second.commit, "a.txt").await, "first\nsecond", "{first:?} then {then:?}");
                assert_eq!(yard.show(&second.commit, "b.txt").await, "first");
            }
        }
    }
}

#[tokio::test]
async fn a_revert_that_somebody_undid_by_hand_needs_no_undoing() {
    let (yard, made) = merged(Strategy::Merge).await;
    let reverted = yard.revert(&made).await;
    yard.lab.git_in(&yard.main, &["revert", "--no-edit", "HEAD"]).await;
    yard.work("e.txt", "second\n").await;
    let second = again(&yard, Strategy::Merge, &made, &reverted).await.unwrap();
    let parents = history::parents(&yard.repo, &second.commit).await.unwrap();
    assert_eq!(parents, [second.target_before, second.tip]);
}

#[tokio::test]
async fn merging_again_into_changed_lines_is_a_conflict_with_the_targets_commit() {
    for strategy in STRATEGIES {
        let (yard, made) = merged(strategy).await;
        let reverted = yard.revert(&made).await;
        yard.work("a.txt", "first\nsecond\n").await;
        let target = yard.others("a.txt", "changed by another\n").await;
        let before = yard.snap().await;
        let error = again(&yard, strategy, &made, &reverted).await.unwrap_err();
        assert!(matches!(&error, Error::Conflict { ours, files, .. } if *ours == target && files == &["a.txt"]), "{error}");
        assert_eq!(yard.snap().await, before, "{strategy:?}");
    }
}
