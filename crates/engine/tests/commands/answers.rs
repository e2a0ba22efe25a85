//! Answers stay small and page without gaps; logs come from their end.

use crate::support::{Yard, input, size};
use serde_json::json;
use std::collections::BTreeSet;
use taskyard_domain::Class;
use taskyard_domain::id::RunId;
use taskyard_domain::run::State;
use taskyard_domain::task::{Status, Task};

/// The most that a default answer may take.
const SMALL: usize = 10 * 1024;

/// A yard with `n` tasks whose descriptions have 20 KB; every other one waits for review.
async fn full(n: usize) -> (Yard, String) {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, &"A title as long as titles of tasks tend to be, with some \"quotes\" in it ".repeat(3)).await;
    let mut first = yard.task(&name).await;
    first.description = "zwanzig Kilobyte é\n".repeat(1000);
    let number = std::sync::Arc::new(first);
    for chunk in 0..n.div_ceil(250) {
        let base = number.clone();
        let ids: Vec<_> = (0..250.min(n - chunk * 250)).map(|_| yard.engine.store().ids().next()).collect();
        yard.write(move |tx| {
            Box::pin(async move {
                for id in ids {
                    let number = tx.workspace_next_number(base.workspace_id).await?;
                    let task = Task {
                        id: taskyard_domain::id::TaskId(id),
                        short_id: taskyard_domain::name::ShortId::new("TY", number),
                        status: if number % 2 == 0 { Status::WaitingForReview } else { Status::Ready },
                        failure: Some("why it failed, in many words ".repeat(20)),
                        ..(*base).clone()
                    };
                    tx.task_insert(&task).await?;
                }
                Ok(())
            })
        })
        .await;
    }
    (yard, list)
}

#[tokio::test]
async fn default_answers_stay_small_with_two_thousand_tasks() {
    let (yard, list) = full(2000).await;
    let (engine, me) = (&yard.engine, &yard.me());
    let tasks = engine.list_tasks(me, input(json!({ "list_id": list }))).await.unwrap();
    assert!(size(&tasks) <= SMALL && tasks.has_more && tasks.next_cursor.is_some(), "{} bytes", size(&tasks));
    assert!(tasks.tasks.len() > 5);
    let task = engine.get_task(me, input(json!({ "task_id": "TY-2" }))).await.unwrap();
    assert!(size(&task) <= SMALL, "{} bytes", size(&task));
    assert_eq!((task.description_truncated, task.description_bytes), (true, 20_000));
    let lists = engine.list_task_lists(me, input(json!({}))).await.unwrap();
    assert!(size(&lists) <= SMALL);
    assert_eq!(lists.lists[0].total, 2001);
    let audit = engine.get_audit_log(me, input(json!({ "workspace": "main" }))).await.unwrap();
    assert!(size(&audit) <= SMALL);
    for name in 3..23 {
        let mut run = yard.open_run(&format!("TY-{name}")).await;
        run.cause = Some("a long story ".repeat(100));
        run.notes = Some("notes ".repeat(1000));
        yard.write(move |tx| Box::pin(async move { tx.run_update(&run).await })).await;
    }
    let runs = engine.list_runs(me, input(json!({}))).await.unwrap();
    assert!(size(&runs) <= SMALL && runs.has_more, "{} bytes", size(&runs));
}

#[tokio::test]
async fn the_queue_of_two_thousand_is_named_in_part_and_counted_whole() {
    let (yard, _) = full(2000).await;
    let workspace = yard.workspace;
    yard.write(move |tx| {
        Box::pin(async move {
            let filter = taskyard_store::TaskFilter::all(workspace);
            for mut task in tx.task_page(&filter, None, 3000).await? {
                task.status = Status::Queued;
                tx.task_update(&task).await?;
            }
            Ok(())
        })
    })
    .await;
    let state = yard.engine.get_queue_state(&yard.me(), input(json!({}))).await.unwrap();
    assert!(size(&state) <= SMALL, "{} bytes", size(&state));
    assert_eq!((state.waiting_count, state.waiting_task_ids.len()), (2001, 50));
    assert_eq!(state.waiting[0].reason, "no_repository");
    assert_eq!((state.configured_slots, state.effective_slots), (3, 3));
}

#[tokio::test]
async fn pages_have_no_gaps_and_no_doubles_while_tasks_come_and_go() {
    let (yard, list) = full(400).await;
    let mut seen = BTreeSet::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = input(json!({ "list_id": list, "limit": 50, "cursor": cursor }));
        let page = yard.engine.list_tasks(&yard.me(), page).await.unwrap();
        for task in &page.tasks {
            assert!(seen.insert(task.short_id.clone()), "{} twice", task.short_id);
        }
        if seen.len() < 100 {
            yard.engine.delete_task(&yard.me(), input(json!({ "task_id": page.tasks[0].id }))).await.unwrap();
            yard.add(&list, "late").await;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            assert!(!page.has_more);
            break;
        }
    }
    assert!((1..=401).all(|n| seen.contains(&format!("TY-{n}"))));
}

#[tokio::test]
async fn a_large_limit_is_honoured() {
    let (yard, list) = full(300).await;
    let page = yard.engine.list_tasks(&yard.me(), input(json!({ "list_id": list, "limit": 200 }))).await.unwrap();
    assert_eq!((page.tasks.len(), page.has_more), (200, true));
    for limit in [0, 201] {
        let error = yard.engine.list_tasks(&yard.me(), input(json!({ "limit": limit }))).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("limit")));
    }
}

#[tokio::test]
async fn tasks_are_filtered() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let other = yard.list("Other").await;
    let (a, b) = (yard.add(&list, "Fix the Login").await, yard.add(&list, "Write docs").await);
    yard.add(&other, "login elsewhere").await;
    yard.force(&b, Status::WaitingForReview).await;
    let find = async |filter: serde_json::Value| {
        let found = yard.engine.list_tasks(&yard.me(), input(filter)).await.unwrap();
        found.tasks.into_iter().map(|task| task.short_id).collect::<Vec<_>>()
    };
    assert_eq!(find(json!({ "list_id": list, "query": "LOGIN" })).await, [a.as_str()]);
    assert_eq!(find(json!({ "workflow_id": list, "status": "Review" })).await, [b.as_str()]);
    assert_eq!(find(json!({ "status": "ready, waiting-for-review" })).await.len(), 3);
    let both = yard.engine.list_tasks(&yard.me(), input(json!({ "list_id": list, "workflow_id": list }))).await.unwrap_err();
    assert_eq!(both.class, Class::InvalidArgument);
    let status = yard.engine.list_tasks(&yard.me(), input(json!({ "status": "nope" }))).await.unwrap_err();
    assert_eq!(status.field.as_deref(), Some("status"));
    let mut task = yard.task(&a).await;
    task.archived_at = Some(task.created_at);
    yard.write(move |tx| Box::pin(async move { tx.task_update(&task).await })).await;
    assert!(find(json!({ "list_id": list, "query": "login" })).await.is_empty());
    assert_eq!(find(json!({ "list_id": list, "query": "login", "include_archived": true })).await, [a]);
}

#[tokio::test]
async fn a_description_is_cut_at_a_character_and_comes_whole_when_asked_for() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let text = format!("{}{}", "x".repeat(4095), "é".repeat(3000));
    let add = json!({ "list_id": list, "title": "t", "description": text });
    yard.engine.add_task(&yard.me(), input(add)).await.unwrap();
    let cut = yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-1" }))).await.unwrap();
    assert_eq!((cut.description.len(), cut.description_truncated, cut.description_bytes), (4095, true, text.len()));
    let full = yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-1", "full": true }))).await.unwrap();
    assert_eq!((full.description, full.description_truncated), (text, false));
}

#[tokio::test]
async fn a_task_with_much_around_it_still_fits() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let title = "\"quoted\" ".repeat(50);
    let add = json!({ "list_id": list, "title": title, "description": "\"\n".repeat(10_000) });
    let hub = yard.engine.add_task(&yard.me(), input(add)).await.unwrap().short_id;
    for _ in 0..30 {
        let child = input(json!({ "parent_id": hub, "title": title }));
        yard.engine.add_subtask(&yard.me(), child).await.unwrap();
        let name = yard.add(&list, &title).await;
        let depends = input(json!({ "task_id": name, "depends_on_task_id": hub }));
        yard.engine.add_task_dependency(&yard.me(), depends).await.unwrap();
    }
    let task = yard.engine.get_task(&yard.me(), input(json!({ "task_id": hub }))).await.unwrap();
    assert!(size(&task) <= SMALL, "{} bytes", size(&task));
    assert_eq!((task.children.count, task.blocks.count, task.description_truncated), (30, 30, true));
    assert!(task.description.len() > 1000 && !task.children.tasks.is_empty());
}

#[tokio::test]
async fn runs_page_newest_first() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.add(&list, "t").await;
    for _ in 0..5 {
        yard.clock.advance(1);
        let mut run = yard.open_run("TY-1").await;
        run.state = State::Ended;
        run.ended_at = Some(run.started_at);
        yard.write(move |tx| Box::pin(async move { tx.run_update(&run).await })).await;
    }
    let page = async |cursor: Option<String>| {
        yard.engine.list_runs(&yard.me(), input(json!({ "task_id": "TY-1", "limit": 2, "cursor": cursor }))).await.unwrap()
    };
    let mut times = Vec::new();
    let mut cursor = None;
    loop {
        let found = page(cursor).await;
        times.extend(found.runs.iter().map(|run| run.started_at));
        cursor = found.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(times.len(), 5);
    assert!(times.windows(2).all(|pair| pair[0] > pair[1]));
    let got = yard.engine.get_run(&yard.me(), input(json!({ "run_id": RunId(uuid::Uuid::from_u128(5)) }))).await.unwrap();
    assert!(!got.found && got.run.is_none());
}

#[tokio::test]
async fn a_log_comes_from_its_end_in_whole_lines() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    let get = async |more: serde_json::Value| {
        let mut call = json!({ "task_id": name });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        yard.engine.get_task_log(&yard.me(), input(call)).await
    };
    let none = get(json!({})).await.unwrap();
    assert!(!none.available && none.run_id.is_none() && none.log.is_none());
    let run = yard.open_run(&name).await;
    let quiet = get(json!({})).await.unwrap();
    assert_eq!((quiet.available, quiet.run_id), (false, Some(run.id.to_string())));

    let path = yard.engine.paths().run_log(run.id);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lines: String = (0..2000).map(|n| format!("line {n} says \"é\"\n")).collect();
    std::fs::write(&path, &lines).unwrap();
    let tail = get(json!({})).await.unwrap();
    let log = tail.log.as_deref().unwrap();
    assert!(tail.available && tail.truncated && log.starts_with("line ") && lines.ends_with(log));
    assert_eq!(tail.total_bytes, lines.len() as u64);
    assert!(size(&tail) <= SMALL, "{} bytes", size(&tail));
    let more = get(json!({ "tail_bytes": 262_144, "run_id": run.id })).await.unwrap();
    assert_eq!((more.log.as_deref(), more.truncated), (Some(lines.as_str()), false));
    for bad in [0, 262_145] {
        assert_eq!(get(json!({ "tail_bytes": bad })).await.unwrap_err().field.as_deref(), Some("tail_bytes"));
    }
    let other = yard.add(&list, "other").await;
    let foreign = yard.open_run(&other).await;
    let error = get(json!({ "run_id": foreign.id })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("run_id")));
}
