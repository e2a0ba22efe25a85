//! Claiming: who holds what, who doesn't, and what a claim leaves behind.

use crate::support::{Yard, input};
use serde_json::{Value, json};
use taskyard_domain::run::Kind;
use taskyard_domain::task::Status;
use taskyard_domain::{Class, Clock as _, Error};
use taskyard_engine::commands::output::{ClaimNextTaskOutput, ClaimTaskOutput, CompleteTaskOutput};

impl Yard {
    pub async fn claim(&self, item: &str, more: Value) -> Result<ClaimTaskOutput, Error> {
        let mut arguments = json!({ "workspace": "main", "backlog_item_id": item });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.engine.claim_task(&self.me(), input(arguments)).await
    }

    pub async fn complete(&self, run: &str, more: Value) -> Result<CompleteTaskOutput, Error> {
        let mut arguments = json!({ "workspace": "main", "run_id": run });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.engine.complete_task(&self.me(), input(arguments)).await
    }

    pub async fn next(&self, more: Value) -> ClaimNextTaskOutput {
        let mut arguments = json!({ "workspace": "main" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.engine.claim_next_task(&self.me(), input(arguments)).await.unwrap()
    }

    /// Actions and their metadata about `target`, oldest first.
    pub async fn audited(&self, target: &str) -> Vec<(String, Value)> {
        let found = self.engine.get_audit_log(&self.me(), input(json!({ "workspace": "main", "target_id": target }))).await.unwrap();
        found.entries.into_iter().rev().map(|entry| (entry.action, entry.metadata)).collect()
    }
}

#[tokio::test]
async fn a_claim_opens_a_run_and_gives_prompt_and_item() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "Fix it").await;
    yard.engine.workspace_prompt(&yard.me(), input(json!({ "workspace": "main", "prompt": "In {{workspace}}: {{title}}" }))).await.unwrap();
    let claimed = yard.claim(&item, json!({ "actor_user_id": "ada", "notes": "on it" })).await.unwrap();
    let task = yard.task(&item).await;
    assert!(claimed.claimed && !claimed.reclaimed);
    assert_eq!(claimed.workflow_prompt, "In main: Fix it");
    let snapshot = &claimed.backlog_item;
    assert_eq!(
        (snapshot.id.as_str(), snapshot.title.as_str(), snapshot.status.as_str()),
        (task.id.to_string().as_str(), "Fix it", "in_progress")
    );
    let runs = yard.engine.list_runs(&yard.me(), input(json!({ "task_id": item }))).await.unwrap().runs;
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!(
        (run.id.as_str(), run.kind.as_str(), run.actor.as_deref(), run.notes.as_deref()),
        (claimed.run_id.as_str(), "claimed", Some("ada"), Some("on it"))
    );
    assert_eq!((run.state.as_str(), run.session_id.as_deref(), run.task_id.as_str()), ("running", None, snapshot.id.as_str()));
    assert_eq!(run.started_at, yard.clock.now());
    let shown = yard.engine.get_task(&yard.me(), input(json!({ "task_id": item }))).await.unwrap();
    assert_eq!(shown.latest_run.map(|run| run.id), Some(claimed.run_id.clone()));
    let reasons = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap().reasons;
    assert!(reasons.iter().any(|reason| reason.starts_with(&format!("{item} is claimed by ada"))), "{reasons:?}");
    let expected = json!({ "backlog_item_id": task.id, "prior_status": "ready" });
    assert_eq!(yard.audited(&claimed.run_id).await, [("task.claimed".to_owned(), expected)]);
}

#[tokio::test]
async fn the_same_label_claims_again_and_nobody_else_does() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let first = yard.claim(&item, json!({ "actor_user_id": "ada", "notes": "one" })).await.unwrap();
    let again = yard.claim(&item, json!({ "actor_user_id": "ada" })).await.unwrap();
    assert!(again.reclaimed && again.run_id == first.run_id);
    assert_eq!((&again.workflow_prompt, &again.backlog_item.title), (&first.workflow_prompt, &first.backlog_item.title));
    let runs = yard.engine.list_runs(&yard.me(), input(json!({ "task_id": item }))).await.unwrap().runs;
    assert_eq!(runs.len(), 1, "one run, however often it is claimed");
    let notes = |run: &taskyard_engine::view::RunView| run.notes.clone();
    let run = || async { yard.engine.list_runs(&yard.me(), input(json!({ "task_id": item }))).await.unwrap().runs.remove(0) };
    assert_eq!(notes(&run().await).as_deref(), Some("one"), "without notes they stay");
    yard.claim(&item, json!({ "actor_user_id": "ada", "notes": "two" })).await.unwrap();
    assert_eq!(notes(&run().await).as_deref(), Some("two"));
    for other in [json!({ "actor_user_id": "bob" }), json!({})] {
        let error = yard.claim(&item, other).await.unwrap_err();
        let details = error.details.unwrap();
        assert_eq!(
            (error.class, details["actor"].as_str(), details["run_id"].as_str()),
            (Class::AlreadyClaimed, Some("ada"), Some(first.run_id.as_str()))
        );
    }
}

#[tokio::test]
async fn nobody_reclaims_an_anonymous_claim_but_its_key() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let first = yard.claim(&item, json!({ "idempotency_key": "k1" })).await.unwrap();
    let error = yard.claim(&item, json!({})).await.unwrap_err();
    assert_eq!((error.class, error.details.unwrap()["actor"].as_str()), (Class::AlreadyClaimed, Some("anonymous")));
    let replayed = yard.claim(&item, json!({ "idempotency_key": "k1" })).await.unwrap();
    assert!(replayed.replayed && replayed.run_id == first.run_id);
    let other = yard.claim(&item, json!({ "idempotency_key": "k1", "notes": "else" })).await.unwrap_err();
    assert_eq!(other.class, Class::Conflict);
}

#[tokio::test]
async fn only_what_nobody_works_on_moves_to_in_progress() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for (status, after) in [
        (Status::Draft, Status::InProgress),
        (Status::Ready, Status::InProgress),
        (Status::Queued, Status::InProgress),
        (Status::InProgress, Status::InProgress),
        (Status::WaitingForReview, Status::WaitingForReview),
        (Status::Done, Status::Done),
        (Status::Failed, Status::Failed),
        (Status::Cancelled, Status::Cancelled),
    ] {
        let item = yard.add(&list, "x").await;
        yard.force(&item, status).await;
        let claimed = yard.claim(&item, json!({})).await.unwrap();
        assert_eq!(claimed.backlog_item.status, after.to_string(), "{status}");
        assert_eq!(yard.audited(&claimed.run_id).await[0].1["prior_status"], status.to_string());
        let given_back = yard.complete(&claimed.run_id, json!({ "outcome": "abandoned" })).await.unwrap();
        let back = if after == Status::InProgress { Status::Ready } else { after };
        assert_eq!(given_back.status, back.to_string(), "{status}");
    }
}

#[tokio::test]
async fn what_cannot_be_claimed_is_refused_and_nothing_crosses_workspaces() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    for (arguments, class, field) in [
        (json!({ "workspace": "other", "backlog_item_id": item }), Class::NotFound, Some("backlog_item_id")),
        (json!({ "workspace": "none", "backlog_item_id": item }), Class::NotFound, Some("workspace")),
        (json!({ "workspace": "main", "backlog_item_id": "TY-99" }), Class::NotFound, Some("backlog_item_id")),
        (json!({ "workspace": "main", "backlog_item_id": "x" }), Class::InvalidArgument, Some("backlog_item_id")),
        (
            json!({ "workspace": "main", "backlog_item_id": item, "actor_user_id": "x".repeat(300) }),
            Class::InvalidArgument,
            Some("actor_user_id"),
        ),
    ] {
        let error = yard.engine.claim_task(&yard.me(), input(arguments.clone())).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (class, field), "{arguments}");
    }
    let epic = yard.engine.create_object(&yard.me(), input(json!({ "workspace": "main", "kind": "epic", "title": "E" }))).await.unwrap();
    assert_eq!(yard.claim(&epic.short_id, json!({})).await.unwrap_err().class, Class::FailedPrecondition);
    let mut archived = yard.task(&item).await;
    archived.archived_at = Some(yard.clock.now());
    yard.write(move |tx| Box::pin(async move { tx.task_update(&archived).await })).await;
    assert_eq!(yard.claim(&item, json!({})).await.unwrap_err().class, Class::FailedPrecondition);
    let by_uuid = json!({ "workspace": yard.workspace.to_string(), "backlog_item_id": yard.task(&epic.short_id).await.id });
    assert_eq!(yard.engine.claim_task(&yard.me(), input(by_uuid)).await.unwrap_err().class, Class::FailedPrecondition, "a UUID names both");
}

#[tokio::test]
async fn a_run_of_taskyard_s_own_neither_claims_nor_is_claimed() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (held, free) = (yard.add(&list, "held").await, yard.add(&list, "free").await);
    let mut run = yard.open_run(&held).await;
    run.kind = Kind::Managed;
    let stored = run.clone();
    yard.write(move |tx| Box::pin(async move { tx.run_update(&stored).await })).await;
    let error = yard.claim(&held, json!({ "actor_user_id": "tester" })).await.unwrap_err();
    assert_eq!(
        (error.class, error.details.unwrap()["kind"].as_str()),
        (Class::AlreadyClaimed, Some("managed")),
        "the label alone isn't the run"
    );
    let ended = yard.complete(&run.id.to_string(), json!({})).await.unwrap_err();
    assert_eq!(ended.class, Class::FailedPrecondition);
    let agent = yard.run_of(&run);
    let claim = yard.engine.claim_task(&agent, input(json!({ "workspace": "main", "backlog_item_id": free }))).await;
    let next = yard.engine.claim_next_task(&agent, input(json!({ "workspace": "main" }))).await;
    let complete = yard.engine.complete_task(&agent, input(json!({ "workspace": "main", "run_id": run.id }))).await;
    assert_eq!([claim.unwrap_err().class, next.unwrap_err().class, complete.unwrap_err().class], [Class::Forbidden; 3]);
}

#[tokio::test]
async fn a_claimed_task_is_not_run_and_its_queue_entry_is_gone() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("ada", taskyard_domain::agent::DriverKind::Exec).await;
    let item = yard.add(&list, "x").await;
    yard.engine.update_task_status(&yard.me(), input(json!({ "task_id": item, "status": "queued" }))).await.unwrap();
    yard.claim(&item, json!({})).await.unwrap();
    assert_eq!(yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap().waiting_count, 0);
    let now = yard.engine.run_task_now(&yard.me(), input(json!({ "task_id": item }))).await.unwrap_err();
    assert_eq!(now.class, Class::FailedPrecondition);
    let queued = yard.engine.update_task_status(&yard.me(), input(json!({ "task_id": item, "status": "queued" }))).await.unwrap_err();
    assert_eq!(queued.class, Class::FailedPrecondition);
}

#[tokio::test]
async fn a_claim_ends_once_and_the_same_word_again_is_the_same_answer() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for (word, outcome, status) in [("done", "succeeded", "done"), ("failed", "failed", "failed"), ("abandoned", "abandoned", "ready")] {
        let item = yard.add(&list, word).await;
        let run = yard.claim(&item, json!({ "actor_user_id": "ada" })).await.unwrap().run_id;
        let said = json!({ "outcome": word, "summary": "so it was", "notes": "last" });
        let first = yard.complete(&run, said.clone()).await.unwrap();
        assert_eq!((first.completed, first.outcome.as_str(), first.status.as_str()), (true, word, status));
        let again = yard.complete(&run, said).await.unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&first).unwrap());
        let other = if word == "done" { "failed" } else { "done" };
        assert_eq!(yard.complete(&run, json!({ "outcome": other })).await.unwrap_err().class, Class::Conflict);
        let view = yard.engine.get_run(&yard.me(), input(json!({ "run_id": run }))).await.unwrap().run.unwrap();
        assert_eq!(
            (view.outcome.as_deref(), view.exit_reason.as_deref(), view.notes.as_deref()),
            (Some(outcome), Some("so it was"), Some("last"))
        );
        let audited = yard.audited(&run).await;
        assert_eq!(audited.len(), 2, "claimed and completed once each");
        assert_eq!(
            (audited[1].0.as_str(), &audited[1].1["outcome"], &audited[1].1["by_claimer"]),
            ("task.completed", &json!(word), &json!(true))
        );
    }
    let foreign =
        yard.engine.complete_task(&yard.me(), input(json!({ "workspace": "main", "run_id": uuid::Uuid::nil() }))).await.unwrap_err();
    assert_eq!((foreign.class, foreign.field.as_deref()), (Class::NotFound, Some("run_id")));
    let failed = yard.task("TY-2").await;
    assert_eq!(failed.failure.as_deref(), Some("so it was"));
}

#[tokio::test]
async fn a_review_step_and_unmerged_work_want_a_person() {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    let changed = yard.add(&list, "changed").await;
    let folder = yard.worktree(&changed, &repo).await;
    std::fs::write(folder.join("new.txt"), "x").unwrap();
    let run = yard.claim(&changed, json!({})).await.unwrap().run_id;
    assert_eq!(yard.complete(&run, json!({})).await.unwrap().status, "waiting_for_review");
    let reviewed = yard.add(&list, "reviewed").await;
    yard.engine.step_add(&yard.me(), input(json!({ "list_id": list, "name": "Review", "stage": "review" }))).await.unwrap();
    let run = yard.claim(&reviewed, json!({})).await.unwrap().run_id;
    assert_eq!(yard.complete(&run, json!({})).await.unwrap().status, "waiting_for_review");
    // What the reviewer says reaches whoever claims it next, until somebody has done it.
    let said = json!({ "task_id": reviewed, "decision": "reject_rerun", "feedback": "Use tabs" });
    yard.engine.review_task(&yard.me(), input(said)).await.unwrap();
    for outcome in ["abandoned", "done"] {
        let again = yard.claim(&reviewed, json!({})).await.unwrap();
        assert!(again.workflow_prompt.contains("asked for now:\n\nUse tabs"), "{}", again.workflow_prompt);
        yard.complete(&again.run_id, json!({ "outcome": outcome })).await.unwrap();
    }
    assert_eq!(yard.task(&reviewed).await.next_prompt, None);
    // The audit about an item has its claims.
    let actions: Vec<String> = yard.audited(&reviewed).await.into_iter().map(|(action, _)| action).collect();
    let of_claims = actions.iter().filter(|action| matches!(action.as_str(), "task.claimed" | "task.completed")).count();
    assert_eq!(of_claims, 6, "{actions:?}");
}

#[tokio::test]
async fn a_cancelled_claim_has_ended_and_a_late_word_is_told_so() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let run = yard.claim(&item, json!({})).await.unwrap().run_id;
    let cancelled = yard.engine.cancel_task(&yard.me(), input(json!({ "task_id": item }))).await.unwrap();
    assert_eq!((cancelled.status.as_str(), cancelled.ended_run_id.as_deref()), ("cancelled", Some(run.as_str())));
    assert_eq!(yard.complete(&run, json!({})).await.unwrap_err().class, Class::Conflict);
}

/// Claiming leaves a failed task failed; calling it off or doing it doesn't.
#[tokio::test]
async fn a_claimed_failed_task_is_cancelled_or_done_without_its_old_failure() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for cancel in [true, false] {
        let item = yard.add(&list, "x").await;
        let first = yard.claim(&item, json!({})).await.unwrap().run_id;
        yard.complete(&first, json!({ "outcome": "failed", "summary": "no" })).await.unwrap();
        assert_eq!(yard.task(&item).await.failure.as_deref(), Some("no"));
        let second = yard.claim(&item, json!({})).await.unwrap().run_id;
        let expected = if cancel {
            let cancelled = yard.engine.cancel_task(&yard.me(), input(json!({ "task_id": item }))).await.unwrap();
            assert_eq!((cancelled.cancelled, cancelled.status.as_str()), (true, "cancelled"));
            Status::Cancelled
        } else {
            yard.complete(&second, json!({})).await.unwrap();
            Status::Done
        };
        let task = yard.task(&item).await;
        assert_eq!((task.status, task.failure), (expected, None));
    }
}

/// F2: the word of somebody whose claim was given to another changes nothing of the other's.
#[tokio::test]
async fn a_late_word_of_the_old_holder_leaves_the_new_ones_claim() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let old = yard.claim(&item, json!({ "actor_user_id": "a" })).await.unwrap().run_id;
    yard.complete(&old, json!({ "outcome": "abandoned" })).await.unwrap();
    let new = yard.claim(&item, json!({ "actor_user_id": "b" })).await.unwrap().run_id;
    assert_eq!(yard.complete(&old, json!({})).await.unwrap_err().class, Class::Conflict);
    assert_eq!(yard.task(&item).await.status, Status::InProgress);
    assert!(!yard.next(json!({})).await.found, "given back once, taken once");
    let held = yard.claim(&item, json!({ "actor_user_id": "a" })).await.unwrap_err();
    assert_eq!((held.class, held.details.unwrap()["run_id"].as_str()), (Class::AlreadyClaimed, Some(new.as_str())));
    assert!(yard.complete(&new, json!({})).await.unwrap().completed);
}

#[tokio::test]
async fn the_next_is_the_first_that_may_be_claimed_queued_ones_first() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("ada", taskyard_domain::agent::DriverKind::Exec).await;
    let other = yard.list("Other").await;
    let add = |values: Value| {
        let yard = &yard;
        let mut arguments = json!({ "list_id": list, "title": "t" });
        arguments.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        async move { yard.engine.add_task(&yard.me(), input(arguments)).await.unwrap().short_id }
    };
    let late = crate::support::tomorrow(yard.clock.now());
    let ready = add(json!({})).await;
    add(json!({ "manual": true })).await;
    add(json!({ "due_at": late })).await;
    add(json!({ "blocked_by": [ready] })).await;
    let queued = add(json!({ "queue": true, "sort_order": 5 })).await;
    let first = add(json!({ "sort_order": -1 })).await;
    let elsewhere = yard.add(&other, "elsewhere").await;
    yard.engine.create_object(&yard.me(), input(json!({ "workspace": "main", "kind": "task", "title": "draft" }))).await.unwrap();
    let claimable = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "claimable_only": true }))).await.unwrap();
    let shown: Vec<String> = claimable.items.into_iter().map(|item| item.short_id).collect();
    assert_eq!(shown, [first.clone(), ready.clone(), elsewhere.clone(), queued.clone()]);
    let only = yard.next(json!({ "workflow_id": other })).await;
    assert_eq!(only.backlog_item.unwrap().short_id, elsewhere);
    let mut order = Vec::new();
    while let Some(item) = yard.next(json!({})).await.backlog_item {
        order.push(item.short_id);
    }
    assert_eq!(order, [queued, first, ready]);
    assert!(!yard.next(json!({})).await.found);
}

#[tokio::test]
async fn a_repeated_next_gives_the_same_claim() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    assert!(!yard.next(json!({ "idempotency_key": "k" })).await.found, "nothing there isn't remembered");
    let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
    let first = yard.next(json!({ "idempotency_key": "k" })).await;
    let again = yard.next(json!({ "idempotency_key": "k" })).await;
    assert_eq!((first.backlog_item.unwrap().short_id, again.replayed, first.run_id), (a, true, again.run_id));
    assert_eq!(yard.next(json!({})).await.backlog_item.unwrap().short_id, b);
}

#[tokio::test]
async fn many_race_and_each_item_has_one_winner() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for round in 0..5 {
        let item = yard.add(&list, "raced").await;
        let claims = (0..16).map(|n| {
            let (engine, me, item) = (yard.engine.clone(), yard.me(), item.clone());
            let label = format!("c{n}");
            let arguments = json!({ "workspace": "main", "backlog_item_id": item, "actor_user_id": label });
            tokio::spawn(async move { engine.claim_task(&me, input(arguments)).await })
        });
        let mut won = Vec::new();
        let mut holders = std::collections::BTreeSet::new();
        for claim in claims.collect::<Vec<_>>() {
            match claim.await.unwrap() {
                Ok(claimed) => won.push(claimed.run_id),
                Err(error) => {
                    assert_eq!(error.class, Class::AlreadyClaimed, "{error:?}");
                    holders.insert(error.details.unwrap()["run_id"].as_str().unwrap().to_owned());
                }
            }
        }
        assert_eq!((won.len(), holders.len(), holders.first()), (1, 1, won.first()), "round {round}");
    }
    let items: Vec<String> = {
        let mut all = Vec::new();
        for n in 0..8 {
            all.push(yard.add(&list, &n.to_string()).await);
        }
        all
    };
    let nexts = (0..12).map(|_| {
        let (engine, me) = (yard.engine.clone(), yard.me());
        tokio::spawn(async move { engine.claim_next_task(&me, input(json!({ "workspace": "main" }))).await.unwrap() })
    });
    let mut taken = Vec::new();
    for next in nexts.collect::<Vec<_>>() {
        taken.extend(next.await.unwrap().backlog_item.map(|item| item.short_id));
    }
    taken.sort();
    let mut items = items;
    items.sort();
    assert_eq!(taken, items, "each once, and none passed over");
}

/// By its name a person may take what the queue wouldn't offer; a plan or an epic is no work.
#[tokio::test]
async fn a_blocked_a_manual_or_a_later_item_may_be_claimed_by_its_id() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let first = yard.add(&list, "first").await;
    for more in
        [json!({ "blocked_by": [first] }), json!({ "manual": true }), json!({ "due_at": crate::support::tomorrow(yard.clock.now()) })]
    {
        let mut arguments = json!({ "list_id": list, "title": "t" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let item = yard.engine.add_task(&yard.me(), input(arguments)).await.unwrap().short_id;
        assert!(yard.claim(&item, json!({})).await.unwrap().claimed, "{more}");
    }
    for kind in ["plan", "epic"] {
        let made = json!({ "workspace": "main", "kind": kind, "title": kind, "status": "ready" });
        let made = yard.engine.create_object(&yard.me(), input(made)).await.unwrap();
        let error = yard.claim(&made.id, json!({})).await.unwrap_err();
        assert_eq!(error.class, Class::FailedPrecondition, "{kind}");
    }
    assert_eq!(yard.next(json!({})).await.backlog_item.map(|item| item.title), Some("first".into()), "neither is offered");
}

/// No clock ends a claim.
#[tokio::test]
async fn a_claim_stands_for_as_long_as_it_takes() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let run = yard.claim(&item, json!({})).await.unwrap().run_id;
    yard.clock.advance(400 * 24 * 3600);
    let held = yard.claim(&item, json!({ "actor_user_id": "ada" })).await.unwrap_err();
    let details = held.details.unwrap();
    assert_eq!((held.class, &details["run_id"], &details["actor"]), (Class::AlreadyClaimed, &json!(run), &json!("anonymous")));
    assert!(!yard.next(json!({})).await.found, "nor is it offered");
    assert!(yard.complete(&run, json!({})).await.unwrap().completed);
}

#[tokio::test]
async fn a_claim_gives_prompt_and_body_whole_up_to_64_kb() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for (bytes, cut) in [(64 << 10, false), ((64 << 10) + 1, true)] {
        let text = "b".repeat(bytes);
        let added = json!({ "list_id": list, "title": "t", "description": text });
        let item = yard.engine.add_task(&yard.me(), input(added)).await.unwrap().short_id;
        let claimed = yard.claim(&item, json!({})).await.unwrap();
        assert_eq!((claimed.backlog_item.body_truncated, claimed.backlog_item.body_markdown.len() < bytes), (cut, cut), "{bytes}");
    }
}

/// The second answer is the first one's, whatever became of the item in between; and who ended it is told apart from who had it.
#[tokio::test]
async fn an_end_said_again_is_answered_as_it_was() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let old = yard.claim(&item, json!({ "actor_user_id": "a" })).await.unwrap().run_id;
    let first = yard.complete(&old, json!({ "outcome": "abandoned" })).await.unwrap();
    let new = yard.claim(&item, json!({ "actor_user_id": "b" })).await.unwrap().run_id;
    let again = yard.complete(&old, json!({ "outcome": "abandoned" })).await.unwrap();
    assert_eq!((again.status.as_str(), first.status.as_str()), ("ready", "ready"));
    let end = json!({ "workspace": "main", "run_id": new });
    yard.engine.complete_task(&taskyard_engine::Caller::system(), input(end)).await.unwrap();
    let audit = json!({ "workspace": "main", "target_id": new, "action": "task.completed" });
    let entry = yard.engine.get_audit_log(&yard.me(), input(audit)).await.unwrap().entries.remove(0);
    assert_eq!((&entry.metadata["by_claimer"], entry.actor_label, entry.target_type.as_str()), (&json!(false), None, "agent_run"));
}

#[tokio::test]
async fn a_reclaim_is_written_down_where_it_changes_the_notes() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "x").await;
    let run = yard.claim(&item, json!({ "actor_user_id": "a" })).await.unwrap().run_id;
    yard.claim(&item, json!({ "actor_user_id": "a" })).await.unwrap();
    yard.claim(&item, json!({ "actor_user_id": "a", "notes": "second look" })).await.unwrap();
    let actions: Vec<String> = yard.audited(&run).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["task.claimed", "task.reclaimed"]);
}

/// A key belongs to its arguments, with every tool that takes one.
#[tokio::test]
async fn a_key_with_other_arguments_is_a_conflict() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for title in ["one", "two"] {
        yard.add(&list, title).await;
    }
    let next = |label: &str| {
        let arguments = json!({ "workspace": "main", "actor_user_id": label, "idempotency_key": "n" });
        let (engine, me) = (yard.engine.clone(), yard.me());
        async move { engine.claim_next_task(&me, input(arguments)).await }
    };
    let (first, again) = (next("a").await.unwrap(), next("a").await.unwrap());
    assert_eq!((first.run_id.is_some(), &first.run_id), (true, &again.run_id));
    assert_eq!(next("b").await.unwrap_err().class, Class::Conflict);
    let object = |title: &str| {
        let arguments = json!({ "workspace": "main", "kind": "task", "title": title, "idempotency_key": "o" });
        let (engine, me) = (yard.engine.clone(), yard.me());
        async move { engine.create_object(&me, input(arguments)).await }
    };
    let together = futures::future::join_all((0..8).map(|_| object("t"))).await;
    let ids: std::collections::BTreeSet<String> = together.into_iter().map(|made| made.unwrap().id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(object("u").await.unwrap_err().class, Class::Conflict);
}
