//! Adding, changing and finding tasks.

use crate::support::{Yard, input, tomorrow};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::agent::DriverKind;

#[tokio::test]
async fn a_task_gets_a_number_that_is_never_used_again() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    assert_eq!(yard.add(&list, "a").await, "TY-1");
    let refused = yard.engine.add_task(&yard.me(), input(json!({ "list_id": list, "title": "b", "queue": true }))).await.unwrap_err();
    assert_eq!((refused.class, refused.field.as_deref()), (Class::FailedPrecondition, Some("repository_id")));
    assert!(!refused.message.contains("TY-"), "{refused}");
    assert_eq!(yard.add(&list, "c").await, "TY-2");
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": "ty-2" }))).await.unwrap();
    assert_eq!(yard.add(&list, "d").await, "TY-3");
}

#[tokio::test]
async fn bad_arguments_are_named_and_store_nothing() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let long = "x".repeat((1 << 20) + 1);
    let refused = [
        (json!({ "title": " " }), "title"),
        (json!({ "title": "x".repeat(501) }), "title"),
        (json!({ "title": "t", "description": long }), "description"),
        (json!({ "title": "t", "description": "a\u{0}b" }), "description"),
        (json!({ "title": "t", "priority": "urgent" }), "priority"),
        (json!({ "title": "t", "due_at": "soon" }), "due_at"),
        (json!({ "title": "t", "blocked_by": ["TY-99"] }), "blocked_by"),
        (json!({ "title": "t", "agent_profile_id": "nobody" }), "agent_profile_id"),
        (json!({ "title": "t", "idempotency_key": "" }), "idempotency_key"),
    ];
    for (mut arguments, field) in refused {
        arguments["list_id"] = json!(list);
        let error = yard.engine.add_task(&yard.me(), input(arguments)).await.unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
        assert!(matches!(error.class, Class::InvalidArgument | Class::NotFound), "{error:?}");
    }
    assert!(yard.engine.list_tasks(&yard.me(), input(json!({}))).await.unwrap().tasks.is_empty());
}

#[tokio::test]
async fn what_is_said_is_stored() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let blocker = yard.add(&list, "first").await;
    let due = tomorrow(yard.engine.store().now());
    let arguments = json!({
        "list_id": list, "title": " Fix\nit ", "description": "d", "priority": "P1", "due_at": due, "manual": true,
        "sort_order": -2.5, "blocked_by": [blocker, blocker],
    });
    let added = yard.engine.add_task(&yard.me(), input(arguments)).await.unwrap();
    assert_eq!((added.status.as_str(), added.blocked_by.as_slice()), ("ready", ["TY-1".to_owned()].as_slice()));
    let got = yard.engine.get_task(&yard.me(), input(json!({ "task_id": added.task_id }))).await.unwrap();
    assert_eq!((got.row.title.as_str(), got.row.priority.as_str(), got.row.manual, got.sort_order), ("Fix it", "high", true, -2.5));
    assert_eq!(got.row.due_at.unwrap().to_string(), due);
    assert_eq!((got.blocked_by.count, got.blocked_by.tasks[0].short_id.as_str()), (1, "TY-1"));
    let first = yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-1" }))).await.unwrap();
    assert_eq!((first.blocks.count, first.blocks.tasks[0].short_id.as_str()), (1, "TY-2"));
    assert_eq!((got.created_by.as_str(), got.list.as_str()), ("operator", "L"));
}

#[tokio::test]
async fn queueing_needs_a_repository_and_a_profile() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    let call = || input(json!({ "list_id": list, "title": "t", "queue": true }));
    let error = yard.engine.add_task(&yard.me(), call()).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::FailedPrecondition, Some("agent_profile_id")));
    yard.agent("claude", DriverKind::Claude).await;
    let added = yard.engine.add_task(&yard.me(), call()).await.unwrap();
    assert_eq!(added.status, "queued");
    let state = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(state.waiting_task_ids, [added.task_id]);
}

#[tokio::test]
async fn models_are_checked_against_the_agent_that_would_run() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let claude = yard.agent("claude", DriverKind::Claude).await;
    let free = yard.agent("free", DriverKind::Acp).await;
    let add = |model: &str, profile: &str| input(json!({ "list_id": list, "title": "t", "model": model, "agent_profile_id": profile }));
    let error = yard.engine.add_task(&yard.me(), add("gpt-9", &claude)).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("model")));
    assert!(error.message.contains("haiku, sonnet, opus"), "{error}");
    let model = async |short: String| yard.task(&short).await.config.model;
    let known = yard.engine.add_task(&yard.me(), add("Opus", &claude)).await.unwrap();
    assert_eq!(model(known.short_id).await.as_deref(), Some("opus"));
    let any = yard.engine.add_task(&yard.me(), add("gpt-9", &free)).await.unwrap();
    assert_eq!(model(any.short_id).await.as_deref(), Some("gpt-9"));
    let blank = yard.engine.add_task(&yard.me(), add(" ", "claude")).await.unwrap();
    assert_eq!(model(blank.short_id).await, None);
}

#[tokio::test]
async fn a_key_makes_a_retry_safe() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let call = |title: &str| input(json!({ "list_id": list, "title": title, "idempotency_key": "k" }));
    let first = yard.engine.add_task(&yard.me(), call("t")).await.unwrap();
    let again = yard.engine.add_task(&yard.me(), call("t")).await.unwrap();
    assert_eq!((again.replayed, &again.task_id), (true, &first.task_id));
    let other = yard.engine.add_task(&yard.me(), call("other")).await.unwrap_err();
    assert_eq!((other.class, other.field.as_deref()), (Class::Conflict, Some("idempotency_key")));
    let run = yard.open_run(&first.short_id).await;
    let theirs = yard.engine.add_task(&yard.run_of(&run), call("t")).await.unwrap();
    assert!(!theirs.replayed, "keys belong to their caller");
    yard.clock.advance(25 * 3600);
    let later = yard.engine.add_task(&yard.me(), call("t")).await;
    assert!(later.is_ok_and(|later| !later.replayed), "a key is kept for a day");
}

#[tokio::test]
async fn a_failed_call_does_not_use_up_its_key() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let call = |title: &str| input(json!({ "list_id": list, "title": title, "idempotency_key": "k" }));
    assert!(yard.engine.add_task(&yard.me(), call("")).await.is_err());
    assert!(!yard.engine.add_task(&yard.me(), call("t")).await.unwrap().replayed);
}

#[tokio::test]
async fn many_retries_at_once_make_one_task() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let calls = (0..20).map(|_| {
        let (engine, me, list) = (yard.engine.clone(), yard.me(), list.clone());
        tokio::spawn(async move { engine.add_task(&me, input(json!({ "list_id": list, "title": "t", "idempotency_key": "k" }))).await })
    });
    let mut fresh = 0;
    for call in calls.collect::<Vec<_>>() {
        fresh += usize::from(!call.await.unwrap().unwrap().replayed);
    }
    assert_eq!(fresh, 1);
    assert_eq!(yard.engine.list_tasks(&yard.me(), input(json!({}))).await.unwrap().tasks.len(), 1);
}

#[tokio::test]
async fn a_subtask_takes_after_its_parent() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let profile = yard.agent("claude", DriverKind::Claude).await;
    let parent = json!({ "list_id": list, "title": "p", "priority": "critical", "model": "opus", "agent_profile_id": profile });
    let parent = yard.engine.add_task(&yard.me(), input(parent)).await.unwrap();
    let child = yard.engine.add_subtask(&yard.me(), input(json!({ "parent_id": parent.short_id, "title": "c" }))).await.unwrap();
    assert_eq!((child.parent_id.as_ref(), &child.list_id), (Some(&parent.task_id), &list));
    let stored = yard.task(&child.short_id).await;
    assert_eq!((stored.priority.as_str(), stored.config.model.as_deref()), ("critical", Some("opus")));
    assert_eq!(stored.config.agent_profile_id.unwrap().to_string(), profile);
    let other = input(json!({ "parent_id": parent.short_id, "title": "c", "model": "haiku" }));
    let other = yard.engine.add_subtask(&yard.me(), other).await.unwrap();
    assert_eq!(yard.task(&other.short_id).await.config.model.as_deref(), Some("haiku"));
    let got = yard.engine.get_task(&yard.me(), input(json!({ "task_id": parent.short_id }))).await.unwrap();
    assert_eq!(got.children.count, 2);
    let listed = yard.engine.list_tasks(&yard.me(), input(json!({ "parent_id": parent.short_id }))).await.unwrap();
    assert_eq!(listed.tasks.len(), 2);
    let key = || input(json!({ "parent_id": parent.short_id, "title": "c", "idempotency_key": "k" }));
    yard.engine.add_subtask(&yard.me(), key()).await.unwrap();
    assert!(yard.engine.add_subtask(&yard.me(), key()).await.unwrap().replayed);
}

#[tokio::test]
async fn fields_are_changed_and_cleared() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    let due = tomorrow(yard.engine.store().now());
    let change =
        json!({ "task_id": name, "title": "new", "description": "d", "priority": "low", "due_at": due, "manual": true, "sort_order": 4.0 });
    let changed = yard.engine.update_task(&yard.me(), input(change.clone())).await.unwrap();
    assert!(changed.updated && changed.fields.contains(&"due_at".to_owned()));
    assert_eq!((changed.task.title.as_str(), changed.task.priority.as_str()), ("new", "low"));
    assert!(!yard.engine.update_task(&yard.me(), input(change)).await.unwrap().updated, "the second time changes nothing");
    let cleared = input(json!({ "task_id": name, "clear": ["description", "dueAt"] }));
    assert!(yard.engine.update_task(&yard.me(), cleared).await.unwrap().updated);
    let task = yard.task(&name).await;
    assert_eq!((task.description.as_str(), task.due_at), ("", None));
    for bad in [json!({ "clear": ["title"] }), json!({ "description": "x", "clear": ["description"] }), json!({}), json!({ "title": "" })] {
        let mut all = bad.clone();
        all["task_id"] = json!(name);
        assert_eq!(yard.engine.update_task(&yard.me(), input(all)).await.unwrap_err().class, Class::InvalidArgument, "{bad}");
    }
}

#[tokio::test]
async fn a_refused_state_changes_no_field_either() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    let call = input(json!({ "task_id": name, "title": "new", "state": "queued" }));
    assert_eq!(yard.engine.update_task(&yard.me(), call).await.unwrap_err().class, Class::FailedPrecondition);
    assert_eq!(yard.task(&name).await.title, "t");
    let call = input(json!({ "task_id": name, "title": "new", "state": "Completed" }));
    let updated = yard.engine.update_task(&yard.me(), call).await.unwrap();
    assert_eq!((updated.task.status.as_str(), updated.previous_status.as_str(), updated.task.title.as_str()), ("done", "ready", "new"));
    let call = input(json!({ "task_id": name, "state": "in_progress" }));
    let error = yard.engine.update_task(&yard.me(), call).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("state")));
}

#[tokio::test]
async fn handles_are_uuids_or_short_ids_and_nothing_else() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    let id = yard.task(&name).await.id.to_string();
    for handle in [id.clone(), id.to_uppercase(), "ty-1".into(), "TY-1".into()] {
        let got = yard.engine.get_task(&yard.me(), input(json!({ "task_id": handle }))).await.unwrap();
        assert_eq!(got.row.short_id, "TY-1");
    }
    for (handle, class) in [(&id[..8], Class::InvalidArgument), ("TY-9", Class::NotFound), ("t", Class::InvalidArgument)] {
        let error = yard.engine.get_task(&yard.me(), input(json!({ "task_id": handle }))).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (class, Some("task_id")), "{error}");
    }
}
