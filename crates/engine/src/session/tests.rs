//! The ground of a run: where it goes when its place is taken, and what it is made from after other tasks.

use crate::merge::tests::yard::{Work, Yard, about, input, operator};
use serde_json::json;
use std::path::Path;
use taskyard_domain::Class;
use taskyard_domain::worktree::{State, Worktree};

fn put_foreign(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("mine"), "mine").unwrap();
}

fn assert_untouched(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left, std::fs::read_to_string(folder.join("mine")).unwrap()), (vec!["mine".into()], "mine".to_owned()));
}

async fn store(yard: &Yard, worktree: Worktree) {
    yard.engine
        .store()
        .write(move |tx| {
            Box::pin(async move {
                tx.fixture();
                tx.worktree_update(&worktree).await
            })
        })
        .await
        .unwrap();
}

// A1
#[tokio::test]
async fn work_goes_on_beside_a_foreign_folder_that_took_its_place() {
    let yard = Yard::new().await;
    let work = yard.task("One").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap();
    put_foreign(&work.path);
    for _ in 0..2 {
        let stood = yard.stand(work.task).await.unwrap();
        assert_ne!(Path::new(&stood.path), work.path);
        assert_eq!((stood.id, &stood.branch, &yard.worktree(work.worktree).await.path), (work.worktree, &work.branch, &stood.path));
        assert_eq!(yard.repo.git_in(Path::new(&stood.path), &["rev-parse", "HEAD"]).await.unwrap(), tip);
        assert_untouched(&work.path);
    }
}

// A1
#[tokio::test]
async fn a_plan_that_is_no_longer_free_is_made_anew() {
    for branch_too in [false, true] {
        let yard = Yard::new().await;
        let work = yard.task("One").await;
        yard.git(&["worktree", "remove", "--force", work.path.to_str().unwrap()]).await;
        let half = Worktree { is_ready: false, has_folder: false, ..yard.worktree(work.worktree).await };
        store(&yard, half).await;
        put_foreign(&work.path);
        if branch_too {
            yard.others("c.txt", "c\n").await;
            yard.git(&["branch", "-f", &work.branch, "main"]).await;
        }
        let theirs = yard.git(&["rev-parse", &work.branch]).await;
        let stood = yard.stand(work.task).await.unwrap();
        assert!(Path::new(&stood.path) != work.path && (stood.branch != work.branch) == branch_too, "{stood:?}");
        assert_eq!(yard.git(&["rev-parse", &stood.branch]).await, stood.base_commit);
        assert_eq!(yard.git(&["rev-parse", &work.branch]).await, theirs);
        assert_untouched(&work.path);
        assert_eq!(yard.audited(work.worktree).await, ["worktree.moved"]);
    }
}

/// A task whose work went to `release`, which `main` lacks, and one that waited for it.
async fn chain(yard: &Yard) -> (Work, taskyard_domain::id::TaskId) {
    yard.git(&["branch", "release"]).await;
    let first = yard.task("First").await;
    yard.work(&first, "b.txt", "b\n").await;
    let second = yard.bare_task("Second").await;
    let link = json!({ "task_id": second.to_string(), "depends_on_task_id": first.short });
    yard.engine.add_task_dependency(&operator(), input(link)).await.unwrap();
    yard.merge(&first, json!({ "target_branch": "release" })).await.unwrap();
    (first, second)
}

#[tokio::test]
async fn a_task_starts_from_where_its_blockers_work_went() {
    let yard = Yard::new().await;
    let (_, second) = chain(&yard).await;
    let stood = yard.stand(second).await.unwrap();
    assert_eq!(stood.base_branch.as_deref(), Some("release"));
    assert!(Path::new(&stood.path).join("b.txt").exists());
}

#[tokio::test]
async fn a_named_base_without_the_blockers_work_is_refused_with_both_branches() {
    let yard = Yard::new().await;
    let (first, second) = chain(&yard).await;
    yard.set(second, |task| task.config.target_branch = Some("main".into())).await;
    let error = yard.stand(second).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    for word in [first.short.as_str(), "main", "release"] {
        assert!(error.message.contains(word), "{error}");
    }
    assert!(error.hint.unwrap().contains("target_branch"));
    yard.git(&["merge", "-q", "release"]).await;
    assert_eq!(yard.stand(second).await.unwrap().base_branch.as_deref(), Some("main"));
}

#[tokio::test]
async fn a_worktree_that_git_had_finished_before_the_crash_is_taken_over_and_one_it_had_not_is_taken_away() {
    let yard = Yard::new().await;
    let (finished, planned) = (yard.task("One").await, yard.task("Two").await);
    std::fs::write(finished.path.join("made by the setup script"), "x").unwrap();
    yard.git(&["worktree", "remove", "--force", planned.path.to_str().unwrap()]).await;
    for work in [&finished, &planned] {
        let half = Worktree { is_ready: false, has_folder: false, ..yard.worktree(work.worktree).await };
        store(&yard, half).await;
    }
    for _ in 0..2 {
        yard.restarted().reconcile_start().await.unwrap();
        let (stands, gone) = (yard.worktree(finished.worktree).await, yard.worktree(planned.worktree).await);
        assert_eq!((stands.state, stands.is_ready, stands.has_folder), (State::Active, true, true));
        assert_eq!((gone.state, gone.has_folder), (State::Discarded, false));
    }
    assert!(finished.path.join("made by the setup script").exists());
    assert_eq!(yard.audited(finished.worktree).await, ["worktree.adopted"], "once");
    assert_eq!(yard.audited(planned.worktree).await, ["worktree.discarded"], "once");
    assert_eq!(yard.stand(finished.task).await.unwrap().id, finished.worktree);
}

/// What somebody put where a cleaned-up folder was is theirs, locked or not.
#[tokio::test]
async fn a_persons_own_worktree_at_our_place_is_never_cleared() {
    let yard = Yard::new().await;
    for lock in [false, true] {
        let work = yard.task(if lock { "Locked" } else { "Open" }).await;
        yard.work(&work, "b.txt", "b\n").await;
        yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap();
        let (path, branch) = (work.path.to_str().unwrap(), format!("mine-{lock}"));
        let args: &[&str] =
            if lock { &["worktree", "add", "-q", "--lock", "-b", &branch, path] } else { &["worktree", "add", "-q", "-b", &branch, path] };
        yard.git(args).await;
        std::fs::write(work.path.join("mine.txt"), "mine").unwrap();
        yard.restarted().reconcile_start().await.unwrap();
        assert_eq!(std::fs::read_to_string(work.path.join("mine.txt")).unwrap(), "mine", "locked: {lock}");
        assert!(!yard.worktree(work.worktree).await.has_folder, "and it isn't the task's");
    }
}

/// Found by torture: the folder is made before it is recorded.
#[tokio::test]
async fn a_folder_that_was_being_put_back_at_the_crash_is_taken_over_or_cleared() {
    let yard = Yard::new().await;
    let (finished, unmarked, begun) = (yard.task("One").await, yard.task("Two").await, yard.task("Three").await);
    for work in [&finished, &unmarked, &begun] {
        let tip = yard.work(work, "b.txt", &work.short).await;
        yard.engine.cleanup_task_worktree(&operator(), about(work, json!({}))).await.unwrap();
        assert!(!work.path.exists());
        yard.stand(work.task).await.unwrap();
        let admin = yard.repo.git_in(&work.path, &["rev-parse", "--absolute-git-dir"]).await.unwrap();
        let admin = Path::new(admin.trim());
        if work.short != finished.short {
            std::fs::remove_file(admin.join("taskyard-finished")).unwrap();
        }
        if work.short == begun.short {
            std::fs::write(admin.join("locked"), "initializing").unwrap();
            std::fs::remove_file(work.path.join("b.txt")).unwrap();
        }
        assert_eq!((yard.worktree(work.worktree).await.has_folder, yard.git(&["rev-parse", &work.branch]).await), (false, tip));
    }
    for _ in 0..2 {
        yard.restarted().reconcile_start().await.unwrap();
        for (work, stands) in [(&finished, true), (&unmarked, true), (&begun, false)] {
            let row = yard.worktree(work.worktree).await;
            assert_eq!((row.state, row.has_folder, work.path.exists()), (State::Active, stands, stands), "{}", work.short);
            let told: &[&str] = if stands { &["worktree.removed", "worktree.adopted"] } else { &["worktree.removed"] };
            assert_eq!(yard.audited(work.worktree).await, told);
        }
    }
    assert_eq!(yard.git(&["worktree", "list"]).await.lines().count(), 3);
    for work in [&finished, &unmarked, &begun] {
        assert_eq!(std::fs::read_to_string(Path::new(&yard.stand(work.task).await.unwrap().path).join("b.txt")).unwrap(), work.short);
    }
}
