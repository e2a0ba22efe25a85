//! Previews are exact, and looking changes nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::Yard;
use pretty_assertions::assert_eq;
use support::files;
use taskyard_domain::merge::Strategy;
use taskyard_git::preview::preview;
use taskyard_git::{Error, history};

/// A text conflict in `a.txt`, and `moved.txt` renamed by the task and changed on main.
async fn conflicting() -> Yard {
    let lab = support::Lab::new();
    let main = lab.repo("r").await;
    support::write(&main, "moved.txt", "one\ntwo\nthree\nfour\nfive\n");
    support::write(&main, "dropped.txt", "one\ntwo\nthree\nfour\nfive\nsix\n");
    lab.commit(&main, "more").await;
    let yard = Yard::around(lab, main).await;
    std::fs::rename(yard.task.join("moved.txt"), yard.task.join("new.txt")).unwrap();
    std::fs::remove_file(yard.task.join("dropped.txt")).unwrap();
    yard.work("a.txt", "theirs\n").await;
    support::write(&yard.main, "moved.txt", "one\ntwo\nTHREE\nfour\nfive\n");
    support::write(&yard.main, "dropped.txt", "one\ntwo\nTHREE\nfour\nfive\nsix\n");
    yard.others("a.txt", "ours\n").await;
    yard
}

/// C5
#[tokio::test]
async fn a_preview_is_what_git_merge_makes_of_it_and_changes_nothing() {
    let yard = conflicting().await;
    let (target, tip) = (yard.target().await, yard.lab.oid(&yard.main, "task").await);
    let before = (yard.snap().await, files(&yard.main.join(".git")));
    let seen = preview(&yard.repo, &yard.scratch, &target, &tip).await.unwrap();
    assert_eq!((yard.snap().await, files(&yard.main.join(".git"))), before, "not even an object is new");
    assert_eq!((seen.clean, &seen.target, &seen.tip), (false, &target, &tip));
    assert_eq!((seen.ahead, seen.behind), (1, 1));
    let conflicts: Vec<_> = seen.files.iter().map(|f| (f.path.to_string(), f.kinds.join(","))).collect();
    assert_eq!(conflicts, [("a.txt".into(), "contents".into()), ("dropped.txt".to_owned(), "modify/delete".to_owned())]);
    assert!(seen.files.iter().all(|f| !f.messages.is_empty()));

    assert!(!yard.lab.try_git(&yard.main, &["merge", "--no-ff", "task"]).await.ok());
    let real = yard.lab.git_in(&yard.main, &["diff", "--name-only", "--diff-filter=U"]).await;
    assert_eq!(real, "a.txt\ndropped.txt");
}

#[tokio::test]
async fn a_clean_preview_counts_files_and_distance() {
    let yard = Yard::new().await;
    yard.work("b.txt", "b\n").await;
    let tip = yard.work("c.txt", "c\n").await;
    let target = yard.others("d.txt", "d\n").await;
    let seen = preview(&yard.repo, &yard.scratch, &target, &tip).await.unwrap();
    assert_eq!((seen.clean, seen.changed_files, seen.ahead, seen.behind), (true, 2, 2, 1));
    assert!(seen.files.is_empty());
    let again = preview(&yard.repo, &yard.scratch, &target, &target).await.unwrap();
    assert_eq!((again.clean, again.changed_files, again.ahead), (true, 0, 0));
}

/// C5
#[tokio::test]
async fn ten_at_once_while_somebody_commits_agree() {
    let yard = conflicting().await;
    let (target, tip) = (yard.target().await, yard.lab.oid(&yard.main, "task").await);
    let wanted = preview(&yard.repo, &yard.scratch, &target, &tip).await.unwrap();
    let committing = async {
        for n in 0..10 {
            yard.work("busy.txt", &format!("{n}\n")).await;
        }
    };
    let looking = futures_of(10, || preview(&yard.repo, &yard.scratch, &target, &tip));
    let (seen, ()) = tokio::join!(looking, committing);
    for one in seen {
        assert_eq!(one.unwrap(), wanted);
    }
    assert_eq!(yard.status(&yard.task).await, "");
}

/// Runs `count` futures together.
async fn futures_of<F: Future>(count: usize, make: impl Fn() -> F) -> Vec<F::Output> {
    let mut waiting: Vec<_> = (0..count).map(|_| Box::pin(make())).collect();
    let mut done: Vec<Option<F::Output>> = (0..count).map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, slot) in waiting.iter_mut().zip(&mut done).filter(|(_, slot)| slot.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(cx) {
                *slot = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// C5: a merge insists on the commits the preview named.
#[tokio::test]
async fn a_head_that_moved_after_the_preview_is_noticed_by_landing() {
    let yard = Yard::new().await;
    yard.work("b.txt", "b\n").await;
    let made = yard.compute(Strategy::Merge).await.unwrap();
    yard.others("c.txt", "c\n").await;
    assert!(matches!(yard.land(&made.target_before, &made.commit).await, Err(Error::Moved { .. })));
}

#[tokio::test]
async fn merge_drivers_are_those_of_the_target_not_of_the_checkout() {
    let yard = Yard::new().await;
    yard.others(".gitattributes", "a.txt merge=union\n").await;
    yard.work("a.txt", "theirs\n").await;
    let target = yard.others("a.txt", "ours\n").await;
    let tip = yard.lab.oid(&yard.main, "task").await;
    yard.lab.git_in(&yard.main, &["checkout", "-q", "task", "--detach"]).await;
    assert!(preview(&yard.repo, &yard.scratch, &target, &tip).await.unwrap().clean);
}

#[tokio::test]
async fn unrelated_histories_and_missing_commits_are_errors() {
    let yard = Yard::new().await;
    let target = yard.target().await;
    yard.lab.git_in(&yard.task, &["checkout", "-q", "--orphan", "other"]).await;
    let other = yard.lab.commit(&yard.task, "root").await;
    let error = preview(&yard.repo, &yard.scratch, &target, &other).await.unwrap_err();
    assert!(matches!(error, Error::UnrelatedHistories { .. }), "{error}");
    assert!(preview(&yard.repo, &yard.scratch, &target, &target.null()).await.is_err());
}

#[tokio::test]
async fn containment_is_about_branches_that_exist() {
    let yard = Yard::new().await;
    let base = yard.target().await;
    let tip = yard.work("b.txt", "b\n").await;
    for (branch, commit, wanted) in
        [("main", &base, true), ("task", &base, true), ("task", &tip, true), ("main", &tip, false), ("no", &tip, false)]
    {
        assert_eq!(history::contains(&yard.repo, branch, commit).await.unwrap(), wanted, "{branch}");
    }
    assert!(!history::contains(&yard.repo, "main", &tip.null()).await.unwrap());
}
