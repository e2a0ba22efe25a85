//! A conflict left open: nothing of the user's changes, it survives a restart, and it is concluded only when resolved.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::{STRATEGIES, Yard, author};
use pretty_assertions::assert_eq;
use std::path::PathBuf;
use support::{read, script, write};
use taskyard_domain::merge::Strategy;
use taskyard_git::merge::Computed;
use taskyard_git::open_merge::{Continued, OpenMerge, abort_merge, continue_merge, holds_work, open_conflicted_merge, open_merge};
use taskyard_git::{Error, Result, history};

struct Opened {
    yard: Yard,
    place: PathBuf,
}

impl Opened {
    /// A task and main that both changed `a.txt`, and an agent's file `b.txt` beside it.
    async fn new(strategy: Strategy) -> Self {
        let yard = Yard::new().await;
        yard.work("a.txt", "theirs\n").await;
        yard.work("b.txt", "b\n").await;
        yard.others("a.txt", "ours\n").await;
        let place = yard.lab.path("merges/m1");
        let opened = Self { yard, place };
        let seen = opened.open(strategy).await.unwrap();
        assert_eq!(seen.files.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
        opened
    }

    async fn open(&self, strategy: Strategy) -> Result<OpenMerge> {
        let request = self.yard.request(strategy).await;
        open_conflicted_merge(&self.yard.repo, &self.yard.scratch, &self.place, "main", &request, None).await
    }

    async fn go_on(&self) -> Result<Continued> {
        continue_merge(&self.yard.repo, &self.yard.scratch, &self.place, &author()).await
    }

    async fn resolve(&self, name: &str, content: &str) {
        write(&self.place, name, content);
        self.yard.lab.git_in(&self.place, &["add", name]).await;
    }

    async fn concluded(&self) -> Computed {
        match self.go_on().await.unwrap() {
            Continued::Concluded(computed) => computed,
            Continued::Stopped(open) => panic!("{open:?}"),
        }
    }
}

#[tokio::test]
async fn a_conflict_is_resolved_and_lands_by_every_strategy() {
    for strategy in STRATEGIES {
        let open = Opened::new(strategy).await;
        let yard = &open.yard;
        let main = (read(&yard.main, "a.txt"), yard.status(&yard.main).await, yard.target().await);
        assert!(read(&open.place, "a.txt").contains("<<<<<<<"), "{strategy:?}");
        assert_eq!(open.open(strategy).await.unwrap(), open_merge(&yard.repo, &open.place).await.unwrap(), "opening twice is once");
        open.resolve("a.txt", "both\n").await;
        assert_eq!((read(&yard.main, "a.txt"), yard.status(&yard.main).await, yard.target().await), main);
        let made = open.concluded().await;
        assert_eq!(open.concluded().await, made, "concluding twice is once");
        let parents = history::parents(&yard.repo, &made.commit).await.unwrap();
        assert_eq!(parents.len(), if strategy == Strategy::Merge { 2 } else { 1 });
        yard.land(&made.target_before, &made.commit).await.unwrap();
        abort_merge(&yard.repo, &open.place).await.unwrap();
        abort_merge(&yard.repo, &open.place).await.unwrap();
        yard.release().await;
        assert_eq!((read(&yard.main, "a.txt"), read(&yard.main, "b.txt")), ("both\n".into(), "b\n".into()));
        assert_eq!(yard.status(&yard.main).await, "");
        assert_eq!(yard.lab.git_in(&yard.main, &["worktree", "list"]).await.lines().count(), 2);
        assert!(!open.place.exists());
    }
}

#[tokio::test]
async fn what_is_not_resolved_is_refused_and_named() {
    for strategy in STRATEGIES {
        let open = Opened::new(strategy).await;
        let refused = |error: Error| match error {
            Error::Unresolved { reason, files, .. } => (reason, files),
            other => panic!("{strategy:?}: {other}"),
        };
        let (reason, files) = refused(open.go_on().await.unwrap_err());
        assert!(reason.contains("unmerged") && files == ["a.txt"], "{reason}");
        open.yard.lab.git_in(&open.place, &["add", "a.txt"]).await;
        let (reason, files) = refused(open.go_on().await.unwrap_err());
        assert!(reason.contains("markers") && files == ["a.txt"], "{reason}");
        open.resolve("a.txt", "both\n").await;
        write(&open.place, "a.txt", "both, edited since\n");
        write(&open.place, "new.txt", "new\n");
        let (reason, files) = refused(open.go_on().await.unwrap_err());
        assert!(reason.contains("staged") && files == ["a.txt", "new.txt"], "{reason}");
        open.yard.lab.git_in(&open.place, &["add", "-A"]).await;
        let made = open.concluded().await;
        assert_eq!(open.yard.show(&made.commit, "new.txt").await, "new");
    }
}

#[tokio::test]
async fn aborting_takes_everything_away() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        yard.work("a.txt", "theirs\n").await;
        yard.others("a.txt", "ours\n").await;
        let before = yard.snap().await;
        let place = yard.lab.path("merges/m1");
        let request = yard.request(strategy).await;
        open_conflicted_merge(&yard.repo, &yard.scratch, &place, "main", &request, None).await.unwrap();
        abort_merge(&yard.repo, &place).await.unwrap();
        assert_eq!(yard.snap().await, before, "{strategy:?}");
        assert!(matches!(open_merge(&yard.repo, &place).await, Err(Error::NoOpenMerge { .. })));
        assert!(matches!(continue_merge(&yard.repo, &yard.scratch, &place, &author()).await, Err(Error::NoOpenMerge { .. })));
    }
}

#[tokio::test]
async fn a_resolution_is_carried_over_to_a_target_that_moved() {
    for strategy in STRATEGIES {
        for hooks in [false, true] {
            let open = Opened::new(strategy).await;
            let yard = &open.yard;
            if hooks {
                script(&yard.main.join(".git/hooks/commit-msg"), "exit 0");
            }
            open.resolve("a.txt", "both\n").await;
            let moved = yard.others("c.txt", "c\n").await;
            let tip = yard.request(strategy).await.tip;
            let made = open.concluded().await;
            assert_eq!((open.concluded().await, &made.target_before), (made.clone(), &moved), "{strategy:?}: once");
            let parents = history::parents(&yard.repo, &made.commit).await.unwrap();
            match strategy {
                Strategy::Merge => assert_eq!(parents, [moved.clone(), tip]),
                Strategy::Squash => assert_eq!(parents, std::slice::from_ref(&moved)),
                Strategy::Rebase => assert!(history::is_ancestor(&yard.repo, &moved, &made.commit).await.unwrap()),
            }
            for (name, content) in [("a.txt", "both"), ("b.txt", "b"), ("c.txt", "c")] {
                assert_eq!(yard.show(&made.commit, name).await, content, "{strategy:?}");
            }
            if strategy != Strategy::Rebase {
                let said = yard.lab.git_in(&yard.main, &["log", "-1", "--format=%B", made.commit.as_str()]).await;
                assert_eq!(said.trim(), "Merge the task\n\nWith a body.");
            }
            yard.land(&made.target_before, &made.commit).await.unwrap();
            assert_eq!(yard.status(&yard.main).await, "");
            assert!(!holds_work(&yard.repo, &open.place, true).await.unwrap(), "all of it landed");
        }
    }
}

#[tokio::test]
async fn a_target_that_moved_into_the_resolution_is_taken_in_by_hand() {
    for strategy in STRATEGIES {
        let open = Opened::new(strategy).await;
        let yard = &open.yard;
        open.resolve("a.txt", "both\n").await;
        let moved = yard.others("a.txt", "later\n").await;
        for _ in 0..2 {
            let error = open.go_on().await.unwrap_err();
            assert!(matches!(&error, Error::Conflict { ours, files, .. } if *ours == moved && files == &["a.txt"]), "{error}");
            assert_eq!((read(&open.place, "a.txt"), yard.status(&open.place).await), ("both\n".into(), String::new()));
        }
        assert!(holds_work(&yard.repo, &open.place, false).await.unwrap());
        let take_in = if strategy == Strategy::Rebase { "rebase" } else { "merge" };
        assert!(!yard.lab.try_git(&open.place, &[take_in, "main"]).await.ok());
        open.resolve("a.txt", "all three\n").await;
        let made = open.concluded().await;
        assert_eq!((yard.show(&made.commit, "a.txt").await, &made.target_before), ("all three".into(), &moved), "{strategy:?}");
        if strategy != Strategy::Rebase {
            assert_eq!(history::parents(&yard.repo, &made.commit).await.unwrap()[0], moved);
        }
        yard.land(&made.target_before, &made.commit).await.unwrap();
    }
}

#[tokio::test]
async fn a_target_that_went_back_doesnt_come_back_with_the_resolution() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        yard.work("a.txt", "theirs\n").await;
        yard.others("a.txt", "ours\n").await;
        yard.others("mistake.txt", "x\n").await;
        let open = Opened { place: yard.lab.path("merges/m1"), yard };
        open.open(strategy).await.unwrap();
        open.resolve("a.txt", "both\n").await;
        open.yard.lab.git_in(&open.yard.main, &["reset", "-q", "--hard", "HEAD~1"]).await;
        let made = open.concluded().await;
        let names = open.yard.lab.git_in(&open.yard.main, &["ls-tree", "--name-only", made.commit.as_str()]).await;
        assert!(!names.contains("mistake.txt") && made.target_before == open.yard.target().await, "{strategy:?}: {names}");
        assert_eq!(open.yard.show(&made.commit, "a.txt").await, "both");
    }
}

#[tokio::test]
async fn what_git_put_there_is_nobodys_and_everything_else_is_somebodys() {
    for strategy in STRATEGIES {
        for step in ["nothing", "resolved", "edited", "new", "ignored", "committed"] {
            let open = Opened::new(strategy).await;
            let yard = &open.yard;
            match step {
                "resolved" => open.resolve("a.txt", "both\n").await,
                "edited" => write(&open.place, "a.txt", "half way\n"),
                "new" => write(&open.place, "notes.txt", "x\n"),
                "ignored" => {
                    write(&yard.main, ".git/info/exclude", "*.log\n");
                    write(&open.place, "build.log", "x\n");
                }
                "committed" => {
                    open.resolve("a.txt", "both\n").await;
                    open.concluded().await;
                }
                _ => {}
            }
            let expected = !matches!(step, "nothing" | "ignored");
            assert_eq!(holds_work(&yard.repo, &open.place, false).await.unwrap(), expected, "{strategy:?} {step}");
        }
    }
}

#[tokio::test]
async fn a_revert_that_cant_be_undone_any_more_is_left_open_too() {
    for strategy in STRATEGIES {
        for more in [false, true] {
            let yard = Yard::new().await;
            yard.work("a.txt", "theirs\n").await;
            yard.work("b.txt", "b\n").await;
            let made = yard.merge(strategy).await;
            let reverted = yard.revert(&made).await;
            if more {
                yard.work("more.txt", "more\n").await;
            }
            yard.others("a.txt", "ours\n").await;
            let place = yard.lab.path("merges/m1");
            let (request, earlier) = (yard.request(strategy).await, merging::earlier(&made, &reverted));
            let changed = earlier.changed_paths(&yard.repo, &yard.scratch, &request.base, &request.tip).await.unwrap();
            assert_eq!(changed.len(), if more { 3 } else { 2 });
            let open = Opened { yard, place };
            let (yard, place) = (&open.yard, &open.place);
            let seen = open_conflicted_merge(&yard.repo, &yard.scratch, place, "main", &request, Some(&earlier)).await.unwrap();
            assert_eq!(seen.files.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"], "{strategy:?}");
            open.resolve("a.txt", "both\n").await;
            let second = open.concluded().await;
            assert_eq!((yard.show(&second.commit, "b.txt").await, yard.show(&second.commit, "a.txt").await), ("b".into(), "both".into()));
            yard.land(&second.target_before, &second.commit).await.unwrap();
            assert_eq!(yard.main.join("more.txt").exists(), more);
        }
    }
}

#[tokio::test]
async fn a_refusing_hook_leaves_the_merge_open() {
    for strategy in [Strategy::Merge, Strategy::Squash] {
        let open = Opened::new(strategy).await;
        open.resolve("a.txt", "both\n").await;
        let hook = open.yard.main.join(".git/hooks/pre-commit");
        script(&hook, "echo secret found; exit 1");
        let error = open.go_on().await.unwrap_err();
        assert!(matches!(&error, Error::HookFailed { text, .. } if text.contains("secret found")), "{error}");
        script(&hook, "exit 0");
        open.concluded().await;
    }
}

#[tokio::test]
async fn a_rebase_stops_at_each_commit_that_conflicts() {
    let yard = Yard::new().await;
    yard.work("a.txt", "one\n").await;
    yard.work("a.txt", "two\n").await;
    yard.others("a.txt", "ours\n").await;
    let open = Opened { place: yard.lab.path("merges/m1"), yard };
    open.open(Strategy::Rebase).await.unwrap();
    open.resolve("a.txt", "ours one\n").await;
    let Continued::Stopped(again) = open.go_on().await.unwrap() else { panic!("it should stop again") };
    assert_eq!(again.files.len(), 1);
    open.resolve("a.txt", "ours two\n").await;
    let made = open.concluded().await;
    assert_eq!(open.yard.show(&made.commit, "a.txt").await, "ours two");
    let log = open.yard.lab.git_in(&open.yard.main, &["log", "--format=%an/%cn", "-2", made.commit.as_str()]).await;
    assert_eq!(log, "t/Taskyard\nt/Taskyard");
}

#[tokio::test]
async fn a_rebase_resolved_to_nothing_is_said() {
    let open = Opened::new(Strategy::Rebase).await;
    open.resolve("a.txt", "ours\n").await;
    let made = open.concluded().await;
    assert_eq!(open.yard.lab.git_in(&open.yard.main, &["diff", "--name-only", "main", made.commit.as_str()]).await, "b.txt");
}

#[tokio::test]
async fn a_person_may_commit_by_hand_but_only_the_merge() {
    for strategy in STRATEGIES {
        let open = Opened::new(strategy).await;
        open.resolve("a.txt", "both\n").await;
        let by_hand: &[&str] = if strategy == Strategy::Rebase {
            &["-c", "core.editor=true", "rebase", "--continue"]
        } else {
            &["commit", "-q", "-m", "mine"]
        };
        open.yard.lab.git_in(&open.place, by_hand).await;
        let made = open.concluded().await;
        assert_eq!(open.yard.show(&made.commit, "a.txt").await, "both");
    }
    let open = Opened::new(Strategy::Merge).await;
    open.yard.lab.git_in(&open.place, &["reset", "-q", "--hard"]).await;
    let error = open.go_on().await.unwrap_err();
    assert!(matches!(error, Error::NotTheMerge { .. }), "{error}");
}

#[tokio::test]
async fn deletions_renames_and_binary_files_are_laid_out_as_git_would() {
    let yard = Yard::new().await;
    std::fs::write(yard.main.join("data.bin"), [0, 1]).unwrap();
    yard.others("gone.txt", "1\n").await;
    yard.lab.git_in(&yard.task, &["merge", "-q", "--ff-only", "main"]).await;
    std::fs::remove_file(yard.task.join("gone.txt")).unwrap();
    std::fs::write(yard.task.join("data.bin"), [0, 2]).unwrap();
    yard.work("b.txt", "b\n").await;
    std::fs::write(yard.main.join("data.bin"), [0, 3]).unwrap();
    yard.others("gone.txt", "2\n").await;
    let place = yard.lab.path("merges/m1");
    let request = yard.request(Strategy::Merge).await;
    open_conflicted_merge(&yard.repo, &yard.scratch, &place, "main", &request, None).await.unwrap();
    let ours = yard.lab.git_in(&place, &["status", "--porcelain=v2"]).await;
    assert!(!yard.lab.try_git(&yard.main, &["merge", "--no-ff", "task"]).await.ok());
    assert_eq!(ours, yard.lab.git_in(&yard.main, &["status", "--porcelain=v2"]).await);
}

/// A crash while the conflict was being laid out, and one after the commit.
#[tokio::test]
async fn an_opening_that_was_cut_off_starts_over() {
    let open = Opened::new(Strategy::Squash).await;
    let git_dir = open.yard.lab.git_in(&open.place, &["rev-parse", "--absolute-git-dir"]).await;
    let state = PathBuf::from(git_dir).join("taskyard-merge.json");
    let cut = read(state.parent().unwrap(), "taskyard-merge.json").replace("\"ready\":true", "\"ready\":false");
    std::fs::write(&state, cut).unwrap();
    open.yard.lab.git_in(&open.place, &["read-tree", "--empty"]).await;
    assert!(matches!(open.go_on().await, Err(Error::NoOpenMerge { .. })));
    assert_eq!(open.open(Strategy::Squash).await.unwrap().files.len(), 1);
    open.resolve("a.txt", "both\n").await;
    let made = open.concluded().await;
    let cut = std::fs::read_to_string(&state).unwrap().replace(&format!("\"concluded\":\"{}\"", made.commit), "\"concluded\":null");
    std::fs::write(&state, cut).unwrap();
    assert_eq!(open.concluded().await.commit, made.commit);
}

#[tokio::test]
async fn a_conflict_in_merging_again_is_left_open_on_the_undone_revert() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        yard.work("b.txt", "first\n").await;
        let made = yard.merge(strategy).await;
        let reverted = yard.revert(&made).await;
        yard.work("a.txt", "theirs\n").await;
        yard.others("a.txt", "ours\n").await;
        let place = yard.lab.path("merges/m1");
        let (request, earlier) = (yard.request(strategy).await, merging::earlier(&made, &reverted));
        let open = Opened { yard, place };
        let (yard, place) = (&open.yard, &open.place);
        let seen = open_conflicted_merge(&yard.repo, &yard.scratch, place, "main", &request, Some(&earlier)).await.unwrap();
        assert_eq!(seen.files.len(), 1, "{strategy:?}");
        open.resolve("a.txt", "both\n").await;
        let second = open.concluded().await;
        assert_eq!(second.target_before, yard.target().await);
        assert_eq!((yard.show(&second.commit, "b.txt").await, yard.show(&second.commit, "a.txt").await), ("first".into(), "both".into()));
        yard.land(&second.target_before, &second.commit).await.unwrap();
    }
}

#[tokio::test]
async fn sweeping_removes_scratch_trees_but_not_open_merges() {
    let open = Opened::new(Strategy::Merge).await;
    let yard = &open.yard;
    let left = yard.lab.path("merges/left");
    yard.lab.git_in(&yard.main, &["worktree", "add", "-q", "--detach", left.to_str().unwrap()]).await;
    let root = yard.lab.path("merges");
    let swept = taskyard_git::scratch::sweep(&yard.repo, &root, std::slice::from_ref(&open.place)).await.unwrap();
    assert_eq!((swept, left.exists(), open.place.exists()), (1, false, true));
}
