//! A server that dies after any step: the next start finishes the merge or gives it up, and each step can be repeated.

use super::yard::{Work, Yard, about, operator};
use crate::Caller;
use crate::merge::begin::Begun;
use crate::merge::{OnConflict, Wish};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::audit::Action;
use taskyard_domain::merge::{MergeRecord, State, Strategy};
use taskyard_domain::task::Status;
use taskyard_domain::worktree;

/// After which step the server dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begun,
    Computed,
    Landed,
    Concluded,
}

const STEPS: [Step; 4] = [Step::Begun, Step::Computed, Step::Landed, Step::Concluded];

fn wish(strategy: Strategy) -> Wish {
    Wish { strategy, target: None, message: None, expected_head: None, on_conflict: OnConflict::Abort, is_approval: true }
}

/// Runs a merge up to `last`, each step `times` times.
async fn merge_until(yard: &Yard, work: &Work, strategy: Strategy, last: Step, times: usize) {
    let engine = &yard.engine;
    let place = engine.place_of(work.worktree).await.unwrap().unwrap();
    let bench = engine.bench(&place.repository).await.unwrap();
    let Begun::Record(record, _) = engine.begin_merge(&operator(), &bench, &place, &wish(strategy)).await.unwrap() else {
        panic!("nothing to merge")
    };
    carry_on(yard, &bench, *record, last, times).await;
}

async fn carry_on(yard: &Yard, bench: &crate::merge::Bench, record: MergeRecord, last: Step, times: usize) {
    let engine = &yard.engine;
    let mut computed = None;
    for _ in 0..times {
        if last >= Step::Computed {
            computed = Some(engine.compute_step(bench, &record, None).await.ok().unwrap());
        }
    }
    let Some(computed) = computed else { return };
    for _ in 0..times {
        if last >= Step::Landed {
            engine.land_step(bench, &computed).await.unwrap();
        }
    }
    for _ in 0..times {
        if last >= Step::Concluded {
            engine.conclude_step(&Caller::system(), bench, &computed).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_merge_cut_off_after_any_step_is_finished_or_undone() {
    for strategy in [Strategy::Merge, Strategy::Squash, Strategy::Rebase] {
        for last in STEPS {
            let yard = Yard::new().await;
            let work = yard.task("Add b").await;
            yard.work(&work, "b.txt", "b\n").await;
            yard.others("c.txt", "c\n").await;
            let before = yard.snap().await;
            merge_until(&yard, &work, strategy, last, 1).await;
            let after = yard.restarted();
            for _ in 0..2 {
                after.reconcile_merges().await.unwrap();
            }
            for lane in crate::effect::Lane::ALL {
                after.run_due_effects(lane).await.unwrap();
            }
            let record = yard.records(work.task).await.remove(0);
            if last < Step::Landed {
                assert_eq!((record.state, yard.status(work.task).await), (State::Aborted, Status::WaitingForReview), "{strategy} {last:?}");
                assert_eq!(yard.snap().await, before, "{strategy} {last:?}: nothing has changed");
            } else {
                assert_eq!((record.state, yard.status(work.task).await), (State::Landed, Status::Done), "{strategy} {last:?}");
                assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
                assert!(yard.repo.path().join("b.txt").exists() && !work.path.exists());
            }
            assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "", "{strategy} {last:?}");
        }
    }
}

#[tokio::test]
async fn after_a_crash_the_same_call_comes_to_the_same_end() {
    for last in STEPS {
        let yard = Yard::new().await;
        let work = yard.task("Add b").await;
        yard.work(&work, "b.txt", "b\n").await;
        merge_until(&yard, &work, Strategy::Merge, last, 1).await;
        let again = yard.restarted().review_task(&operator(), about(&work, json!({ "decision": "approve" }))).await;
        if last == Step::Concluded {
            assert_eq!(again.unwrap_err().class, Class::FailedPrecondition);
        } else {
            assert!(again.unwrap().merged, "{last:?}");
        }
        assert_eq!(yard.git(&["rev-list", "--count", "--merges", "main"]).await, "1", "{last:?}");
        assert_eq!(yard.status(work.task).await, Status::Done);
    }
}

/// What happened isn't told as a failure, and the next start ends it.
#[tokio::test]
async fn a_merge_that_lands_but_cant_be_recorded_says_that_it_landed() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Landed, 1).await;
    let record = yard.records(work.task).await.remove(0);
    let place = yard.engine.place_of(work.worktree).await.unwrap().unwrap();
    let bench = yard.engine.bench(&place.repository).await.unwrap();
    yard.engine.store().close().await;
    let told = yard.engine.conclude_surely(&operator(), &bench, &record).await.unwrap_err();
    assert_eq!(told.class, Class::Unavailable);
    let details = told.details.unwrap();
    assert_eq!((&details["landed"], &details["commit"]), (&json!(true), &json!(record.target_after)));
    let after = yard.reopened().await;
    after.reconcile_merges().await.unwrap();
    let task = work.task;
    let row = after.store().read(move |read| Box::pin(async move { read.task_fetch(task).await })).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Done);
}

/// Nothing is built on a merge that isn't at its end: the refusal names whose it is and what stands in its way.
#[tokio::test]
async fn a_merge_whose_tree_cant_follow_stops_the_next_one_into_its_target() {
    let yard = Yard::new().await;
    let (first, second) = (yard.task("Add b").await, yard.task("Add c").await);
    yard.work(&first, "b.txt", "b\n").await;
    yard.work(&second, "c.txt", "c\n").await;
    merge_until(&yard, &first, Strategy::Merge, Step::Computed, 1).await;
    let record = yard.records(first.task).await.remove(0);
    yard.git(&["update-ref", "refs/heads/main", record.target_after.as_deref().unwrap()]).await;
    yard.repo.write("b.txt", "the user's own\n").unwrap();
    let before = yard.snap().await;
    let told = yard.approve(&second).await.unwrap_err();
    assert!(told.message.contains(&first.short) && format!("{told:?}").contains("b.txt"), "{told:?}");
    assert_eq!((yard.snap().await, yard.status(second.task).await), (before, Status::WaitingForReview));
    std::fs::remove_file(yard.repo.path().join("b.txt")).unwrap();
    yard.approve(&second).await.unwrap();
    assert_eq!((yard.status(first.task).await, yard.status(second.task).await), (Status::Done, Status::Done));
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_merge_cut_off_before_its_tree_followed_is_ended_before_the_next_one_lands() {
    let yard = Yard::new().await;
    let (first, second) = (yard.task("Add b").await, yard.task("Add c").await);
    yard.work(&first, "b.txt", "b\n").await;
    yard.work(&second, "c.txt", "c\n").await;
    merge_until(&yard, &first, Strategy::Merge, Step::Computed, 1).await;
    let record = yard.records(first.task).await.remove(0);
    // The target has moved, and nobody got to the user's checkout.
    yard.git(&["update-ref", "refs/heads/main", record.target_after.as_deref().unwrap()]).await;
    yard.approve(&second).await.unwrap();
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
    assert!(yard.repo.path().join("b.txt").exists() && yard.repo.path().join("c.txt").exists());
    assert_eq!((yard.status(first.task).await, yard.status(second.task).await), (Status::Done, Status::Done));
}

#[tokio::test]
async fn every_step_of_a_merge_can_be_repeated() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Concluded, 2).await;
    let id = yard.records(work.task).await[0].id;
    for _ in 0..2 {
        yard.engine.finish_merge(id).await.unwrap();
    }
    yard.effects().await;
    assert_eq!(yard.git(&["rev-list", "--count", "--merges", "main"]).await, "1");
    assert_eq!((yard.status(work.task).await, yard.worktree(work.worktree).await.state), (Status::Done, worktree::State::Merged));
    assert!(!work.path.exists());
}

#[tokio::test]
async fn a_revert_cut_off_after_any_step_is_finished_or_undone() {
    for last in STEPS {
        for times in [1, 2] {
            let yard = Yard::new().await;
            let work = yard.task("Add b").await;
            yard.work(&work, "b.txt", "b\n").await;
            yard.approve(&work).await.unwrap();
            yard.effects().await;
            let before = yard.snap().await;
            let place = yard.engine.place_of(work.worktree).await.unwrap().unwrap();
            let bench = yard.engine.bench(&place.repository).await.unwrap();
            let record = yard.engine.begin_revert(&operator(), &bench, &place, None).await.unwrap();
            carry_on(&yard, &bench, record, last, times).await;
            let after = yard.restarted();
            after.reconcile_merges().await.unwrap();
            for lane in crate::effect::Lane::ALL {
                after.run_due_effects(lane).await.unwrap();
            }
            let states: Vec<State> = yard.records(work.task).await.iter().map(|r| r.state).collect();
            if last < Step::Landed {
                assert_eq!((states, yard.status(work.task).await), (vec![State::Landed, State::Aborted], Status::Done), "{last:?}");
                assert_eq!(yard.snap().await, before, "{last:?}");
            } else {
                let done = (vec![State::Reverted, State::Landed], Status::WaitingForReview);
                assert_eq!((states, yard.status(work.task).await), done, "{last:?}");
                assert!(!yard.repo.path().join("b.txt").exists());
                assert_eq!(yard.worktree(work.worktree).await.state, worktree::State::Kept);
            }
            assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "", "{last:?}");
        }
    }
}

#[tokio::test]
async fn a_task_that_moved_on_meanwhile_keeps_its_status_and_the_merge_is_recorded() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Landed, 1).await;
    yard.set(work.task, |task| task.status = Status::Cancelled).await;
    yard.restarted().reconcile_merges().await.unwrap();
    assert_eq!((yard.status(work.task).await, yard.records(work.task).await[0].state), (Status::Cancelled, State::Landed));
    assert_eq!(yard.worktree(work.worktree).await.state, worktree::State::Merged);
}

#[tokio::test]
async fn a_resolution_cut_off_before_it_landed_stays_open() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    yard.others("a.txt", "main\n").await;
    let open = yard.merge(&work, json!({ "on_conflict": "leave_open" })).await.unwrap();
    let path = std::path::PathBuf::from(open.merge_worktree_path.unwrap());
    std::fs::write(path.join("a.txt"), "both\n").unwrap();
    yard.repo.git_in(&path, &["add", "a.txt"]).await.unwrap();
    let mut record = yard.records(work.task).await.remove(0);
    record.state = State::Computed;
    record.target_after = Some(record.tip.clone());
    yard.engine.store_noted(&operator(), record, Action::MergeContinued, json!({})).await.unwrap();
    yard.restarted().reconcile_merges().await.unwrap();
    assert_eq!(yard.records(work.task).await[0].state, State::Open);
    assert!(yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap().merged);
    assert_eq!(yard.show("main", "a.txt").await.as_deref(), Some("both"));
}

#[tokio::test]
async fn a_target_that_moved_without_its_tree_is_completed() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Computed, 1).await;
    let commit = yard.records(work.task).await[0].target_after.clone().unwrap();
    yard.git(&["update-ref", "refs/heads/main", &commit]).await;
    yard.repo.write("a.txt", "mine\n").unwrap();
    let after = yard.restarted();
    after.reconcile_merges().await.unwrap();
    assert_eq!(yard.records(work.task).await[0].state, State::Computed, "the user's edit is in the way");
    assert_eq!(std::fs::read_to_string(yard.repo.path().join("a.txt")).unwrap(), "mine\n");
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.message.contains("a.txt") && error.class == Class::FailedPrecondition, "{error}");
    yard.repo.write("a.txt", "a.txt\n").unwrap();
    let done = yard.approve(&work).await.unwrap();
    assert_eq!(done.merge.unwrap().commit, commit);
    assert_eq!((yard.git(&["status", "--porcelain"]).await.as_str(), yard.status(work.task).await), ("", Status::Done));
}

#[tokio::test]
async fn a_target_without_its_tree_is_completed_by_itself_and_what_goes_on_is_passed_by() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Computed, 1).await;
    let commit = yard.records(work.task).await[0].target_after.clone().unwrap();
    yard.git(&["update-ref", "refs/heads/main", &commit]).await;
    let place = yard.engine.place_of(work.worktree).await.unwrap().unwrap();
    let turn = yard.engine.bench(&place.repository).await.unwrap().turn().await;
    tokio::time::timeout(std::time::Duration::from_secs(20), yard.engine.reconcile_merges()).await.unwrap().unwrap();
    assert_eq!(yard.records(work.task).await[0].state, State::Computed);
    drop(turn);
    yard.engine.reconcile_merges().await.unwrap();
    assert_eq!((yard.records(work.task).await[0].state, yard.status(work.task).await), (State::Landed, Status::Done));
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn nothing_starts_while_a_merge_goes_on() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Computed, 1).await;
    let reject = about(&work, json!({ "decision": "reject_park" }));
    let error = yard.engine.review_task(&operator(), reject).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    let error = yard.engine.run_task_now(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    let error = yard.engine.cancel_task(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    for word in ["cancelled", "ready", "done"] {
        let error = yard.engine.update_task_status(&operator(), about(&work, json!({ "status": word }))).await.unwrap_err();
        assert!(error.class == Class::Conflict || word != "cancelled", "{word}: {error}");
    }
    let error = yard.engine.update_task(&operator(), about(&work, json!({ "state": "cancelled" }))).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    let error = yard.engine.delete_task(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    assert_eq!(yard.status(work.task).await, Status::WaitingForReview);
}

#[tokio::test]
async fn private_refs_that_nothing_stands_for_are_dropped_at_the_next_start() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    merge_until(&yard, &work, Strategy::Merge, Step::Concluded, 1).await;
    yard.git(&["update-ref", "refs/taskyard/merges/preview-left", "main"]).await;
    yard.restarted().sweep_merges().await.unwrap();
    assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
}
