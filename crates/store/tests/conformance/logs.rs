//! What is written beside the entities: audit, outbox, idempotency keys, transcripts, settings, messages, MCP
//! connections.

use crate::support::make::World;
use crate::{on_both, read_tx, write_tx};
use futures::future::join_all;
use serde_json::json;
use std::time::Duration;
use taskyard_domain::audit::{Action, NewEntry};
use taskyard_domain::id::TaskId;
use taskyard_domain::name::ShortId;
use taskyard_domain::settings::Settings;
use taskyard_domain::transcript::{Item, PlanEntry};
use taskyard_domain::{Actor, Class, Face, message};
use taskyard_store::Stored;

on_both! {
    async fn audit_entries(h) {
        let w = World::stored(h, "home", "TY").await;
        let actor = Actor::Run { workspace_id: w.workspace.id, run_id: w.run.id, session_id: None, task_id: w.task.id };
        let entries: Vec<NewEntry> = (0..10)
            .map(|n| NewEntry {
                workspace_id: w.workspace.id,
                actor: if n % 2 == 0 { actor.clone() } else { Actor::Operator },
                actor_label: (n % 2 == 0).then(|| "me".into()),
                face: [Face::Mcp, Face::Cli, Face::Engine][n % 3],
                action: if n < 5 { Action::TaskUpdated } else { Action::TaskClaimed },
                target_type: "task".into(),
                target_id: format!("t{}", n % 3),
                task_id: (n % 3 == 2).then_some(w.task.id),
                metadata: json!({ "n": n }),
            })
            .collect();
        let copies = entries.clone();
        write_tx!(h.store, |tx| {
            for entry in copies {
                tx.audit(entry).await?;
            }
            Ok(())
        })
        .unwrap();
        let id = w.workspace.id;
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = read_tx!(h.store, |read| read.audit_page(id, None, None, before, 3).await).unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            found.extend(page.into_iter().map(|entry| entry.body));
        }
        found.reverse();
        assert_eq!(found, entries);
        let some = read_tx!(h.store, |read| read.audit_page(id, Some("t1"), Some(Action::TaskClaimed), None, 10).await).unwrap();
        assert_eq!(some.iter().map(|entry| entry.body.metadata["n"].as_i64().unwrap()).collect::<Vec<_>>(), [7]);
        let task = w.task.id.to_string();
        let of_task = read_tx!(h.store, |read| read.audit_page(id, Some(&task), None, None, 10).await).unwrap();
        assert_eq!(of_task.iter().map(|entry| entry.body.metadata["n"].as_i64().unwrap()).collect::<Vec<_>>(), [8, 5, 2]);
    }

    async fn deleted_tasks_are_known_by_their_short_ids(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        for n in [3, 4] {
            let entry = NewEntry {
                workspace_id: id,
                actor: Actor::Operator,
                actor_label: None,
                face: Face::Cli,
                action: Action::TaskDeleted,
                target_type: "task".into(),
                target_id: TaskId(uuid::Uuid::from_u128(n)).to_string(),
                task_id: None,
                metadata: json!({ "short_id": format!("TY-{n}") }),
            };
            write_tx!(h.store, |tx| tx.audit(entry).await).unwrap();
        }
        let named = async |text: &str| {
            let short = ShortId::parse(text).unwrap();
            read_tx!(h.store, |read| read.audit_deleted_task(id, &short).await).unwrap()
        };
        assert_eq!(named("TY-3").await, Some(TaskId(uuid::Uuid::from_u128(3))));
        assert_eq!(named("TY-33").await, None);
    }

    async fn the_outbox(h) {
        for n in 0..3 {
            write_tx!(h.store, |tx| tx.outbox_push("merge", json!({ "n": n })).await).unwrap();
        }
        let now = h.sources.now();
        let due = read_tx!(h.store, |read| read.outbox_due(now, 2).await).unwrap();
        assert_eq!(due.iter().map(|row| row.payload["n"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1]);
        assert!(due.iter().all(|row| row.kind == "merge" && row.attempts == 0));
        let (first, second, later) = (due[0].id, due[1].id, now + Duration::from_secs(60));
        write_tx!(h.store, |tx| {
            tx.outbox_done(first).await?;
            tx.outbox_done(first).await?;
            tx.outbox_retry(second, later, "it broke").await
        })
        .unwrap();
        let due = read_tx!(h.store, |read| read.outbox_due(now, 10).await).unwrap();
        assert_eq!(due.iter().map(|row| row.payload["n"].as_i64().unwrap()).collect::<Vec<_>>(), [2]);
        let third = due[0].id;
        assert!(read_tx!(h.store, |read| read.outbox_next_at().await).unwrap().unwrap() <= now);
        write_tx!(h.store, |tx| tx.outbox_done(third).await).unwrap();
        assert_eq!(read_tx!(h.store, |read| read.outbox_next_at().await).unwrap(), Some(later));
        let due = read_tx!(h.store, |read| read.outbox_due(later, 10).await).unwrap();
        assert_eq!((due.len(), due[0].id, due[0].attempts), (1, second, 1));
        write_tx!(h.store, |tx| tx.outbox_done(second).await).unwrap();
        assert_eq!(read_tx!(h.store, |read| read.outbox_next_at().await).unwrap(), None);
    }

    /// A key gives the first result back, to its caller and workspace only, for a day.
    async fn idempotency_keys(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let insert = |result: i64| {
            let store = h.store.clone();
            async move { write_tx!(store, |tx| tx.idempotency_insert(id, "operator", "k", "add_task", "hash", json!(result)).await) }
        };
        let fetch = |caller: &'static str, key: &'static str, since: jiff::Timestamp| {
            let store = h.store.clone();
            async move { read_tx!(store, |read| read.idempotency_fetch(id, caller, key, since).await).unwrap() }
        };
        let before = h.sources.now();
        insert(1).await.unwrap();
        let stored = Stored { tool: "add_task".into(), args_hash: "hash".into(), result: json!(1) };
        assert_eq!(fetch("operator", "k", before).await, Some(stored));
        assert_eq!(fetch("run:1", "k", before).await, None);
        assert_eq!(fetch("operator", "other", before).await, None);
        let error = insert(2).await.unwrap_err();
        assert_eq!(error.class, Class::Conflict);
        assert!(error.message.contains("idempotency key"), "{error}");
        h.sources.clock.advance(Duration::from_secs(24 * 3600 + 1));
        assert_eq!(fetch("operator", "k", h.sources.now() - Duration::from_secs(24 * 3600)).await, None);
        insert(3).await.unwrap();
        assert_eq!(fetch("operator", "k", before).await.unwrap().result, json!(3));
        let now = h.sources.now();
        assert_eq!(write_tx!(h.store, |tx| tx.idempotency_prune(now).await).unwrap(), 1);
        assert_eq!(fetch("operator", "k", before).await, None);
    }

    /// Calls with the same key at the same moment: one is stored, with its whole transaction.
    async fn racing_idempotency_keys(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let calls = (0..16).map(|n| {
            let (store, list) = (h.store.clone(), h.sources.list(id));
            tokio::spawn(async move {
                write_tx!(store, |tx| {
                    tx.list_insert(&list).await?;
                    tx.idempotency_insert(id, "operator", "k", "create_list", "h", json!(n)).await
                })
            })
        });
        let outcomes: Vec<_> = join_all(calls).await.into_iter().map(|call| call.unwrap()).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|error| error.class == Class::Conflict));
        assert_eq!(read_tx!(h.store, |read| read.list_list(id).await).unwrap().len(), 2);
    }

    async fn transcripts(h) {
        let w = World::stored(h, "home", "TY").await;
        let (session, run) = (w.session.id, w.run.id);
        let items = vec![
            Item::Prompt { text: "Do it\0.".into() },
            Item::Text { message_id: "m".into(), text: "ä".into() },
            Item::Thought { message_id: "m".into(), text: String::new() },
            Item::ToolCall { call_id: "c".into(), title: "Read".into(), kind: "read".into(), input: json!({"path": "/x"}) },
            Item::ToolUpdate { call_id: "c".into(), status: "completed".into(), output: Some("ok".into()) },
            Item::Plan { entries: vec![PlanEntry { text: "a".into(), status: "pending".into() }] },
            Item::Notice { level: "info".into(), text: "n".into() },
            Item::Unknown { raw: json!([1, {"a": null}]) },
        ];
        let copies = items.clone();
        let head = write_tx!(h.store, |tx| {
            assert_eq!(tx.transcript_append(session, run, &copies[..3]).await?, 3);
            assert_eq!(tx.transcript_append(session, run, &[]).await?, 3);
            tx.transcript_append(session, run, &copies[3..]).await
        });
        assert_eq!(head.unwrap(), 8);
        let page = read_tx!(h.store, |read| read.transcript_page(session, 0, 100).await).unwrap();
        assert_eq!(page.iter().map(|(seq, of, _, _)| (*seq, *of)).collect::<Vec<_>>(), (1..=8).map(|seq| (seq, run)).collect::<Vec<_>>());
        assert_eq!(page.into_iter().map(|(_, _, _, item)| item).collect::<Vec<_>>(), items);
        let rest = read_tx!(h.store, |read| read.transcript_page(session, 5, 2).await).unwrap();
        assert_eq!(rest.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [6, 7]);
    }

    /// Batches that are appended at once get numbers without holes, each batch together.
    async fn racing_transcript_batches(h) {
        let w = World::stored(h, "home", "TY").await;
        let (session, run) = (w.session.id, w.run.id);
        let batches = (0..10).map(|n| {
            let store = h.store.clone();
            tokio::spawn(async move {
                let items: Vec<Item> = (0..45).map(|m| Item::Text { message_id: n.to_string(), text: m.to_string() }).collect();
                write_tx!(store, |tx| tx.transcript_append(session, run, &items).await).unwrap()
            })
        });
        let heads: Vec<i64> = join_all(batches).await.into_iter().map(|batch| batch.unwrap()).collect();
        assert_eq!(heads.iter().copied().max(), Some(450));
        let page = read_tx!(h.store, |read| read.transcript_page(session, 0, 1000).await).unwrap();
        assert_eq!(page.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), (1..=450).collect::<Vec<_>>());
        for batch in page.chunks(45) {
            for (m, (.., item)) in batch.iter().enumerate() {
                let Item::Text { message_id, text } = item else { panic!("{item:?}") };
                let Item::Text { message_id: first, .. } = &batch[0].3 else { panic!() };
                assert_eq!((message_id, text), (first, &m.to_string()));
            }
        }
    }

    async fn settings(h) {
        assert_eq!(read_tx!(h.store, |read| read.settings_fetch().await).unwrap(), Settings::default());
        for slots in [5, 6] {
            let settings = Settings { configured_slots: slots, tool_suffix: "_x".into(), ..Settings::default() };
            let copy = settings.clone();
            write_tx!(h.store, |tx| tx.settings_store(&copy).await).unwrap();
            assert_eq!(read_tx!(h.store, |read| read.settings_fetch().await).unwrap(), settings);
        }
    }

    async fn mcp_connections(h) {
        let load = |id: &'static str| {
            let store = h.store.clone();
            async move { read_tx!(store, |read| read.mcp_session_load(id).await).unwrap() }
        };
        for state in [json!({"v": 1}), json!({"v": 2})] {
            let copy = state.clone();
            write_tx!(h.store, |tx| tx.mcp_session_store("a", copy).await).unwrap();
            assert_eq!(load("a").await, Some(state));
        }
        let then = h.sources.now();
        write_tx!(h.store, |tx| {
            tx.mcp_session_store("b", json!(null)).await?;
            tx.mcp_session_store("c", json!([])).await
        })
        .unwrap();
        assert_eq!(write_tx!(h.store, |tx| tx.mcp_session_prune(then).await).unwrap(), 1);
        assert_eq!((load("a").await, load("c").await), (None, Some(json!([]))));
        write_tx!(h.store, |tx| {
            tx.mcp_session_delete("c").await?;
            tx.mcp_session_delete("c").await
        })
        .unwrap();
        assert_eq!((load("b").await, load("c").await), (Some(json!(null)), None));
    }

    async fn queued_messages(h) {
        let w = World::stored(h, "home", "TY").await;
        let mut messages: Vec<_> = (0..3).map(|_| h.sources.message(&w.session)).collect();
        let copies = messages.clone();
        write_tx!(h.store, |tx| {
            for message in copies.iter().rev() {
                tx.message_insert(message).await?;
            }
            Ok(())
        })
        .unwrap();
        let session = w.session.id;
        let queue = || {
            let store = h.store.clone();
            async move { read_tx!(store, |read| Ok((read.message_queue(session).await?, read.message_next(session).await?))).unwrap() }
        };
        assert_eq!(queue().await, (messages.clone(), Some(messages[0].clone())));
        let mut first = messages.remove(0);
        first.state = message::State::Delivered;
        write_tx!(h.store, |tx| tx.message_update(&first).await).unwrap();
        assert_eq!(queue().await, (messages.clone(), Some(messages[0].clone())));
    }
}
