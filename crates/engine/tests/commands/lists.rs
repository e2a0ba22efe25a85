//! Lists and the repositories they bring along.

use crate::support::{Yard, input, size};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_testkit::repo::Repo;

#[tokio::test]
async fn a_folder_becomes_a_repository_once_and_its_branch_the_default() {
    let yard = Yard::new().await;
    let repo = Repo::new().await.unwrap();
    let inside = repo.path().join("sub");
    std::fs::create_dir(&inside).unwrap();
    let first = yard.engine.create_list(&yard.me(), input(json!({ "name": "One", "local_path": repo.path() }))).await.unwrap();
    assert!(first.created && first.repository_added);
    assert_eq!(first.default_branch.as_deref(), Some("main"));
    let second = yard.engine.create_list(&yard.me(), input(json!({ "name": "Two", "local_path": inside }))).await.unwrap();
    assert!(!second.repository_added, "a folder inside is the same repository");
    assert_eq!(second.repository_id, first.repository_id);
    let lists = yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(lists.lists.iter().map(|list| list.name.as_str()).collect::<Vec<_>>(), ["One", "Two"]);
    assert_eq!(lists.lists[0].repository_id, first.repository_id);
}

#[tokio::test]
async fn several_locators_are_refused_by_name() {
    let yard = Yard::new().await;
    let both = json!({ "name": "L", "local_path": "/x", "repository_url": "https://example.org/a" });
    let error = yard.engine.create_list(&yard.me(), input(both)).await.unwrap_err();
    assert_eq!(error.class, Class::InvalidArgument);
    assert_eq!(error.message, "pass at most one of repository_id, repository_url, local_path");
}

#[tokio::test]
async fn a_folder_that_is_no_usable_repository_leaves_nothing_behind() {
    let yard = Yard::new().await;
    let plain = yard.path().join("plain");
    let unborn = yard.path().join("unborn");
    for folder in [&plain, &unborn] {
        std::fs::create_dir(folder).unwrap();
    }
    let repo = Repo::new().await.unwrap();
    repo.git_in(&unborn, &["init", "-q"]).await.unwrap();
    std::fs::write(unborn.join("f"), "x").unwrap();
    let refused = [
        (json!({ "name": "L", "local_path": plain }), "not in a git repository"),
        (json!({ "name": "L", "local_path": unborn }), "has no commit yet"),
        (json!({ "name": "L", "local_path": yard.path().join("gone") }), "doesn't exist"),
        (json!({ "name": "L", "local_path": "relative" }), "isn't an absolute path"),
        (json!({ "name": "L", "repository_url": "https://example.org/a.git" }), "no repository of this workspace"),
        (json!({ "name": "  ", "local_path": repo.path() }), "can't be empty"),
    ];
    for (arguments, words) in refused {
        let error = yard.engine.create_list(&yard.me(), input(arguments)).await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert!(error.field.is_some() && error.class != Class::Internal, "{error:?}");
    }
    let unborn = yard.engine.create_list(&yard.me(), input(json!({ "name": "L", "local_path": unborn }))).await.unwrap_err();
    assert!(unborn.hint.unwrap().contains("git -C"));
    let bare = yard.path().join("bare.git");
    repo.git_in(yard.path(), &["init", "-q", "--bare", "bare.git"]).await.unwrap();
    let bare = yard.engine.create_list(&yard.me(), input(json!({ "name": "L", "local_path": bare }))).await.unwrap_err();
    assert_eq!(bare.hint.as_deref(), Some("push a first commit to it, then repeat the call"), "`git commit` can't work there");
    assert!(yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap().lists.is_empty());
    assert!(yard.engine.repository_list(&yard.me(), input(json!({}))).await.unwrap().repositories.is_empty());
}

#[tokio::test]
async fn a_detached_repository_has_no_default_branch() {
    let yard = Yard::new().await;
    let repo = Repo::new().await.unwrap();
    repo.git(&["checkout", "-q", "--detach"]).await.unwrap();
    let list = yard.engine.create_list(&yard.me(), input(json!({ "name": "L", "local_path": repo.path() }))).await.unwrap();
    assert_eq!(list.default_branch, None);
}

#[tokio::test]
async fn a_repeated_call_with_a_key_gives_the_first_result() {
    let yard = Yard::new().await;
    let repo = Repo::new().await.unwrap();
    let path = repo.path();
    let call = || input(json!({ "name": "L", "local_path": path, "idempotency_key": "k" }));
    let first = yard.engine.create_list(&yard.me(), call()).await.unwrap();
    drop(repo);
    let again = yard.engine.create_list(&yard.me(), call()).await.unwrap();
    assert!(again.replayed && !first.replayed);
    assert_eq!(again.list_id, first.list_id);
    let other = input(json!({ "name": "M", "idempotency_key": "k" }));
    assert_eq!(yard.engine.create_list(&yard.me(), other).await.unwrap_err().class, Class::Conflict);
    assert_eq!(yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap().total, 1);
}

#[tokio::test]
async fn lists_are_renamed_reordered_and_deleted_when_empty() {
    let yard = Yard::new().await;
    let (one, two) = (yard.list("One").await, yard.list("Two").await);
    let renamed = yard.engine.update_list(&yard.me(), input(json!({ "list_id": two, "name": "Zwei", "sort_order": -1.0 }))).await.unwrap();
    assert!(renamed.updated);
    let lists = yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!(lists.lists.iter().map(|list| list.name.as_str()).collect::<Vec<_>>(), ["Zwei", "One"]);
    let nothing = yard.engine.update_list(&yard.me(), input(json!({ "list_id": two }))).await.unwrap_err();
    assert_eq!(nothing.class, Class::InvalidArgument);

    let task = yard.add(&one, "t").await;
    let error = yard.engine.delete_list(&yard.me(), input(json!({ "list_id": one }))).await.unwrap_err();
    assert_eq!((error.class, error.message.contains("1 task is in it")), (Class::FailedPrecondition, true), "{error}");
    assert!(error.hint.unwrap().contains("delete_task"));
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": task }))).await.unwrap();
    assert!(yard.engine.delete_list(&yard.me(), input(json!({ "list_id": one }))).await.unwrap().deleted);
    let gone = yard.engine.delete_list(&yard.me(), input(json!({ "list_id": one }))).await.unwrap_err();
    assert_eq!(gone.class, Class::NotFound);
}

#[tokio::test]
async fn an_archived_task_keeps_its_list() {
    let yard = Yard::new().await;
    let list = yard.list("One").await;
    let name = yard.add(&list, "t").await;
    let mut task = yard.task(&name).await;
    task.archived_at = Some(task.created_at);
    yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    let error = yard.engine.delete_list(&yard.me(), input(json!({ "list_id": list }))).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert!(error.message.contains("archived"), "{error}");
}

#[tokio::test]
async fn counts_are_by_status() {
    let yard = Yard::new().await;
    let list = yard.list("One").await;
    for _ in 0..2 {
        yard.add(&list, "t").await;
    }
    let done = yard.add(&list, "t").await;
    yard.engine.update_task_status(&yard.me(), input(json!({ "task_id": done, "status": "done" }))).await.unwrap();
    let row = yard.engine.list_task_lists(&yard.me(), input(json!({ "workspace_id": "main" }))).await.unwrap().lists.remove(0);
    assert_eq!((row.total, row.counts["ready"], row.counts["done"], row.counts.len()), (3, 2, 1, 2));
}

#[tokio::test]
async fn a_repository_is_found_by_the_url_of_its_clone() {
    let yard = Yard::new().await;
    let repo = Repo::new().await.unwrap();
    repo.git(&["remote", "add", "origin", "https://me:hunter2@Example.org/a/b.git"]).await.unwrap();
    let path = repo.path();
    let first = yard.engine.create_list(&yard.me(), input(json!({ "name": "A", "local_path": path }))).await.unwrap();
    let stored = yard.engine.repository_list(&yard.me(), input(json!({}))).await.unwrap().repositories.remove(0);
    assert_eq!(stored.remote_url.as_deref(), Some("https://Example.org/a/b.git"));
    let file = format!("file://{}/", path.canonicalize().unwrap().display());
    for url in ["https://example.org/a/b", "git@example.org:a/b.git", "ssh://git@example.org/a/b/", &file] {
        let made = yard.engine.create_list(&yard.me(), input(json!({ "name": url, "repository_url": url }))).await.unwrap();
        assert_eq!((made.repository_id, made.repository_added), (first.repository_id.clone(), false), "{url}");
    }
    let unknown = json!({ "name": "X", "repository_url": "https://me:hunter2@example.org/a/c" });
    let error = yard.engine.create_list(&yard.me(), input(unknown)).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::FailedPrecondition, Some("repository_url")));
    assert!(error.hint.as_deref().unwrap().contains("local_path") && !error.message.contains("hunter2"), "{error}");

    // A clone whose remote moved is known by its new URL once it is named again.
    repo.git(&["remote", "set-url", "origin", "git@elsewhere.org:a/b"]).await.unwrap();
    yard.engine.create_list(&yard.me(), input(json!({ "name": "B", "local_path": path }))).await.unwrap();
    let moved = json!({ "name": "C", "repository_url": "https://elsewhere.org/a/b" });
    assert_eq!(yard.engine.create_list(&yard.me(), input(moved)).await.unwrap().repository_id, first.repository_id);
}

#[tokio::test]
async fn hundreds_of_lists_fit_into_a_small_answer() {
    let yard = Yard::new().await;
    for n in 0..300 {
        yard.list(&format!("{n} {}", "name ".repeat(60))).await;
    }
    let lists = yard.engine.list_task_lists(&yard.me(), input(json!({}))).await.unwrap();
    assert!(size(&lists) <= 10_000, "{} bytes", size(&lists));
    assert!(!lists.lists.is_empty() && !lists.further.is_empty());
    assert_eq!(lists.lists.len() + lists.further.len() + lists.not_shown, 300);
}
