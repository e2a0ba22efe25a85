//! What a claim stands against, and what a refusal leaves: everything as it was.

use crate::support::{Yard, input};
use serde_json::{Value, json};
use taskyard_domain::task::Status;
use taskyard_domain::{Class, Error, Face};
use taskyard_engine::Caller;

/// Everything that a call could have changed: tasks, runs, the number of audit entries, the head of the event log.
async fn all(yard: &Yard) -> Value {
    let workspace = yard.workspace;
    let read = yard.engine.store().read(move |read| {
        Box::pin(async move {
            let mut filter = taskyard_store::TaskFilter::all(workspace);
            filter.include_archived = true;
            let tasks = read.task_page(&filter, None, 1000).await?;
            let mut runs = Vec::new();
            for task in &tasks {
                runs.extend(read.run_latest_for_task(task.id).await?);
            }
            let audit = read.audit_page(workspace, None, None, None, 1000).await?.len();
            let head = read.event_head(workspace).await?;
            Ok(json!([tasks, runs, audit, head]))
        })
    });
    read.await.unwrap()
}

fn claim(workspace: &str, item: &str, more: &Value) -> Value {
    let mut arguments = json!({ "workspace": workspace, "backlog_item_id": item });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

#[tokio::test]
async fn a_refused_call_stores_nothing() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (held, free, over, managed) =
        (yard.add(&list, "held").await, yard.add(&list, "free").await, yard.add(&list, "over").await, yard.add(&list, "run").await);
    let holder = yard.claim(&held, json!({ "actor_user_id": "ada", "notes": "mine" })).await.unwrap().run_id;
    let ended = yard.claim(&over, json!({})).await.unwrap().run_id;
    yard.complete(&ended, json!({ "outcome": "abandoned", "summary": "s" })).await.unwrap();
    let epic = yard.engine.create_object(&yard.me(), input(json!({ "workspace": "main", "kind": "epic", "title": "E" }))).await.unwrap();
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    let run = yard.open_run(&managed).await;
    let agent = yard.run_of(&run);
    let me = yard.me();
    let claims: Vec<(Caller, Value, Class)> = vec![
        (me.clone(), claim("main", &held, &json!({ "actor_user_id": "bob", "notes": "no, mine" })), Class::AlreadyClaimed),
        (me.clone(), claim("main", &held, &json!({ "notes": "whose?" })), Class::AlreadyClaimed),
        (me.clone(), claim("other", &free, &json!({})), Class::NotFound),
        (me.clone(), claim("none", &free, &json!({})), Class::NotFound),
        (me.clone(), claim("main", &epic.id, &json!({})), Class::FailedPrecondition),
        (me.clone(), claim("main", &free, &json!({ "notes": "x".repeat((16 << 10) + 1) })), Class::InvalidArgument),
        (me.clone(), claim("main", &free, &json!({ "actor_user_id": "a\u{7}b" })), Class::InvalidArgument),
        (me.clone(), claim("main", &free, &json!({ "idempotency_key": "" })), Class::InvalidArgument),
        (me.clone(), claim("main", &free, &json!({ "idempotency_key": "k".repeat(201) })), Class::InvalidArgument),
        (agent.clone(), claim("main", &free, &json!({})), Class::Forbidden),
    ];
    let before = all(&yard).await;
    for (caller, arguments, class) in claims {
        let error = yard.engine.claim_task(&caller, input(arguments.clone())).await.unwrap_err();
        assert_eq!(error.class, class, "{arguments}: {error}");
        assert_eq!(all(&yard).await, before, "{arguments}");
    }
    let end = |run: &str, more: Value| {
        let mut arguments = json!({ "workspace": "main", "run_id": run, "summary": "new", "notes": "new" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    for (caller, arguments, class) in [
        (&me, end(&ended, json!({})), Class::Conflict),
        (&me, end(&ended, json!({ "outcome": "failed" })), Class::Conflict),
        (&me, end(&holder, json!({ "workspace": "other" })), Class::NotFound),
        (&me, end(&holder, json!({ "outcome": "perhaps" })), Class::InvalidArgument),
        (&me, end(&holder, json!({ "summary": "x".repeat((16 << 10) + 1) })), Class::InvalidArgument),
        (&me, end("nonsense", json!({})), Class::InvalidArgument),
        (&agent, end(&holder, json!({})), Class::Forbidden),
    ] {
        let error = yard.engine.complete_task(caller, input(arguments.clone())).await.unwrap_err();
        assert_eq!(error.class, class, "{arguments}: {error}");
        assert_eq!(all(&yard).await, before, "{arguments}");
    }
    for (caller, arguments, class) in [
        (&me, json!({ "workspace": "none" }), Class::NotFound),
        (&me, json!({ "workspace": "main", "workflow_id": "00000000-0000-7000-8000-000000000000" }), Class::NotFound),
        (&agent, json!({ "workspace": "main" }), Class::Forbidden),
    ] {
        let error = yard.engine.claim_next_task(caller, input(arguments.clone())).await.unwrap_err();
        assert_eq!(error.class, class, "{arguments}: {error}");
        assert_eq!(all(&yard).await, before, "{arguments}");
    }
}

/// A claim is an open run: what a person could do to idle work waits for its end.
#[tokio::test]
async fn nobody_decides_about_work_that_is_claimed() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let me = yard.me();
    let reviewed = yard.add(&list, "reviewed").await;
    yard.force(&reviewed, Status::WaitingForReview).await;
    let run = yard.claim(&reviewed, json!({ "actor_user_id": "ada" })).await.unwrap().run_id;
    let before = all(&yard).await;
    for decision in ["approve", "reject_rerun", "reject_park", "cancel"] {
        let feedback = (decision == "reject_rerun").then_some("Use tabs");
        let said = json!({ "task_id": reviewed, "decision": decision, "feedback": feedback });
        let error = yard.engine.review_task(&me, input(said)).await.unwrap_err();
        assert_eq!(error.class, Class::FailedPrecondition, "{decision}: {error}");
        assert!(error.message.contains("ada") && error.hint.as_ref().unwrap().contains("complete_task"), "{error:?}");
        assert_eq!(all(&yard).await, before, "{decision}");
    }
    yard.complete(&run, json!({ "outcome": "abandoned" })).await.unwrap();
    assert!(yard.engine.review_task(&me, input(json!({ "task_id": reviewed, "decision": "reject_park" }))).await.is_ok());
    let failed = yard.add(&list, "failed").await;
    yard.force(&failed, Status::Failed).await;
    let run = yard.claim(&failed, json!({})).await.unwrap().run_id;
    let before = all(&yard).await;
    let refused = yard.engine.reset_failed_task(&me, input(json!({ "task_id": failed }))).await.unwrap_err();
    assert_eq!((refused.class, all(&yard).await), (Class::FailedPrecondition, before));
    yard.complete(&run, json!({ "outcome": "abandoned" })).await.unwrap();
    assert_eq!(yard.engine.reset_failed_task(&me, input(json!({ "task_id": failed }))).await.unwrap().status, "ready");
}

/// An account's limit is about who would run it here.
#[tokio::test]
async fn a_limit_of_an_account_hides_nothing_from_agents_from_outside() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "limited").await;
    let mut task = yard.task(&item).await;
    task.not_before = Some(crate::support::tomorrow(task.created_at).parse().unwrap());
    yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    let shown = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "claimable_only": true }))).await.unwrap();
    assert_eq!(shown.items.len(), 1);
    assert_eq!(yard.next(json!({})).await.backlog_item.map(|item| item.short_id), Some(item));
}

#[tokio::test]
async fn what_is_archived_is_neither_offered_nor_shown() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "archived").await;
    let mut task = yard.task(&item).await;
    task.archived_at = Some(task.created_at);
    yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    let shown = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main" }))).await.unwrap();
    assert!(shown.items.is_empty() && !yard.next(json!({})).await.found);
}

#[tokio::test]
async fn the_holder_is_shown_with_its_run() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for label in [Some("ada"), None] {
        let item = yard.add(&list, "t").await;
        let run = yard.claim(&item, json!({ "actor_user_id": label })).await.unwrap().run_id;
        let rows = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main" }))).await.unwrap().items;
        let row = json!(rows.into_iter().find(|row| row.short_id == item).unwrap());
        let expected = json!({ "run_id": run, "actor": label.unwrap_or("anonymous"), "kind": "claimed" });
        assert_eq!(row["held_by"], expected);
    }
}

#[tokio::test]
async fn prompts_are_whole_up_to_64_kb() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.engine.workspace_prompt(&yard.me(), input(json!({ "workspace": "main", "prompt": "{{description}}" }))).await.unwrap();
    for (bytes, cut) in [(64 << 10, false), ((64 << 10) + 1, true)] {
        for next in [false, true] {
            let added = json!({ "list_id": list, "title": "t", "description": "p".repeat(bytes) });
            let item = yard.engine.add_task(&yard.me(), input(added)).await.unwrap().short_id;
            let answer = if next { json!(yard.next(json!({})).await) } else { json!(yard.claim(&item, json!({})).await.unwrap()) };
            let prompt = answer["workflow_prompt"].as_str().unwrap();
            let is_cut = answer.get("workflow_prompt_truncated").is_some_and(|cut| cut == true);
            assert_eq!((is_cut, prompt.len() < bytes), (cut, cut), "{bytes}, next: {next}");
        }
    }
}

/// A key remembers an answer, never a refusal, and belongs to one workspace.
#[tokio::test]
async fn keys_of_claims() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
    let run = yard.claim(&a, json!({ "actor_user_id": "ada" })).await.unwrap().run_id;
    let with_key = json!({ "idempotency_key": "k" });
    assert_eq!(yard.claim(&a, with_key.clone()).await.unwrap_err().class, Class::AlreadyClaimed);
    yard.complete(&run, json!({ "outcome": "abandoned" })).await.unwrap();
    let now = yard.claim(&a, with_key.clone()).await.unwrap();
    assert!(now.claimed && !now.replayed, "what was refused wasn't remembered");
    let together = [claim("main", &a, &json!({ "idempotency_key": "two" })), claim("main", &b, &json!({ "idempotency_key": "two" }))];
    yard.complete(&now.run_id, json!({ "outcome": "abandoned" })).await.unwrap();
    let answers = futures::future::join_all(together.map(|arguments| {
        let (engine, me) = (yard.engine.clone(), yard.me());
        async move { tokio::spawn(async move { engine.claim_task(&me, input(arguments)).await }).await.unwrap() }
    }))
    .await;
    let refused: Vec<&Error> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused.iter().map(|error| error.class).collect::<Vec<_>>(), [Class::Conflict]);
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    let there = json!({ "workspace": "other", "kind": "task", "title": "t", "status": "ready" });
    let there = yard.engine.create_object(&yard.me(), input(there)).await.unwrap().short_id;
    let made = yard.engine.claim_task(&yard.me(), input(claim("other", &there, &with_key))).await.unwrap();
    assert!(made.claimed && !made.replayed, "the same key of another workspace is another key");
}

#[tokio::test]
async fn a_new_item_goes_where_its_parent_is_or_to_the_backlog() {
    let yard = Yard::new().await;
    let add = async |more: Value| {
        let mut arguments = json!({ "workspace": "main", "kind": "task", "title": "t" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        yard.engine.create_object(&yard.me(), input(arguments)).await.unwrap().list_id
    };
    let only = yard.list("Only").await;
    assert_eq!(add(json!({})).await, only, "the only list there is");
    add(json!({ "kind": "plan", "slug": "p" })).await;
    let other = yard.list("Other").await;
    assert_eq!(add(json!({ "plan_slug": "p" })).await, only, "its parent's");
    let backlog = add(json!({})).await;
    assert!(backlog != only && backlog != other);
    assert_eq!(add(json!({})).await, backlog, "made once");
    let lists = yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap().lists;
    assert_eq!(lists.iter().filter(|list| list.name == "Backlog").count(), 1);
}

#[tokio::test]
async fn a_field_that_an_item_does_not_have_is_nothing_and_what_is_no_field_stays() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "t").await;
    let prompt = json!({ "workspace": "main", "prompt": "plan=[{{plan_slug}}] {{secret}} {{ title }}" });
    yard.engine.workspace_prompt(&yard.me(), input(prompt)).await.unwrap();
    assert_eq!(yard.claim(&item, json!({})).await.unwrap().workflow_prompt, "plan=[] {{secret}} t");
}

#[tokio::test]
async fn a_claim_is_told_of_with_who_asked_and_through_what() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for face in [Face::Mcp, Face::Cli] {
        let item = yard.add(&list, "t").await;
        let me = Caller::operator(face);
        let claimed = yard.engine.claim_task(&me, input(claim("main", &item, &json!({ "actor_user_id": "ada" })))).await.unwrap();
        let end = json!({ "workspace": "main", "run_id": claimed.run_id });
        yard.engine.complete_task(&me, input(end)).await.unwrap();
        let asked = json!({ "workspace": "main", "target_id": claimed.run_id });
        let entries = yard.engine.get_audit_log(&yard.me(), input(asked)).await.unwrap().entries;
        let told: Vec<_> =
            entries.iter().map(|e| (e.action.as_str(), e.actor.as_str(), e.face.as_str(), e.actor_label.as_deref())).collect();
        let by = |action| (action, "operator", face.as_str(), Some("ada"));
        assert_eq!(told, [by("task.completed"), by("task.claimed")]);
    }
}

#[tokio::test]
async fn cancelling_ends_a_claim_on_the_record_and_says_so_once() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "t").await;
    let run = yard.claim(&item, json!({ "actor_user_id": "ada" })).await.unwrap().run_id;
    for _ in 0..2 {
        yard.engine.cancel_task(&yard.me(), input(json!({ "task_id": item }))).await.unwrap();
    }
    let of_claim: Vec<(String, Value)> =
        yard.audited(&run).await.into_iter().map(|(action, facts)| (action, facts["outcome"].clone())).collect();
    assert_eq!(of_claim, [("task.claimed".to_owned(), Value::Null), ("task.completed".to_owned(), json!("cancelled"))]);
    let of_task: Vec<String> = yard.audited(&item).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(of_task, ["task.created", "task.claimed", "task.cancelled", "task.completed"]);
}

/// Handed out again after its end, two would work on one item.
#[tokio::test]
async fn a_key_gives_back_no_claim_that_has_ended() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let item = yard.add(&list, "t").await;
    let mine = json!({ "actor_user_id": "ada", "idempotency_key": "k" });
    let run = yard.claim(&item, mine.clone()).await.unwrap().run_id;
    assert!(yard.claim(&item, mine.clone()).await.unwrap().replayed, "while it stands");
    yard.complete(&run, json!({ "outcome": "abandoned" })).await.unwrap();
    yard.claim(&item, json!({ "actor_user_id": "bob" })).await.unwrap();
    let before = all(&yard).await;
    let late = yard.claim(&item, mine).await.unwrap_err();
    assert_eq!((late.class, late.field.as_deref()), (Class::Conflict, Some("idempotency_key")));
    assert!(late.message.contains("abandoned"), "{late}");
    let second = yard.add(&list, "u").await;
    let next = json!({ "workspace": "main", "idempotency_key": "n" });
    let taken = yard.engine.claim_next_task(&yard.me(), input(next.clone())).await.unwrap();
    assert_eq!(taken.backlog_item.unwrap().short_id, second);
    // Of work that is done a retry gets the first answer, and so does its `complete_task`.
    let run = taken.run_id.unwrap();
    let done = json!(yard.complete(&run, json!({})).await.unwrap());
    let again = yard.engine.claim_next_task(&yard.me(), input(next.clone())).await.unwrap();
    assert_eq!((again.run_id.as_ref(), again.replayed, json!(yard.complete(&run, json!({})).await.unwrap())), (Some(&run), true, done));
    let third = yard.add(&list, "v").await;
    let other = json!({ "workspace": "main", "idempotency_key": "o" });
    let taken = yard.engine.claim_next_task(&yard.me(), input(other.clone())).await.unwrap();
    assert_eq!(taken.backlog_item.unwrap().short_id, third);
    yard.complete(&taken.run_id.unwrap(), json!({ "outcome": "failed" })).await.unwrap();
    assert_eq!(yard.engine.claim_next_task(&yard.me(), input(other)).await.unwrap_err().class, Class::Conflict);
    assert_eq!(all(&yard).await[0].as_array().unwrap().len(), before[0].as_array().unwrap().len() + 2);
}

/// A person who names a workspace sees nothing of another one, whatever the command is about.
#[tokio::test]
async fn a_call_about_one_workspace_finds_nothing_of_another() {
    let yard = Yard::new().await;
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    let lists = |workspace: &str, name: &str| json!({ "workspace_id": workspace, "name": name });
    let there = yard.engine.create_list(&yard.me(), input(lists("other", "There"))).await.unwrap().list_id;
    let foreign = yard.add(&there, "foreign").await;
    let repository = json!({ "workspace_id": "other", "name": "R", "local_path": yard.foreign_repo().await });
    let repository = yard.engine.create_list(&yard.me(), input(repository)).await.unwrap().repository_id;
    let (engine, me) = (&yard.engine, yard.engine.confined(yard.me(), "main").await.unwrap());
    let about = json!({ "task_id": foreign });
    let said = [
        engine.get_task(&me, input(about.clone())).await.err(),
        engine.cancel_task(&me, input(about.clone())).await.err(),
        engine.delete_task(&me, input(about.clone())).await.err(),
        engine.reset_failed_task(&me, input(about.clone())).await.err(),
        engine.update_task(&me, input(json!({ "task_id": foreign, "title": "x" }))).await.err(),
        engine.step_add(&me, input(json!({ "list_id": there, "name": "X" }))).await.err(),
        engine.set_list_config(&me, input(json!({ "list_id": there, "target_branch": "x" }))).await.err(),
        engine.add_task(&me, input(json!({ "list_id": there, "title": "x" }))).await.err(),
        engine.list_tasks(&me, input(json!({ "workspace_id": "other" }))).await.err(),
        engine.repository_update(&me, input(json!({ "repository_id": repository, "setup_script": "x" }))).await.err(),
    ];
    for (index, error) in said.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.class), Some(Class::NotFound), "call {index}");
    }
    assert!(engine.list_task_lists(&me, input(json!({}))).await.unwrap().lists.is_empty(), "and needs no name again");
    assert_eq!(engine.list_workspaces(&me, input(json!({}))).await.unwrap().workspaces.len(), 1);
    assert_eq!(engine.confined(yard.me(), "nope").await.unwrap_err().class, Class::NotFound);
    assert!(engine.get_task(&yard.me(), input(about)).await.is_ok());
}
