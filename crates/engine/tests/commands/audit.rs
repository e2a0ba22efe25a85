//! The audit: every change has its entry, by name, with who made it, through which face, and what it was about.

use crate::support::{Yard, input};
use serde_json::{Value, json};
use taskyard_domain::agent::DriverKind;
use taskyard_domain::alias::Vocabulary as _;
use taskyard_domain::audit::Action;
use taskyard_domain::task::Status;
use taskyard_domain::{Class, Face};
use taskyard_engine::Caller;
use taskyard_engine::commands::output::AuditRow;

/// The whole audit of a workspace about `target`, oldest first.
async fn entries(yard: &Yard, target: Option<&str>) -> Vec<AuditRow> {
    let asked = json!({ "workspace": "main", "target_id": target, "limit": 200 });
    let mut found = yard.engine.get_audit_log(&yard.me(), input(asked)).await.unwrap().entries;
    found.reverse();
    found
}

/// What was done to `target`, in order.
async fn actions(yard: &Yard, target: Option<&str>) -> Vec<String> {
    entries(yard, target).await.into_iter().map(|entry| entry.action).collect()
}

#[tokio::test]
async fn every_change_of_the_operator_is_named() {
    let yard = Yard::new().await;
    let (engine, me) = (&yard.engine, Caller::operator(Face::Cli));
    let (list, _repo) = yard.list_with_repo("L").await;
    let repository = engine.repository_list(&me, input(json!({}))).await.unwrap().repositories[0].id.clone();
    yard.agent("scripted", DriverKind::Exec).await;
    engine.agent_remove(&me, input(json!({ "name": "scripted" }))).await.unwrap();
    engine.repository_update(&me, input(json!({ "repository_id": repository, "setup_script": "true" }))).await.unwrap();
    engine.settings_update(&me, input(json!({ "settings": { "configured_slots": 5 } }))).await.unwrap();
    engine.workspace_rename(&me, input(json!({ "workspace": "main", "name": "Home" }))).await.unwrap();
    engine.workspace_prompt(&me, input(json!({ "workspace": "main", "prompt": "Be kind." }))).await.unwrap();
    engine.update_list(&me, input(json!({ "list_id": list, "name": "M" }))).await.unwrap();
    engine.set_list_config(&me, input(json!({ "list_id": list, "target_branch": "main" }))).await.unwrap();
    engine.list_prompt(&me, input(json!({ "list_id": list, "prompt": "Listen." }))).await.unwrap();
    engine.step_add(&me, input(json!({ "list_id": list, "name": "Do", "stage": "work" }))).await.unwrap();
    engine.step_update(&me, input(json!({ "list_id": list, "step": "Do", "prompt": "Now." }))).await.unwrap();
    engine.step_remove(&me, input(json!({ "list_id": list, "step": "Do" }))).await.unwrap();
    engine.delete_list(&me, input(json!({ "list_id": list }))).await.unwrap();
    let found = entries(&yard, None).await;
    let named: Vec<(&str, &str)> = found.iter().map(|entry| (entry.action.as_str(), entry.target_type.as_str())).collect();
    let expected = [
        ("repository.added", "repository"),
        ("list.created", "list"),
        ("agent.saved", "agent"),
        ("agent.removed", "agent"),
        ("repository.updated", "repository"),
        ("settings.updated", "settings"),
        ("workspace.renamed", "workspace"),
        ("workspace.updated", "workspace"),
        ("list.updated", "list"),
        ("list.configured", "list"),
        ("list.updated", "list"),
        ("step.added", "step"),
        ("step.updated", "step"),
        ("step.removed", "step"),
        ("list.deleted", "list"),
    ];
    assert_eq!(named, expected);
    assert!(found[3..].iter().all(|entry| (entry.actor.as_str(), entry.face.as_str()) == ("operator", "cli")), "{found:?}");
    assert_eq!(found[1].target_id, list);
    assert!(found.iter().all(|entry| entry.task_id.is_none() && entry.metadata.is_object()));
}

#[tokio::test]
async fn what_changes_nothing_leaves_no_entry() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let task = yard.add(&list, "t").await;
    let before = entries(&yard, None).await.len();
    let (engine, me) = (&yard.engine, yard.me());
    engine.workspace_rename(&me, input(json!({ "workspace": "main", "name": "Main" }))).await.unwrap();
    engine.workspace_prompt(&me, input(json!({ "workspace": "main", "prompt": "" }))).await.unwrap();
    engine.update_list(&me, input(json!({ "list_id": list, "name": "L" }))).await.unwrap();
    engine.update_task(&me, input(json!({ "task_id": task, "title": "t" }))).await.unwrap();
    engine.update_task(&me, input(json!({ "task_id": task, "title": "" }))).await.unwrap_err();
    assert_eq!(entries(&yard, None).await.len(), before);
}

#[tokio::test]
async fn what_happens_to_a_task_is_told_even_when_it_is_gone() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (task, blocker, child) = (yard.add(&list, "t").await, yard.add(&list, "b").await, yard.add(&list, "c").await);
    let (engine, me) = (&yard.engine, yard.me());
    let of = |more: Value| {
        let mut values = json!({ "task_id": task });
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values
    };
    engine.update_task(&me, input(of(json!({ "title": "T" })))).await.unwrap();
    engine.set_task_config(&me, input(of(json!({ "max_turns": 3 })))).await.unwrap();
    engine.add_task_dependency(&me, input(of(json!({ "depends_on_task_id": blocker })))).await.unwrap();
    engine.remove_task_dependency(&me, input(of(json!({ "depends_on_task_id": blocker })))).await.unwrap();
    let mut row = yard.task(&child).await;
    row.parent_id = Some(yard.task(&task).await.id);
    yard.write(move |tx| Box::pin(async move { tx.task_update(&row).await })).await;
    engine.update_task_status(&me, input(of(json!({ "status": "done" })))).await.unwrap();
    engine.update_task_status(&me, input(of(json!({ "status": "ready" })))).await.unwrap();
    yard.force(&task, Status::Failed).await;
    engine.reset_failed_task(&me, input(of(json!({})))).await.unwrap();
    let claim = json!({ "workspace": "main", "backlog_item_id": task, "actor_user_id": "ada" });
    let run = engine.claim_task(&me, input(claim.clone())).await.unwrap().run_id;
    let mut again = claim;
    again["notes"] = "still at it".into();
    engine.claim_task(&me, input(again)).await.unwrap();
    engine.complete_task(&me, input(json!({ "workspace": "main", "run_id": run, "outcome": "abandoned" }))).await.unwrap();
    engine.cancel_task(&me, input(of(json!({})))).await.unwrap();
    let id = yard.task(&task).await.id.to_string();
    engine.delete_task(&me, input(of(json!({})))).await.unwrap();
    let told = [
        "task.created",
        "task.updated",
        "task.configured",
        "task.dependency_added",
        "task.dependency_removed",
        "task.status_set",
        "task.status_set",
        "task.reset",
        "task.claimed",
        "task.reclaimed",
        "task.completed",
        "task.cancelled",
        "task.deleted",
    ];
    // By its short id, which no other task ever gets, and by its UUID.
    assert_eq!(actions(&yard, Some(&task.to_lowercase())).await, told);
    assert_eq!(actions(&yard, Some(&id)).await, told);
    let claims = entries(&yard, Some(&run)).await;
    assert_eq!(claims.iter().map(|entry| entry.task_id.as_deref()).collect::<Vec<_>>(), [Some(id.as_str()); 3]);
    assert!(claims.iter().all(|entry| entry.target_type == "agent_run" && entry.actor_label.as_deref() == Some("ada")));
    let orphan = entries(&yard, Some(&child)).await.pop().unwrap();
    assert_eq!((orphan.action.as_str(), &orphan.metadata["fields"]), ("task.updated", &json!(["parent_id"])));
}

#[tokio::test]
async fn a_limit_and_its_end_are_told_of_the_account_and_its_tasks() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("scripted", DriverKind::Exec).await;
    let task = yard.engine.add_task(&yard.me(), input(json!({ "list_id": list, "title": "t", "queue": true }))).await.unwrap();
    let (mut row, workspace, now) = (yard.task(&task.short_id).await, yard.workspace, yard.engine.store().now());
    yard.write(move |tx| {
        Box::pin(async move {
            let mut agent = tx.agent_by_name(workspace, "scripted").await?.unwrap();
            agent.limited_until = Some(now + jiff::SignedDuration::from_hours(1));
            row.not_before = agent.limited_until;
            tx.agent_update(&agent).await?;
            tx.task_update(&row).await
        })
    })
    .await;
    let lifted = yard.engine.agent_unlimit(&yard.me(), input(json!({ "name": "scripted" }))).await.unwrap();
    assert_eq!(lifted.released, std::slice::from_ref(&task.short_id));
    assert_eq!(actions(&yard, Some(&lifted.agent_id)).await, ["agent.saved", "agent.unlimited"]);
    assert_eq!(actions(&yard, Some(&task.short_id)).await.last().unwrap(), "task.updated");
    yard.engine.agent_unlimit(&yard.me(), input(json!({ "name": "scripted" }))).await.unwrap();
    assert_eq!(actions(&yard, Some(&lifted.agent_id)).await.len(), 2, "there was nothing to lift");
}

#[tokio::test]
async fn what_the_audit_cannot_be_asked_for_is_said() {
    let yard = Yard::new().await;
    let asked = async |more: Value| {
        let mut values = json!({ "workspace": "main" });
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        yard.engine.get_audit_log(&yard.me(), input(values)).await
    };
    let unknown = asked(json!({ "action": "task.danced" })).await.unwrap_err();
    assert_eq!((unknown.class, unknown.field.as_deref()), (Class::InvalidArgument, Some("action")));
    assert!(Action::ALL.iter().all(|action| unknown.message.contains(action.as_str())), "{unknown}");
    let nobody = asked(json!({ "target_id": "TY-9999" })).await.unwrap_err();
    assert_eq!((nobody.class, nobody.field.as_deref()), (Class::NotFound, Some("target_id")));
    let (engine, me) = (&yard.engine, yard.me());
    engine.workspace_add(&me, input(json!({ "slug": "other" }))).await.unwrap();
    let list = engine.create_list(&me, input(json!({ "name": "L", "workspace_id": "other" }))).await.unwrap().list_id;
    let foreign = yard.add(&list, "t").await;
    for _ in 0..2 {
        assert_eq!(asked(json!({ "target_id": foreign })).await.unwrap_err().class, Class::NotFound, "of another workspace");
        let _ = engine.delete_task(&me, input(json!({ "task_id": foreign }))).await;
    }
    assert!(asked(json!({ "action": "Task.Created" })).await.unwrap().entries.is_empty(), "in any letter case");
}

#[test]
fn the_page_for_people_names_every_action() {
    let page = include_str!("../../../../docs/audit.md");
    let missing: Vec<&str> =
        Action::ALL.iter().map(|action| action.as_str()).filter(|action| !page.contains(&format!("`{action}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let named = page.split('`').skip(1).step_by(2).filter(|word| word.contains('.') && !word.contains(' '));
    let unknown: Vec<&str> = named.filter(|word| Action::stored(word).is_none() && !word.ends_with(".md")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
