//! All or nothing: what a transaction stores, what it doesn't, and who notices.

use crate::support::make::World;
use crate::support::soon;
use crate::{on_both, read_tx, write_tx};
use futures::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use taskyard_domain::audit::{Action, NewEntry};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::name::ShortId;
use taskyard_domain::{Actor, Class, Error, Face};

fn entry(workspace: WorkspaceId) -> NewEntry {
    NewEntry {
        workspace_id: workspace,
        actor: Actor::Operator,
        actor_label: None,
        face: Face::Cli,
        action: Action::TaskUpdated,
        target_type: "task".into(),
        target_id: "x".into(),
        task_id: None,
        metadata: json!({}),
    }
}

on_both! {
    /// State, event, audit entry, outbox effect and idempotency key are stored together or not at all.
    async fn everything_rolls_back_together(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        for fails in [true, false] {
            let mut task = w.task.clone();
            task.title = "changed".into();
            let outcome = write_tx!(h.store, |tx| {
                tx.task_update(&task).await?;
                tx.event(NewEvent::new(id, Kind::TaskUpdated).task(task.id));
                tx.audit(entry(id)).await?;
                tx.outbox_push("merge", json!({"n": 1})).await?;
                tx.idempotency_insert(id, "operator", "k", "add_task", "h", json!({"id": 1})).await?;
                tx.mcp_session_store("m", json!({})).await?;
                if fails { Err(Error::conflict("on purpose")) } else { Ok(()) }
            });
            assert_eq!(outcome.is_err(), fails);
            let (task_id, now) = (w.task.id, h.sources.now());
            let found = read_tx!(h.store, |read| {
                let facts = (
                    read.task_fetch(task_id).await?.unwrap().title == "changed",
                    read.event_head(id).await?,
                    read.events_after(id, 0, 10).await?.len(),
                    read.audit_page(id, None, None, None, 10).await?.len(),
                    read.outbox_due(now, 10).await?.len(),
                    read.idempotency_fetch(id, "operator", "k", jiff::Timestamp::UNIX_EPOCH).await?.is_some(),
                    read.mcp_session_load("m").await?.is_some(),
                );
                Ok(facts)
            });
            let expected = if fails { (false, 0, 0, 0, 0, false, false) } else { (true, 1, 1, 1, 1, true, true) };
            assert_eq!(found.unwrap(), expected, "fails: {fails}");
        }
    }

    /// Commands that fail among many that don't take none of them along, and only what succeeded is there.
    async fn a_failed_command_fails_alone(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let writes = (0..60).map(|n| {
            let (store, list, sources) = (h.store.clone(), w.list.clone(), h.sources.clone());
            async move {
                let outcome = write_tx!(store, |tx| {
                    let number = tx.workspace_next_number(id).await?;
                    let task = sources.task(&list, ShortId::new("TY", number));
                    tx.task_insert(&task).await?;
                    tx.event(NewEvent::new(id, Kind::TaskCreated).task(task.id));
                    match n % 3 {
                        0 => Err(Error::precondition("on purpose")),
                        // A broken rule of the database, in the middle of others' work.
                        1 => tx.task_insert(&task).await.map(|()| number),
                        _ => Ok(number),
                    }
                });
                (n, outcome)
            }
        });
        let mut stored = 0;
        for (n, outcome) in join_all(writes).await {
            match n % 3 {
                0 => assert_eq!(outcome.unwrap_err().class, Class::FailedPrecondition),
                1 => assert_eq!(outcome.unwrap_err().class, Class::Conflict),
                _ => {
                    outcome.unwrap();
                    stored += 1;
                }
            }
        }
        let list = w.list.id;
        let counts = read_tx!(h.store, |read| Ok((read.task_counts_by_status(list).await?, read.event_head(id).await?)));
        let (counts, head) = counts.unwrap();
        assert_eq!(counts.iter().map(|(_, n)| n).sum::<i64>(), stored + 1);
        assert_eq!(head, stored);
    }

    /// A closure that swallows a failed statement stores nothing, on either database.
    async fn a_swallowed_failure_is_not_committed(h) {
        let w = World::stored(h, "home", "TY").await;
        let (id, again) = (w.workspace.id, w.task.clone());
        let outcome = write_tx!(h.store, |tx| {
            tx.audit(entry(id)).await?;
            let _ = tx.task_insert(&again).await;
            Ok(())
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.class, Class::Internal);
        assert!(error.message.contains("earlier statement"), "{error}");
        assert!(read_tx!(h.store, |read| read.audit_page(id, None, None, None, 10).await).unwrap().is_empty());
        // The next one isn't held liable.
        write_tx!(h.store, |tx| tx.audit(entry(id)).await).unwrap();
    }

    /// A closure that panics is one failed command; the store lives on.
    async fn a_panic_is_one_failed_command(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let outcome = write_tx!(h.store, |tx| {
            tx.audit(entry(id)).await?;
            if tx.event_head(id).await? == 0 {
                panic!("on purpose");
            }
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().class, Class::Internal);
        write_tx!(h.store, |tx| tx.audit(entry(id)).await).unwrap();
        assert_eq!(read_tx!(h.store, |read| read.audit_page(id, None, None, None, 10).await).unwrap().len(), 1);
    }

    /// A write whose caller goes away is finished all the same.
    async fn a_dropped_caller_changes_nothing(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let mut wake = h.store.subscribe_all();
        let (begun, started) = tokio::sync::oneshot::channel();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let mut write = Box::pin(h.store.write(move |tx| {
            Box::pin(async move {
                let _ = begun.send(());
                let _ = gone.await;
                tx.event(NewEvent::new(id, Kind::TaskUpdated));
                Ok(())
            })
        }));
        tokio::select! {
            _ = &mut write => panic!("it can't be over"),
            started = started => started.unwrap(),
        }
        drop(write);
        go.send(()).unwrap();
        soon(wake.changed()).await;
        assert_eq!(read_tx!(h.store, |read| read.event_head(id).await).unwrap(), 1);
    }

    /// A read sees one snapshot: what is committed in its middle stays unseen.
    async fn a_read_is_one_snapshot(h) {
        let w = World::stored(h, "home", "TY").await;
        let (id, store) = (w.workspace.id, h.store.clone());
        let (before, after) = read_tx!(h.store, |read| {
            let before = read.event_head(id).await?;
            write_tx!(store, |tx| {
                tx.event(NewEvent::new(id, Kind::TaskUpdated));
                Ok(())
            })?;
            Ok((before, read.event_head(id).await?))
        })
        .unwrap();
        assert_eq!((before, after), (0, 0));
        assert_eq!(read_tx!(h.store, |read| read.event_head(id).await).unwrap(), 1);
    }

    /// Nobody sees a transaction before it is committed.
    async fn nothing_is_seen_before_the_commit(h) {
        let w = World::stored(h, "home", "TY").await;
        let (task_id, store, seen) = (w.task.id, h.store.clone(), Arc::new(AtomicBool::new(false)));
        let (mut task, saw) = (w.task.clone(), Arc::clone(&seen));
        task.title = "changed".into();
        write_tx!(h.store, |tx| {
            tx.task_update(&task).await?;
            let title = read_tx!(store, |read| read.task_fetch(task_id).await)?.unwrap().title;
            saw.store(title == "changed", Ordering::SeqCst);
            assert_eq!(tx.task_fetch(task_id).await?.unwrap().title, "changed");
            Ok(())
        })
        .unwrap();
        assert!(!seen.load(Ordering::SeqCst));
    }

    /// After `close` everything is `UNAVAILABLE`, and what waits is told.
    async fn closing(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let mut subscription = h.store.subscribe(id, 0);
        let waiting = tokio::spawn(async move { subscription.next().await });
        h.store.close().await;
        assert_eq!(soon(waiting).await.unwrap().unwrap_err().class, Class::Unavailable);
        assert_eq!(read_tx!(h.store, |read| read.event_head(id).await).unwrap_err().class, Class::Unavailable);
        let outcome = write_tx!(h.store, |tx| tx.audit(entry(id)).await);
        assert_eq!(outcome.unwrap_err().class, Class::Unavailable);
        // What was committed is there for the next start.
        let again = h.open_again().await;
        assert_eq!(read_tx!(again, |read| read.workspace_list().await).unwrap(), vec![w.workspace]);
        again.close().await;
    }
}
