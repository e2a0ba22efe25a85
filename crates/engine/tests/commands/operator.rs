//! The operator's operations: agents, settings, repositories, workspaces, limits.

use crate::support::{Yard, input};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::agent::DriverKind;

#[tokio::test]
async fn a_first_start_makes_one_workspace() {
    let yard = Yard::empty().await;
    for _ in 0..2 {
        yard.engine.start("http://127.0.0.1:1").await.unwrap();
    }
    let workspaces = yard.engine.list_workspaces(&yard.me(), input(json!({}))).await.unwrap().workspaces;
    assert_eq!(workspaces.iter().map(|w| (w.slug.as_str(), w.task_prefix.as_str())).collect::<Vec<_>>(), [("default", "TY")]);
    yard.engine.stop().await;
}

#[tokio::test]
async fn workspaces_have_slugs_and_prefixes_of_their_own() {
    let yard = Yard::new().await;
    let add = async |slug: &str| yard.engine.workspace_add(&yard.me(), input(json!({ "slug": slug }))).await;
    let made = add("typing").await.unwrap();
    assert_eq!((made.created, made.task_prefix.as_str()), (true, "TYP"), "TY is taken");
    assert_eq!(add("typing").await.unwrap_err().class, Class::Conflict);
    for bad in ["", "Upper", "a b", "-a", "a-", &"x".repeat(41), "01890a5d-ac96-774b-bcce-b302099a8057"] {
        assert_eq!(add(bad).await.unwrap_err().field.as_deref(), Some("slug"), "{bad}");
    }
    let made = json!({ "workspace": "typing", "action": "workspace.created" });
    assert_eq!(yard.engine.get_audit_log(&yard.me(), input(made)).await.unwrap().entries.len(), 1);
    let renamed = yard.engine.workspace_rename(&yard.me(), input(json!({ "workspace": "typing", "name": "Typing" }))).await.unwrap();
    assert_eq!((renamed.name.as_str(), renamed.slug.as_str(), renamed.created), ("Typing", "typing", false));
}

#[tokio::test]
async fn the_first_agent_is_the_default_and_adding_again_changes_it() {
    let yard = Yard::new().await;
    let add = async |values: serde_json::Value| yard.engine.agent_add(&yard.me(), input(values)).await;
    let first = add(json!({ "name": "a", "driver": "ACP", "command": ["one"], "env": { "K": "v", "L": "w" }, "max_parallel": null }))
        .await
        .unwrap();
    assert!(first.added && !first.updated && first.is_default);
    let second = add(json!({ "name": "b", "driver": "exec", "command": ["two"] })).await.unwrap();
    assert!(second.added && !second.is_default);
    let changed = json!({ "name": "a", "driver": "claude", "command": ["three", "-x"], "env": { "K": "***" }, "model": "opus", "permission_policy": "ask" });
    let changed = add(changed).await.unwrap();
    assert!(changed.updated && !changed.added);
    assert_eq!((&changed.agent_id, &changed.profile_id), (&first.agent_id, &first.profile_id));
    let workspace = yard.workspace;
    let stored =
        yard.engine.store().read(move |read| Box::pin(async move { read.agent_by_name(workspace, "a").await })).await.unwrap().unwrap();
    assert_eq!(stored.env.into_iter().collect::<Vec<_>>(), [("K".to_owned(), "v".to_owned())], "the mask keeps what is stored");
    assert_eq!((stored.driver, stored.command.len()), (DriverKind::Claude, 2));
    for (bad, field) in [
        (json!({ "name": "", "driver": "acp", "command": ["x"] }), "name"),
        (json!({ "name": "01890a5d-ac96-774b-bcce-b302099a8057", "driver": "acp", "command": ["x"] }), "name"),
        (json!({ "name": "c", "driver": "telnet", "command": ["x"] }), "driver"),
        (json!({ "name": "c", "driver": "acp", "command": [] }), "command"),
        (json!({ "name": "c", "driver": "acp", "command": ["x"], "env": { "A=B": "secret" } }), "env"),
        (json!({ "name": "c", "driver": "acp", "command": ["x"], "permission_policy": "yolo" }), "permission_policy"),
        (json!({ "name": "c", "driver": "acp", "command": ["x"], "max_parallel": 0 }), "max_parallel"),
    ] {
        let error = add(bad).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some(field)));
        assert!(!error.message.contains("secret"));
    }
}

#[tokio::test]
async fn an_agent_in_use_stays() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let profile = yard.agent("a", DriverKind::Acp).await;
    let remove = async |name: &str| yard.engine.agent_remove(&yard.me(), input(json!({ "name": name }))).await;
    let named = json!({ "list_id": list, "title": "t", "agent_profile_id": "a" });
    let task = yard.engine.add_task(&yard.me(), input(named)).await.unwrap().short_id;
    let error = remove("a").await.unwrap_err();
    assert_eq!(error.class, Class::Conflict);
    assert!(error.message.contains(&task), "{error}");
    yard.engine.set_task_config(&yard.me(), input(json!({ "task_id": task, "clear": ["agent_profile_id"] }))).await.unwrap();
    yard.session(&task, &profile).await;
    let error = remove("a").await.unwrap_err();
    assert_eq!(error.class, Class::Conflict, "its history names it");
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": task }))).await.unwrap();
    assert!(remove("a").await.unwrap().removed);
    let workspace = yard.engine.list_workspaces(&yard.me(), input(json!({}))).await.unwrap().workspaces.remove(0);
    assert_eq!(workspace.default_profile_id, None);
    assert_eq!(remove("a").await.unwrap_err().class, Class::NotFound);
}

#[tokio::test]
async fn lifting_a_limit_lets_its_tasks_start() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("a", DriverKind::Acp).await;
    yard.agent("b", DriverKind::Acp).await;
    let later = yard.engine.store().now() + jiff::SignedDuration::from_hours(3);
    for profile in ["a", "b"] {
        let add = json!({ "list_id": list, "title": "t", "queue": true, "agent_profile_id": profile });
        let name = yard.engine.add_task(&yard.me(), input(add)).await.unwrap().short_id;
        let mut task = yard.task(&name).await;
        task.not_before = Some(later);
        yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    }
    let workspace = yard.workspace;
    yard.write(move |tx| {
        Box::pin(async move {
            let mut agent = tx.agent_by_name(workspace, "a").await?.unwrap();
            (agent.limited_until, agent.limit_strikes) = (Some(later), 3);
            tx.agent_update(&agent).await
        })
    })
    .await;
    let state = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(state.waiting.iter().map(|task| task.reason.as_str()).collect::<Vec<_>>(), ["not_before", "not_before"]);
    let lifted = yard.engine.agent_unlimit(&yard.me(), input(json!({ "name": "a" }))).await.unwrap();
    assert_eq!((lifted.unlimited, lifted.released.as_slice()), (true, ["TY-1".to_owned()].as_slice()));
    let state = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(state.waiting.iter().map(|task| task.reason.as_str()).collect::<Vec<_>>(), ["starting", "not_before"]);
    assert!(!yard.engine.agent_unlimit(&yard.me(), input(json!({ "name": "a" }))).await.unwrap().unlimited);
    let error = yard.engine.agent_unlimit(&yard.me(), input(json!({ "name": "z" }))).await.unwrap_err();
    assert!(error.hint.unwrap().contains("a, b"));
}

#[tokio::test]
async fn settings_change_together_or_not_at_all() {
    let yard = Yard::new().await;
    let set = async |values: serde_json::Value| yard.engine.settings_update(&yard.me(), input(json!({ "settings": values }))).await;
    let changed = set(json!({ "configured_slots": 5, "tool_suffix": "_x" })).await.unwrap();
    assert_eq!((changed.updated, changed.settings.configured_slots, changed.settings.wait_limit), (true, 5, 900));
    for (bad, field) in [
        (json!({ "configured_slots": 7, "nonsense": 1 }), "nonsense"),
        (json!({ "configured_slots": 0 }), "configured_slots"),
        (json!({ "configured_slots": "many" }), "configured_slots"),
        (json!({ "worktree_root": "relative" }), "worktree_root"),
    ] {
        let error = set(bad).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some(field)));
    }
    let shown = yard.engine.get_app_settings(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!((shown.settings.configured_slots, shown.settings.tool_suffix.as_str()), (5, "_x"));
    assert!(!set(json!({ "configured_slots": 5 })).await.unwrap().updated);
}

#[tokio::test]
async fn a_pause_is_seen_in_the_queue() {
    let yard = Yard::new().await;
    assert!(yard.engine.queue_pause(&yard.me(), input(json!({}))).await.unwrap().settings.paused);
    let state = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!((state.paused, state.effective_slots, state.configured_slots), (true, 0, 3));
    assert!(state.reasons[0].contains("paused"));
    assert!(!yard.engine.queue_resume(&yard.me(), input(json!({}))).await.unwrap().settings.paused);
    assert_eq!(yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap().effective_slots, 3);
}

#[tokio::test]
async fn repositories_are_set_up() {
    let yard = Yard::new().await;
    let (_list, repo) = yard.list_with_repo("L").await;
    repo.git(&["branch", "release"]).await.unwrap();
    let id = yard.engine.repository_list(&yard.me(), input(json!({}))).await.unwrap().repositories.remove(0).id;
    let set = async |mut values: serde_json::Value| {
        values["repository_id"] = json!(id);
        yard.engine.repository_update(&yard.me(), input(values)).await
    };
    let changed = json!({
        "default_branch": "release", "branch_prefix": "bots/", "setup_script": "make", "copy_files": [".env"], "hook_policy": "skip",
        "sign_policy": "never", "cleanup_script": null, "verify_script": null,
    });
    let changed = set(changed).await.unwrap();
    assert!(changed.updated);
    let now = changed.repository;
    assert_eq!(
        (now.default_branch.as_deref(), now.branch_prefix.as_str(), now.setup_script.as_deref()),
        (Some("release"), "bots", Some("make"))
    );
    assert_eq!((now.copy_files, now.hook_policy.as_str(), now.sign_policy.as_str()), (vec![".env".to_owned()], "skip", "never"));
    assert_eq!(set(json!({ "setup_script": " ", "clear": ["copy_files"] })).await.unwrap().repository.setup_script, None);
    for (bad, field) in [
        (json!({ "default_branch": "nowhere" }), "default_branch"),
        (json!({ "branch_prefix": "a..b" }), "branch_prefix"),
        (json!({ "copy_files": ["../x"] }), "copy_files"),
        (json!({ "hook_policy": "maybe" }), "hook_policy"),
        (json!({ "clear": ["name"] }), "clear"),
    ] {
        let error = set(bad).await.unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
}
