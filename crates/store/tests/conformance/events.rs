//! The event log: numbers without holes in commit order, and subscriptions that neither lose nor repeat.

use crate::support::make::World;
use crate::support::soon;
use crate::{on_both, read_tx, write_tx};
use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::json;
use taskyard_domain::event::{Event, Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_store::{Store, Subscription};

fn event(workspace: WorkspaceId, n: i64) -> NewEvent {
    NewEvent::new(workspace, Kind::TaskUpdated).data(json!({ "n": n }))
}

async fn append(store: &Store, workspace: WorkspaceId, n: i64) {
    let outcome = write_tx!(store, |tx| {
        tx.event(event(workspace, n));
        Ok(())
    });
    outcome.unwrap();
}

async fn append_quietly(store: &Store, workspace: WorkspaceId) {
    let outcome = write_tx!(store, |tx| {
        tx.event(NewEvent::new(workspace, Kind::TranscriptAdvanced));
        Ok(())
    });
    outcome.unwrap();
}

/// Takes events until `count` were given.
async fn take(subscription: &mut Subscription, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(soon(subscription.next()).await.unwrap());
    }
    events
}

fn numbers(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.seq).collect()
}

on_both! {
    async fn an_event_comes_back_whole(h) {
        let w = World::stored(h, "home", "TY").await;
        let full = NewEvent::new(w.workspace.id, Kind::RunEnded)
            .task(w.task.id)
            .run(w.run.id)
            .session(Some(w.session.id))
            .data(json!({"outcome": "failed", "text": "ä\0\n", "deep": [1, null, {"x": 0.5}]}));
        let bare = NewEvent::new(w.workspace.id, Kind::SettingsChanged);
        let (id, both) = (w.workspace.id, [full, bare]);
        let copies = both.clone();
        write_tx!(h.store, |tx| {
            for event in copies {
                tx.event(event);
            }
            Ok(())
        })
        .unwrap();
        let events = read_tx!(h.store, |read| read.events_after(id, 0, 10).await).unwrap();
        assert_eq!(numbers(&events), [1, 2]);
        assert_eq!(events.into_iter().map(|event| event.body).collect::<Vec<_>>(), both);
        assert_eq!(read_tx!(h.store, |read| read.events_after(id, 1, 10).await).unwrap().len(), 1);
        assert_eq!(read_tx!(h.store, |read| read.events_after(id, 0, 1).await).unwrap().len(), 1);
    }

    /// 32 writers at once, two workspaces in opposite order, some of whom fail: no hole, no repetition.
    async fn no_holes_under_32_writers(h) {
        let (one, two) = (World::stored(h, "one", "ON").await, World::stored(h, "two", "TW").await);
        let (one, two) = (one.workspace.id, two.workspace.id);
        let writers = (0..32_i64).map(|writer| {
            let store = h.store.clone();
            tokio::spawn(async move {
                for n in 0..8 {
                    let outcome = write_tx!(store, |tx| {
                        let order = if writer % 2 == 0 { [one, two] } else { [two, one] };
                        for workspace in order {
                            tx.event(event(workspace, writer * 100 + n));
                        }
                        if n == 3 { Err(taskyard_domain::Error::conflict("on purpose")) } else { Ok(()) }
                    });
                    assert_eq!(outcome.is_err(), n == 3);
                }
            })
        });
        for writer in join_all(writers).await {
            writer.unwrap();
        }
        for workspace in [one, two] {
            let events = read_tx!(h.store, |read| read.events_after(workspace, 0, 1000).await).unwrap();
            assert_eq!(numbers(&events), (1..=32 * 7).collect::<Vec<i64>>());
            // Each writer's own order is kept.
            for writer in 0..32_i64 {
                let own: Vec<i64> = events.iter().filter_map(|e| e.body.data["n"].as_i64()).filter(|n| n / 100 == writer).collect();
                assert_eq!(own, [0, 1, 2, 4, 5, 6, 7].map(|n| writer * 100 + n));
            }
        }
    }

    /// Many events in one transaction go in in order, whatever the batch sizes.
    async fn many_events_in_one_transaction(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        write_tx!(h.store, |tx| {
            (0..300).for_each(|n| tx.event(event(id, n)));
            Ok(())
        })
        .unwrap();
        let mut subscription = h.store.subscribe(id, 0);
        let events = take(&mut subscription, 300).await;
        assert_eq!(numbers(&events), (1..=300).collect::<Vec<i64>>());
        assert!(events.iter().all(|event| event.body.data["n"] == event.seq - 1));
    }

    /// Subscribers that come while others write get everything behind their number, once, in order.
    async fn subscribe_in_the_middle(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let total = 16 * 25;
        let writers = (0..16).map(|writer| {
            let store = h.store.clone();
            tokio::spawn(async move {
                for n in 0..25 {
                    append(&store, id, writer * 100 + n).await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut first = h.store.subscribe(id, 0);
        let mut readers = Vec::new();
        for step in 1..=8_i64 {
            // Come in later and later, and from further and further behind.
            let seen = take(&mut first, 20).await;
            assert_eq!(numbers(&seen), ((step - 1) * 20 + 1..=step * 20).collect::<Vec<i64>>());
            let after = first.position() / 2;
            let mut subscription = h.store.subscribe(id, after);
            readers.push(tokio::spawn(async move {
                let events = take(&mut subscription, usize::try_from(total - after).unwrap()).await;
                assert_eq!(numbers(&events), (after + 1..=total).collect::<Vec<i64>>());
            }));
        }
        for task in join_all(readers.into_iter().chain(writers)).await {
            task.unwrap();
        }
    }

    /// However many are woken by a commit, few of them ask the database; all of them get everything, once, in order.
    async fn listeners_share_what_one_has_read(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        const KINDS: &[Kind] = &[Kind::TaskUpdated];
        append(&h.store, id, 0).await;
        append_quietly(&h.store, id).await;
        let listeners: Vec<_> = (0..40).map(|n| h.store.subscribe_kinds(id, KINDS, n % 3)).collect();
        let before = h.store.read_count();
        let listening: Vec<_> = listeners
            .into_iter()
            .map(|mut listener| {
                let first = listener.position();
                tokio::spawn(async move { (first, take(&mut listener, if first == 0 { 11 } else { 10 }).await) })
            })
            .collect();
        for n in 1..=10 {
            append(&h.store, id, n).await;
            append_quietly(&h.store, id).await;
        }
        for task in listening {
            let (first, events) = task.await.unwrap();
            let expected: Vec<i64> = (0..=10).map(|n| 2 * n + 1).filter(|seq| *seq > first).collect();
            assert_eq!(numbers(&events), expected);
        }
        let reads = h.store.read_count() - before;
        assert!(reads <= 40, "{reads} reads for ten commits and forty listeners");
    }

    /// Dropping a call of `next` at any moment takes no event with it.
    async fn a_dropped_next_loses_nothing(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let store = h.store.clone();
        let writer = tokio::spawn(async move {
            for n in 0..100 {
                append(&store, id, n).await;
            }
        });
        let mut subscription = h.store.subscribe(id, 0);
        let (mut seen, mut attempt) = (Vec::new(), 0);
        while seen.len() < 100 {
            attempt += 1;
            let mut polls = attempt % 24;
            let mut next = std::pin::pin!(subscription.next());
            // Lets it be woken a few times, then drops it wherever it is.
            let given = soon(std::future::poll_fn(|cx| {
                if let std::task::Poll::Ready(event) = next.as_mut().poll(cx) {
                    return std::task::Poll::Ready(Some(event));
                }
                if polls == 0 {
                    return std::task::Poll::Ready(None);
                }
                polls -= 1;
                std::task::Poll::Pending
            }))
            .await;
            match given {
                Some(event) => seen.push(event.unwrap()),
                None => tokio::task::yield_now().await,
            }
        }
        writer.await.unwrap();
        assert_eq!(numbers(&seen), (1..=100).collect::<Vec<i64>>());
    }

    /// A subscription hears its own workspace only.
    async fn workspaces_are_apart(h) {
        let (one, two) = (World::stored(h, "one", "ON").await.workspace.id, World::stored(h, "two", "TW").await.workspace.id);
        let mut subscription = h.store.subscribe(one, 0);
        append(&h.store, two, 1).await;
        append(&h.store, one, 2).await;
        let event = soon(subscription.next()).await.unwrap();
        assert_eq!((event.seq, event.body.workspace_id, &event.body.data), (1, one, &json!({"n": 2})));
    }

    /// The signal for everybody is raised by events and by effects, and by nothing that failed.
    async fn the_signal_for_everybody(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let mut wake = h.store.subscribe_all();
        append(&h.store, id, 1).await;
        soon(wake.changed()).await;
        write_tx!(h.store, |tx| tx.outbox_push("x", json!({})).await).unwrap();
        soon(wake.changed()).await;
    }

    /// A transcript that grows wakes those who follow the log, and nobody else; effects written along with it do.
    async fn a_growing_transcript_is_quiet(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let mut wake = h.store.subscribe_all();
        let mut all = h.store.subscribe(id, 0);
        let mut tasks = h.store.subscribe_kinds(id, &[Kind::TaskUpdated, Kind::TaskDeleted], 0);
        let grow = async |effect: bool| {
            write_tx!(h.store, |tx| {
                tx.event(NewEvent::new(id, Kind::TranscriptAdvanced));
                if effect { tx.outbox_push("x", json!({})).await } else { Ok(()) }
            })
            .unwrap();
        };
        for n in 1..=3 {
            grow(false).await;
            assert_eq!(soon(all.next()).await.unwrap().seq, n);
        }
        assert!(wake.changed().now_or_never().is_none());
        grow(true).await;
        soon(wake.changed()).await;
        append(&h.store, id, 5).await;
        soon(wake.changed()).await;
        let event = soon(tasks.next()).await.unwrap();
        assert_eq!((event.seq, event.body.kind, tasks.position()), (5, Kind::TaskUpdated, 5));
    }

    /// Who listens for some kinds is handed those only, reads nothing because of others, and misses none.
    async fn some_kinds_only(h) {
        let id = World::stored(h, "home", "TY").await.workspace.id;
        let mut tasks = h.store.subscribe_kinds(id, &[Kind::TaskUpdated], 0);
        write_tx!(h.store, |tx| {
            for n in 0..600 {
                tx.event(NewEvent::new(id, Kind::TranscriptAdvanced));
                tx.event(event(id, n));
            }
            Ok(())
        })
        .unwrap();
        let events = take(&mut tasks, 600).await;
        assert_eq!(numbers(&events), (1..=600).map(|n| n * 2).collect::<Vec<i64>>());
        // It waits from here on.
        assert!(soon(async { tokio::task::yield_now().await; tasks.next().now_or_never() }).await.is_none());
        let mut waiting = tokio::spawn(async move { tasks.next().await });
        append_quietly(&h.store, id).await;
        let before = h.store.read_count();
        for _ in 0..20 {
            append_quietly(&h.store, id).await;
            read_tx!(h.store, |read| read.event_head(id).await).unwrap();
        }
        // One read more may be the first look of the one who waits.
        assert!(h.store.read_count() - before <= 22, "{} reads", h.store.read_count() - before);
        assert!(futures::poll!(&mut waiting).is_pending());
        append(&h.store, id, 7).await;
        assert_eq!(soon(waiting).await.unwrap().unwrap().seq, 1222);
    }

    /// Writing an event of a workspace that isn't there fails the whole write.
    async fn no_workspace_no_event(h) {
        let id = WorkspaceId::new(&*h.sources.ids);
        let outcome = write_tx!(h.store, |tx| {
            tx.mcp_session_store("m", json!({})).await?;
            tx.event(event(id, 1));
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().class, taskyard_domain::Class::NotFound);
        assert_eq!(read_tx!(h.store, |read| read.mcp_session_load("m").await).unwrap(), None);
    }
}

/// On PostgreSQL another node's commits wake this one's subscriptions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_commits_wake() {
    let Some(harness) = crate::support::Harness::postgres().await else { return };
    let id = World::stored(&harness, "home", "TY").await.workspace.id;
    let other = harness.open_again().await;
    let mut subscription = harness.store.subscribe(id, 0);
    let mut wake = harness.store.subscribe_all();
    for n in 1..=5 {
        append(&other, id, n).await;
        assert_eq!(soon(subscription.next()).await.unwrap().seq, n);
        soon(wake.changed()).await;
    }
    write_tx!(other, |tx| tx.outbox_push("x", json!({})).await).unwrap();
    soon(wake.changed()).await;
    other.close().await;
    harness.finish().await;
}
