//! What a run's token may see and do.

use crate::support::{Yard, claimed, input};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::id::RunId;
use taskyard_domain::task::Status;

/// A yard with a task, an agent that works on it, and a task of another workspace.
async fn two_workspaces() -> (Yard, taskyard_engine::Caller, String) {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let own = yard.add(&list, "own").await;
    let run = yard.open_run(&own).await;
    let agent = yard.run_of(&run);
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    let other = yard.engine.create_list(&yard.me(), input(json!({ "name": "O", "workspace_id": "other" }))).await.unwrap();
    let foreign = yard.engine.add_task(&yard.me(), input(json!({ "list_id": other.list_id, "title": "secret" }))).await.unwrap();
    (yard, agent, foreign.short_id)
}

#[tokio::test]
async fn a_run_sees_its_workspace_only() {
    let (yard, agent, foreign) = two_workspaces().await;
    assert_eq!(foreign, "OT-1");
    let error = yard.engine.get_task(&agent, input(json!({ "task_id": foreign }))).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound, "as if it didn't exist");
    let tasks = yard.engine.list_tasks(&agent, input(json!({}))).await.unwrap();
    assert_eq!(tasks.tasks.iter().map(|task| task.short_id.as_str()).collect::<Vec<_>>(), ["TY-1"]);
    let other = yard.engine.list_tasks(&agent, input(json!({ "workspace_id": "other" }))).await.unwrap_err();
    assert_eq!(other.class, Class::NotFound);
    assert_eq!(yard.engine.list_workspaces(&agent, input(json!({}))).await.unwrap().workspaces.len(), 1);
    assert_eq!(yard.engine.list_task_lists(&agent, input(json!({}))).await.unwrap().total, 1);
    let audit = yard.engine.get_audit_log(&agent, input(json!({ "workspace": "other" }))).await.unwrap_err();
    assert_eq!(audit.class, Class::NotFound);
    let depends = input(json!({ "task_id": "TY-1", "depends_on_task_id": foreign }));
    assert_eq!(yard.engine.add_task_dependency(&agent, depends).await.unwrap_err().class, Class::NotFound);
    let run = yard.open_run(&foreign).await;
    assert!(!yard.engine.get_run(&agent, input(json!({ "run_id": run.id }))).await.unwrap().found);
    assert!(yard.engine.get_run(&yard.me(), input(json!({ "run_id": run.id }))).await.unwrap().found);
    assert_eq!(yard.engine.list_runs(&agent, input(json!({}))).await.unwrap().runs.len(), 1);
    assert_eq!(yard.engine.list_runs(&yard.me(), input(json!({}))).await.unwrap().runs.len(), 2);
}

#[tokio::test]
async fn tasks_do_not_depend_across_workspaces() {
    let (yard, _, foreign) = two_workspaces().await;
    let depends = input(json!({ "task_id": "TY-1", "depends_on_task_id": foreign }));
    let error = yard.engine.add_task_dependency(&yard.me(), depends).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("depends_on_task_id")));
}

/// A workspace is named by its slug or its UUID, wherever one is named.
#[tokio::test]
async fn a_workspace_is_named_by_slug_or_uuid_everywhere() {
    let (yard, _, _) = two_workspaces().await;
    let (engine, me) = (&yard.engine, yard.me());
    let all = engine.list_workspaces(&me, input(json!({}))).await.unwrap().workspaces;
    let uuid = all.iter().find(|workspace| workspace.slug == "other").unwrap().id.clone();
    for (turn, name) in ["other", uuid.as_str()].into_iter().enumerate() {
        let by = |field: &str, more: serde_json::Value| {
            let mut arguments = more;
            arguments[field] = name.into();
            arguments
        };
        let lists = engine.list_task_lists(&me, input(by("workspace_id", json!({})))).await.unwrap();
        assert!(lists.total > turn && lists.lists.iter().all(|list| list.name != "L"), "{lists:?}");
        assert_eq!(engine.list_tasks(&me, input(by("workspace_id", json!({})))).await.unwrap().tasks[0].title, "secret");
        assert!(engine.list_runs(&me, input(by("workspace_id", json!({})))).await.unwrap().runs.iter().all(|run| run.kind == "claimed"));
        assert!(engine.list_worktrees(&me, input(by("workspace_id", json!({})))).await.unwrap().worktrees.is_empty());
        assert!(engine.repository_list(&me, input(by("workspace_id", json!({})))).await.is_ok());
        engine.create_list(&me, input(by("workspace_id", json!({ "name": format!("List {turn}") })))).await.unwrap();
        engine.workspace_rename(&me, input(by("workspace", json!({ "name": format!("Other {turn}") })))).await.unwrap();
        engine.workspace_prompt(&me, input(by("workspace", json!({ "prompt": "p" })))).await.unwrap();
        let made = input(by("workspace", json!({ "kind": "task", "title": "x", "status": "ready" })));
        let made = engine.create_object(&me, made).await.unwrap();
        assert!(!engine.list_backlog(&me, input(by("workspace", json!({ "claimable_only": true })))).await.unwrap().items.is_empty());
        let claim = engine.claim_task(&me, input(by("workspace", json!({ "backlog_item_id": made.id })))).await.unwrap();
        engine.complete_task(&me, input(by("workspace", json!({ "run_id": claim.run_id })))).await.unwrap();
        let next = engine.claim_next_task(&me, input(by("workspace", json!({})))).await.unwrap();
        assert_eq!(next.found, turn == 0, "there was one more");
        assert!(!engine.get_audit_log(&me, input(by("workspace", json!({})))).await.unwrap().entries.is_empty());
        assert!(engine.backlog_import(&me, input(by("workspace", json!({ "files": [] })))).await.unwrap().imported);
        assert!(!engine.backlog_export(&me, input(by("workspace", json!({})))).await.unwrap().files.is_empty());
    }
}

/// Nothing crosses: what another workspace has doesn't exist here, also for a person who sees both.
#[tokio::test]
async fn what_another_workspace_has_is_not_found_by_any_argument() {
    let (yard, _, foreign) = two_workspaces().await;
    let (engine, me) = (&yard.engine, yard.me());
    let list = engine.list_tasks(&me, input(json!({ "workspace_id": "other" }))).await.unwrap().tasks[0].list_id.clone();
    let object = |workspace: &str, more: serde_json::Value| {
        let mut arguments = json!({ "workspace": workspace, "kind": "task", "title": "t" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        engine.create_object(&me, input(arguments))
    };
    object("other", json!({ "kind": "plan", "title": "Plan", "slug": "p" })).await.unwrap();
    object("other", json!({ "kind": "epic", "title": "Epic", "slug": "e" })).await.unwrap();
    // A slug is unique among its kind in its workspace, and free everywhere else.
    object("other", json!({ "kind": "task", "slug": "p" })).await.unwrap();
    object("main", json!({ "kind": "plan", "slug": "same" })).await.unwrap();
    object("other", json!({ "kind": "plan", "slug": "same" })).await.unwrap();
    let claim = engine.claim_task(&me, input(json!({ "workspace": "other", "backlog_item_id": foreign }))).await.unwrap();
    let here = engine.create_list(&me, input(json!({ "name": "Own", "workspace_id": "main" }))).await.unwrap().list_id;
    let own = yard.add(&here, "own").await;
    let uuid = yard.task(&foreign).await.id;
    let repository = json!({ "workspace_id": "other", "name": "R", "local_path": yard.foreign_repo().await });
    let repository = engine.create_list(&me, input(repository)).await.unwrap().repository_id;
    let profile = json!({ "name": "ada", "driver": "exec", "command": ["true"], "workspace": "other" });
    let profile = engine.agent_add(&me, input(profile)).await.unwrap().profile_id;
    let none = engine.get_audit_log(&me, input(json!({ "workspace": "main", "target_id": uuid }))).await.unwrap();
    assert!(none.entries.is_empty(), "its audit is its own workspace's");
    let not_found = [
        ("claim_task by UUID", engine.claim_task(&me, input(json!({ "workspace": "main", "backlog_item_id": uuid }))).await.err()),
        (
            "create_list",
            engine.create_list(&me, input(json!({ "workspace_id": "main", "name": "x", "repository_id": repository }))).await.err(),
        ),
        ("list_backlog epic", engine.list_backlog(&me, input(json!({ "workspace": "main", "epic_slug": "e" }))).await.err()),
        (
            "add_task profile",
            engine.add_task(&me, input(json!({ "list_id": here, "title": "t", "agent_profile_id": profile }))).await.err(),
        ),
        ("list profile", engine.set_list_config(&me, input(json!({ "list_id": here, "agent_profile_id": profile }))).await.err()),
        ("list repository", engine.set_list_config(&me, input(json!({ "list_id": here, "repository_id": repository }))).await.err()),
        ("task profile", engine.set_task_config(&me, input(json!({ "task_id": own, "agent_profile_id": profile }))).await.err()),
        ("agent_remove", engine.agent_remove(&me, input(json!({ "name": "ada", "workspace": "main" }))).await.err()),
        ("agent_unlimit", engine.agent_unlimit(&me, input(json!({ "name": "ada", "workspace": "main" }))).await.err()),
        ("audit", engine.get_audit_log(&me, input(json!({ "workspace": "main", "target_id": foreign }))).await.err()),
        ("claim_task", engine.claim_task(&me, input(json!({ "workspace": "main", "backlog_item_id": foreign }))).await.err()),
        ("complete_task", engine.complete_task(&me, input(json!({ "workspace": "main", "run_id": claim.run_id }))).await.err()),
        ("claim_next_task", engine.claim_next_task(&me, input(json!({ "workspace": "main", "workflow_id": list }))).await.err()),
        ("create_object plan", object("main", json!({ "plan_slug": "p" })).await.err()),
        ("create_object epic", object("main", json!({ "epic_slug": "e" })).await.err()),
        ("list_backlog plan", engine.list_backlog(&me, input(json!({ "workspace": "main", "plan_slug": "p" }))).await.err()),
        ("list_tasks list", engine.list_tasks(&me, input(json!({ "workspace_id": "main", "list_id": list }))).await.err()),
        ("list_tasks parent", engine.list_tasks(&me, input(json!({ "workspace_id": "main", "parent_id": foreign }))).await.err()),
        ("list_runs", engine.list_runs(&me, input(json!({ "workspace_id": "main", "task_id": foreign }))).await.err()),
        (
            "remove_task_dependency",
            engine.remove_task_dependency(&me, input(json!({ "task_id": own, "depends_on_task_id": foreign }))).await.err(),
        ),
        ("add_task", engine.add_task(&me, input(json!({ "list_id": here, "title": "t", "blocked_by": [foreign] }))).await.err()),
    ];
    for (call, error) in not_found {
        let error = error.unwrap_or_else(|| panic!("{call} went through"));
        assert_eq!((error.class, error.field.is_some()), (Class::NotFound, true), "{call}: {error:?}");
    }
}

#[tokio::test]
async fn several_workspaces_have_to_be_told_apart() {
    let (yard, _, _) = two_workspaces().await;
    let error = yard.engine.list_tasks(&yard.me(), input(json!({}))).await.unwrap_err();
    assert_eq!(error.field.as_deref(), Some("workspace_id"));
    assert!(error.message.contains("main") && error.message.contains("other"), "{error}");
}

#[tokio::test]
async fn an_agent_does_not_decide_for_a_person() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (own, reviewed) = (yard.add(&list, "own").await, yard.add(&list, "reviewed").await);
    let run = yard.open_run(&own).await;
    let agent = yard.run_of(&run);
    yard.force(&reviewed, Status::WaitingForReview).await;
    for word in ["done", "ready", "cancelled"] {
        let said = yard.engine.update_task_status(&agent, input(json!({ "task_id": reviewed, "status": word }))).await;
        assert_eq!(said.unwrap_err().class, Class::Forbidden, "{word}");
        let said = yard.engine.update_task(&agent, input(json!({ "task_id": reviewed, "state": word }))).await;
        assert_eq!(said.unwrap_err().class, Class::Forbidden, "{word}");
    }
    let cancel = yard.engine.update_task_status(&agent, input(json!({ "task_id": own, "status": "cancelled" }))).await;
    assert_eq!(cancel.unwrap_err().class, Class::Forbidden, "a run's end is a person's");
    let folder = input(json!({ "name": "L", "local_path": yard.path() }));
    assert_eq!(yard.engine.create_list(&agent, folder).await.unwrap_err().class, Class::Forbidden);
}

#[tokio::test]
async fn the_operators_operations_are_closed_to_agents() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let own = yard.add(&list, "own").await;
    let agent = yard.run_of(&claimed(&yard.task(&own).await, RunId(yard.engine.store().ids().next()), yard.engine.store().now()));
    let engine = &yard.engine;
    let refused = [
        engine.agent_add(&agent, input(json!({ "name": "a", "driver": "acp", "command": ["a"] }))).await.err(),
        engine.agent_remove(&agent, input(json!({ "name": "a" }))).await.err(),
        engine.agent_unlimit(&agent, input(json!({ "name": "a" }))).await.err(),
        engine.settings_update(&agent, input(json!({ "settings": {} }))).await.err(),
        engine.queue_pause(&agent, input(json!({}))).await.err(),
        engine.queue_resume(&agent, input(json!({}))).await.err(),
        engine.repository_list(&agent, input(json!({}))).await.err(),
        engine.repository_update(&agent, input(json!({ "repository_id": "x" }))).await.err(),
        engine.workspace_add(&agent, input(json!({ "slug": "s" }))).await.err(),
        engine.workspace_rename(&agent, input(json!({ "workspace": "main", "name": "n" }))).await.err(),
        engine.workspace_prompt(&agent, input(json!({ "workspace": "main" }))).await.err(),
        engine.list_prompt(&agent, input(json!({ "list_id": list }))).await.err(),
        engine.step_list(&agent, input(json!({ "list_id": list }))).await.err(),
        engine.step_add(&agent, input(json!({ "list_id": list, "name": "A", "stage": "work" }))).await.err(),
        engine.step_update(&agent, input(json!({ "list_id": list, "step": "A" }))).await.err(),
        engine.step_remove(&agent, input(json!({ "list_id": list, "step": "A" }))).await.err(),
        engine.backlog_import(&agent, input(json!({ "workspace": "main", "files": [] }))).await.err(),
        engine.backlog_export(&agent, input(json!({ "workspace": "main" }))).await.err(),
    ];
    for (index, error) in refused.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.class), Some(Class::Forbidden), "operation {index}");
    }
}
