//! Inherited configuration: what is set, what holds, and where from.

use crate::support::{Yard, input, size};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::config::Source;
use taskyard_engine::commands::output::ConfigView;

fn at<'a>(config: &'a ConfigView, key: &str) -> (&'a serde_json::Value, Source) {
    (&config.effective[key].value, config.effective[key].source)
}

#[tokio::test]
async fn each_value_comes_from_the_nearest_level() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    let get = async || yard.engine.get_task_config(&yard.me(), input(json!({ "task_id": name }))).await.unwrap().config;
    let none = get().await;
    assert_eq!(at(&none, "agent_profile_id"), (&json!(null), Source::BuiltIn));
    assert_eq!(at(&none, "executor_profile_id"), (&json!("worktree"), Source::BuiltIn));
    assert!(none.set.values().all(serde_json::Value::is_null) && none.set.contains_key("model"));

    let claude = yard.agent("claude", DriverKind::Claude).await;
    let other = yard.agent("other", DriverKind::Acp).await;
    assert_eq!(at(&get().await, "agent_profile_id"), (&json!(claude), Source::Workspace));
    assert_eq!(at(&get().await, "agent"), (&json!("claude"), Source::Workspace));

    let set = json!({ "list_id": list, "model": "sonnet", "target_branch": "refs/heads/release", "max_turns": 7 });
    let of_list = yard.engine.set_list_config(&yard.me(), input(set)).await.unwrap();
    assert_eq!(of_list.updated, Some(true));
    assert_eq!((&of_list.config.set["target_branch"], &of_list.config.set["agent_profile_id"]), (&json!("release"), &json!(null)));
    assert_eq!(at(&of_list.config, "max_turns"), (&json!(7), Source::List));

    let set = json!({ "task_id": name, "model": "opus", "system_prompt": "be brief" });
    let of_task = yard.engine.set_task_config(&yard.me(), input(set)).await.unwrap();
    assert_eq!(at(&of_task.config, "model"), (&json!("opus"), Source::Task));
    assert_eq!(at(&of_task.config, "target_branch"), (&json!("release"), Source::List));
    assert_eq!(of_task.config.set["model"], json!("opus"));

    let cleared = json!({ "task_id": name, "clear": ["model", "systemPrompt"] });
    let of_task = yard.engine.set_task_config(&yard.me(), input(cleared)).await.unwrap();
    assert_eq!(at(&of_task.config, "model"), (&json!("sonnet"), Source::List));
    assert_eq!(of_task.config.set["system_prompt"], json!(null));

    let set = json!({ "task_id": name, "agent_profile_id": "other" });
    let of_task = yard.engine.set_task_config(&yard.me(), input(set)).await.unwrap();
    assert_eq!(at(&of_task.config, "agent_profile_id"), (&json!(other), Source::Task));
    let shown = yard.engine.get_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
    assert_eq!(shown.config["agent_profile_id"].value, json!(other));
}

#[tokio::test]
async fn the_only_one_there_is_holds() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    let bare = yard.list("Bare").await;
    let get = async |list: &str| yard.engine.get_list_config(&yard.me(), input(json!({ "list_id": list }))).await.unwrap().config;
    assert_eq!(get(&bare).await.effective["repository_id"].source, Source::Only);
    assert_eq!(get(&list).await.effective["repository_id"].source, Source::List);
    assert_eq!(get(&list).await.effective["repository"].value, json!("repo"));
    let (_second, _other) = yard.list_with_repo("Second").await;
    assert_eq!(get(&bare).await.effective["repository_id"].value, json!(null));
}

#[tokio::test]
async fn bad_values_are_named_and_change_nothing() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.agent("claude", DriverKind::Claude).await;
    let refused = [
        (json!({ "model": "gpt-9", "max_turns": 3 }), "model"),
        (json!({ "max_turns": 0 }), "max_turns"),
        (json!({ "target_branch": "a..b" }), "target_branch"),
        (json!({ "agent_profile_id": "nobody" }), "agent_profile_id"),
        (json!({ "executor_profile_id": "ssh" }), "executor_profile_id"),
        (json!({ "repository_id": "00000000-0000-0000-0000-000000000000" }), "repository_id"),
        (json!({ "clear": ["name"] }), "clear"),
        (json!({ "model": "opus", "clear": ["model"] }), "clear"),
    ];
    for (mut values, field) in refused {
        values["list_id"] = json!(list);
        let error = yard.engine.set_list_config(&yard.me(), input(values)).await.unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    let nothing = yard.engine.set_list_config(&yard.me(), input(json!({ "list_id": list }))).await.unwrap_err();
    assert_eq!(nothing.class, Class::InvalidArgument);
    let config = yard.engine.get_list_config(&yard.me(), input(json!({ "list_id": list }))).await.unwrap();
    assert!(config.config.set.values().all(serde_json::Value::is_null), "{:?}", config.config.set);
}

#[tokio::test]
async fn a_model_of_another_agent_does_not_slip_through() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.agent("free", DriverKind::Acp).await;
    yard.agent("claude", DriverKind::Claude).await;
    yard.engine.set_list_config(&yard.me(), input(json!({ "list_id": list, "model": "gpt-9" }))).await.unwrap();
    let switch = json!({ "list_id": list, "agent_profile_id": "claude" });
    assert_eq!(yard.engine.set_list_config(&yard.me(), input(switch)).await.unwrap_err().field.as_deref(), Some("model"));
    let both = json!({ "list_id": list, "agent_profile_id": "claude", "model": "" });
    let set = yard.engine.set_list_config(&yard.me(), input(both)).await.unwrap();
    assert_eq!(set.config.set["model"], json!(null), "blank inherits");
}

#[tokio::test]
async fn a_long_system_prompt_is_shown_once_and_cut() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    for text in [format!("a{}", "é".repeat(30_000)), "\u{1}".repeat(60_000), "\"\n".repeat(30_000)] {
        let set = json!({ "list_id": list, "system_prompt": text });
        let of_list = yard.engine.set_list_config(&yard.me(), input(set)).await.unwrap();
        let of_task = yard.engine.get_task_config(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
        for (bytes, config) in [(size(&of_list), &of_list.config), (size(&of_task), &of_task.config)] {
            assert!(bytes <= 10_000, "{bytes} bytes");
            assert_eq!((config.system_prompt_bytes, config.system_prompt_truncated), (Some(text.len()), true));
            let shown = config.effective["system_prompt"].value.as_str().unwrap();
            assert!(text.starts_with(shown) && shown.len() > 500, "{}", shown.len());
        }
        assert!(of_list.config.set["system_prompt"].as_str().unwrap().len() <= 200);
    }
    let short = json!({ "task_id": name, "system_prompt": "be brief" });
    let of_task = yard.engine.set_task_config(&yard.me(), input(short)).await.unwrap().config;
    assert_eq!((of_task.system_prompt_bytes, of_task.system_prompt_truncated), (Some(8), false));
    assert_eq!(at(&of_task, "system_prompt"), (&json!("be brief"), Source::Task));
    assert_eq!(of_task.set["system_prompt"], json!("be brief"));
}

#[tokio::test]
async fn what_holds_without_being_set_is_told_with_its_source() {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    let name = yard.add(&list, "t").await;
    let profile = yard.agent("claude", DriverKind::Claude).await;
    let id = profile.parse().unwrap();
    yard.write(move |tx| {
        Box::pin(async move {
            let mut profile = tx.profile_fetch(id).await?.unwrap();
            profile.model = Some("sonnet".into());
            tx.profile_update(&profile).await
        })
    })
    .await;
    let of_list = async || yard.engine.get_list_config(&yard.me(), input(json!({ "list_id": list }))).await.unwrap().config;
    let of_task = async || yard.engine.get_task_config(&yard.me(), input(json!({ "task_id": name }))).await.unwrap().config;
    assert_eq!(at(&of_list().await, "target_branch"), (&json!("main"), Source::Repository));
    assert_eq!(at(&of_task().await, "target_branch"), (&json!("main"), Source::Repository));
    assert_eq!(at(&of_task().await, "model"), (&json!("sonnet"), Source::Profile));
    yard.worktree(&name, &repo).await;
    assert_eq!(at(&of_task().await, "target_branch"), (&json!("main"), Source::Worktree));
    yard.engine.set_list_config(&yard.me(), input(json!({ "list_id": list, "target_branch": "release", "model": "opus" }))).await.unwrap();
    assert_eq!(at(&of_task().await, "target_branch"), (&json!("release"), Source::List));
    assert_eq!(at(&of_task().await, "model"), (&json!("opus"), Source::List));
}

#[tokio::test]
async fn an_inherited_model_of_another_agent_is_refused_before_it_runs() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("claude", DriverKind::Claude).await;
    yard.agent("codex", DriverKind::Codex).await;
    yard.engine.set_list_config(&yard.me(), input(json!({ "list_id": list, "model": "opus" }))).await.unwrap();
    let name = yard.add(&list, "t").await;

    let add = json!({ "list_id": list, "title": "u", "agent_profile_id": "codex" });
    assert_eq!(yard.engine.add_task(&yard.me(), input(add)).await.unwrap_err().field.as_deref(), Some("model"));
    let set = json!({ "task_id": name, "agent_profile_id": "codex" });
    let refused = yard.engine.set_task_config(&yard.me(), input(set)).await.unwrap_err();
    assert_eq!((refused.class, refused.field.as_deref()), (Class::InvalidArgument, Some("model")));
    let both = json!({ "task_id": name, "agent_profile_id": "codex", "model": "gpt-5" });
    yard.engine.set_task_config(&yard.me(), input(both)).await.unwrap();
    let cleared = json!({ "task_id": name, "clear": ["model"] });
    assert_eq!(yard.engine.set_task_config(&yard.me(), input(cleared)).await.unwrap_err().field.as_deref(), Some("model"));

    // The list changes under the task: nothing starts, and the queue says why.
    yard.engine.update_task_status(&yard.me(), input(json!({ "task_id": name, "status": "queued" }))).await.unwrap();
    let mut task = yard.task(&name).await;
    task.config.model = None;
    yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    let queue = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(queue.waiting[0].reason, "wrong_model");
    let error = yard.engine.run_task_now(&yard.me(), input(json!({ "task_id": name }))).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::FailedPrecondition, Some("model")), "{error}");
}
