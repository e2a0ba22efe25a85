//! Rules that the tables themselves keep: uniqueness under races, references, workspaces apart, what goes
//! with a deleted task, and the look-ups that aren't plain.

use crate::support::make::World;
use crate::{on_both, read_tx, write_tx};
use futures::future::join_all;
use std::collections::BTreeSet;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::list::Config;
use taskyard_domain::name::ShortId;
use taskyard_domain::task::Status;
use taskyard_domain::{Class, merge, run, worktree};
use taskyard_store::{QueuedTask, WorktreeFilter};

on_both! {
    /// However many race for a task, one run is open; the others hear so.
    async fn one_open_run_per_task(h) {
        let w = World::stored(h, "home", "TY").await;
        let mut ended = w.run.clone();
        ended.state = run::State::Ended;
        write_tx!(h.store, |tx| tx.run_update(&ended).await).unwrap();
        for _ in 0..5 {
            let claims = (0..64).map(|_| {
                let (store, mut claim) = (h.store.clone(), h.sources.run(&w.task, None));
                claim.kind = run::Kind::Claimed;
                tokio::spawn(async move {
                    let id = claim.id;
                    write_tx!(store, |tx| tx.run_insert(&claim).await).map(|()| id)
                })
            });
            let outcomes: Vec<_> = join_all(claims).await.into_iter().map(|claim| claim.unwrap()).collect();
            let winners: Vec<_> = outcomes.iter().flatten().copied().collect();
            assert_eq!(winners.len(), 1);
            for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
                assert_eq!((error.class, error.message.as_str()), (Class::Conflict, "a run of this task is open already"));
            }
            let task = w.task.id;
            let mut open = read_tx!(h.store, |read| read.run_open_for_task(task).await).unwrap().unwrap();
            assert_eq!(open.id, winners[0]);
            assert_eq!(read_tx!(h.store, |read| read.run_open_all().await).unwrap(), vec![open.clone()]);
            open.state = run::State::Ended;
            write_tx!(h.store, |tx| tx.run_update(&open).await).unwrap();
        }
    }

    /// An ended run's token is dead, and the newest run is the newest.
    async fn tokens_and_the_newest_run(h) {
        let w = World::stored(h, "home", "TY").await;
        let (hash, task, session) = (w.run.token_hash.clone().unwrap(), w.task.id, w.session.id);
        let asked = hash.clone();
        assert_eq!(read_tx!(h.store, |read| read.run_by_token_hash(&asked).await).unwrap(), Some(w.run.clone()));
        let mut ended = w.run.clone();
        ended.state = run::State::Ended;
        let next = h.sources.run(&w.task, Some(&w.session));
        let copies = (ended.clone(), next.clone());
        write_tx!(h.store, |tx| {
            tx.run_update(&copies.0).await?;
            tx.run_insert(&copies.1).await
        })
        .unwrap();
        assert_eq!(read_tx!(h.store, |read| read.run_by_token_hash(&hash).await).unwrap(), None);
        assert_eq!(read_tx!(h.store, |read| read.run_latest_for_task(task).await).unwrap(), Some(next.clone()));
        assert_eq!(read_tx!(h.store, |read| read.runs_of_session(session).await).unwrap(), vec![ended, next]);
    }

    /// Short ids under concurrency: each number once, none missing; and a deleted task's number stays used.
    async fn short_ids_are_never_reused(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.workspace.id;
        let made = (0..40).map(|_| {
            let (store, list, sources) = (h.store.clone(), w.list.clone(), h.sources.clone());
            tokio::spawn(async move {
                let stored = write_tx!(store, |tx| {
                    let number = tx.workspace_next_number(id).await?;
                    let task = sources.task(&list, ShortId::new("TY", number));
                    tx.task_insert(&task).await?;
                    Ok((number, task.id))
                });
                stored.unwrap()
            })
        });
        let made: Vec<_> = join_all(made).await.into_iter().map(|made| made.unwrap()).collect();
        assert_eq!(made.iter().map(|(number, _)| *number).collect::<BTreeSet<i64>>(), (2..=41).collect());
        let (_, last) = *made.iter().max().unwrap();
        write_tx!(h.store, |tx| tx.task_delete(last).await).unwrap();
        assert_eq!(write_tx!(h.store, |tx| tx.workspace_next_number(id).await).unwrap(), 42);
        assert_eq!(write_tx!(h.store, |tx| tx.task_delete(last).await).unwrap_err().class, Class::NotFound);
        let gone = taskyard_domain::id::WorkspaceId::new(&*h.sources.ids);
        assert_eq!(write_tx!(h.store, |tx| tx.workspace_next_number(gone).await).unwrap_err().class, Class::NotFound);
    }

    /// Numbers of audit entries and effects aren't re-used either.
    async fn effect_numbers_are_never_reused(h) {
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            write_tx!(h.store, |tx| tx.outbox_push("x", serde_json::json!({})).await).unwrap();
            let now = h.sources.now();
            let row = read_tx!(h.store, |read| read.outbox_due(now, 10).await).unwrap().remove(0);
            assert!(seen.insert(row.id), "{} came twice", row.id);
            write_tx!(h.store, |tx| tx.outbox_done(row.id).await).unwrap();
        }
    }

    /// What has to be unique is, and says what it is.
    async fn taken_names(h) {
        let w = World::stored(h, "home", "TY").await;
        let s = &h.sources;
        let (slug, prefix) = (s.workspace("home", "XX"), s.workspace("away", "TY"));
        let (path, agent, profile) = (s.repository(w.workspace.id, "/src/app"), s.agent(w.workspace.id, "claude"), s.profile(&w.agent, "default"));
        let session = s.session(&w.task, &w.profile, None);
        let outcomes = [
            (write_tx!(h.store, |tx| tx.workspace_insert(&slug).await), "slug"),
            (write_tx!(h.store, |tx| tx.workspace_insert(&prefix).await), "task prefix"),
            (write_tx!(h.store, |tx| tx.repository_insert(&path).await), "repository"),
            (write_tx!(h.store, |tx| tx.agent_insert(&agent).await), "agent of this name"),
            (write_tx!(h.store, |tx| tx.profile_insert(&profile).await), "agent profile of this name"),
            (write_tx!(h.store, |tx| tx.session_insert(&session).await), "primary session"),
        ];
        for (outcome, word) in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(error.class, Class::Conflict, "{error}");
            assert!(error.message.contains(word), "{word}: {error}");
        }
    }

    /// A row can't point into another workspace, and one workspace's look-ups don't see the other's rows.
    async fn workspaces_are_apart(h) {
        let (one, two) = (World::stored(h, "one", "ON").await, World::stored(h, "two", "TW").await);
        let mut task = h.sources.task(&one.list, ShortId::new("ON", 9));
        task.list_id = two.list.id;
        let mut profile = h.sources.profile(&one.agent, "mixed");
        profile.agent_id = two.agent.id;
        let mut run = h.sources.run(&one.task, None);
        run.task_id = two.task.id;
        run.state = run::State::Ended;
        let mut worktree = h.sources.worktree(&one.task, two.repository.id);
        worktree.repository_id = two.repository.id;
        let outcomes = [
            write_tx!(h.store, |tx| tx.task_insert(&task).await),
            write_tx!(h.store, |tx| tx.profile_insert(&profile).await),
            write_tx!(h.store, |tx| tx.run_insert(&run).await),
            write_tx!(h.store, |tx| tx.worktree_insert(&worktree).await),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().class, Class::FailedPrecondition);
        }
        let (a, b) = (one.workspace.id, two.workspace.id);
        write_tx!(h.store, |tx| {
            tx.event(NewEvent::new(b, Kind::TaskUpdated));
            tx.idempotency_insert(b, "operator", "k", "t", "h", serde_json::Value::Null).await
        })
        .unwrap();
        read_tx!(h.store, |read| {
            assert_eq!(read.repository_list(a).await?, vec![one.repository]);
            assert_eq!(read.list_list(a).await?, vec![one.list]);
            assert_eq!(read.agent_list(a).await?, vec![one.agent]);
            assert_eq!(read.profile_list(a).await?, vec![one.profile]);
            assert_eq!(read.worktree_list(WorktreeFilter { workspace: Some(a), ..Default::default() }).await?, vec![one.worktree]);
            assert_eq!(read.run_page(Some(a), None, None, 10).await?, vec![one.run]);
            assert_eq!(read.queue_candidates(Some(a)).await?, vec![]);
            assert_eq!(read.events_after(a, 0, 10).await?, vec![]);
            assert_eq!(read.idempotency_fetch(a, "operator", "k", jiff::Timestamp::UNIX_EPOCH).await?, None);
            assert_eq!(read.repository_by_path(b, "/src/app").await?, Some(two.repository));
            assert_eq!(read.workspace_by_slug("one").await?, Some(one.workspace));
            Ok(())
        })
        .unwrap();
    }

    /// With a task go its runs, sessions and records; snapshots, children and the log stay.
    async fn deleting_a_task(h) {
        let w = World::stored(h, "home", "TY").await;
        let (merge, snapshot) = (h.sources.merge(&w.task, w.worktree.id), h.sources.snapshot(&w.worktree));
        let (question, message) = (h.sources.question(&w.run, w.session.id), h.sources.message(&w.session));
        let mut child = h.sources.task(&w.list, ShortId::new("TY", 2));
        child.parent_id = Some(w.task.id);
        let copy = (w.clone(), merge.clone(), snapshot.clone(), question.clone(), message.clone(), child.clone());
        write_tx!(h.store, |tx| {
            let (w, merge, snapshot, question, message, child) = copy;
            tx.merge_insert(&merge).await?;
            tx.snapshot_insert(&snapshot).await?;
            tx.question_insert(&question).await?;
            tx.message_insert(&message).await?;
            tx.task_insert(&child).await?;
            tx.blocker_add(child.id, w.task.id).await?;
            let item = taskyard_domain::transcript::Item::Prompt { text: "x".into() };
            tx.transcript_append(w.session.id, w.run.id, &[item]).await?;
            tx.event(NewEvent::new(w.workspace.id, Kind::TaskCreated).task(w.task.id));
            Ok(())
        })
        .unwrap();
        let list = w.list.id;
        assert_eq!(write_tx!(h.store, |tx| tx.list_delete(list).await).unwrap_err().class, Class::FailedPrecondition);
        let task = w.task.id;
        write_tx!(h.store, |tx| tx.task_delete(task).await).unwrap();
        let mut orphan = child.clone();
        orphan.parent_id = None;
        let mut kept = snapshot.clone();
        (kept.task_id, kept.worktree_id) = (None, None);
        read_tx!(h.store, |read| {
            assert_eq!(read.session_fetch(w.session.id).await?, None);
            assert_eq!(read.run_fetch(w.run.id).await?, None);
            assert_eq!(read.worktree_fetch(w.worktree.id).await?, None);
            assert_eq!(read.merge_fetch(merge.id).await?, None);
            assert_eq!(read.question_fetch(question.id).await?, None);
            assert_eq!(read.message_fetch(message.id).await?, None);
            assert_eq!(read.transcript_page(w.session.id, 0, 10).await?, vec![]);
            assert_eq!(read.blockers_of(child.id).await?, vec![]);
            assert_eq!(read.task_fetch(child.id).await?, Some(orphan));
            assert_eq!(read.snapshot_fetch(snapshot.id).await?, Some(kept));
            assert_eq!(read.events_after(w.workspace.id, 0, 10).await?.len(), 1);
            Ok(())
        })
        .unwrap();
        let child = child.id;
        write_tx!(h.store, |tx| {
            tx.task_delete(child).await?;
            tx.list_delete(list).await
        })
        .unwrap();
    }

    /// Agents and profiles go only when nothing names them.
    async fn deleting_agents(h) {
        let w = World::stored(h, "home", "TY").await;
        let spare = h.sources.agent(w.workspace.id, "spare");
        let profile = h.sources.profile(&spare, "spare");
        let (copies, used) = ((spare.clone(), profile.clone()), (w.agent.id, w.profile.id));
        write_tx!(h.store, |tx| {
            tx.agent_insert(&copies.0).await?;
            tx.profile_insert(&copies.1).await
        })
        .unwrap();
        let (agent, profile) = (spare.id, profile.id);
        assert_eq!(write_tx!(h.store, |tx| tx.agent_delete(used.0).await).unwrap_err().class, Class::FailedPrecondition);
        assert_eq!(write_tx!(h.store, |tx| tx.profile_delete(used.1).await).unwrap_err().class, Class::FailedPrecondition);
        assert_eq!(write_tx!(h.store, |tx| tx.agent_delete(agent).await).unwrap_err().class, Class::FailedPrecondition);
        write_tx!(h.store, |tx| {
            tx.profile_delete(profile).await?;
            tx.agent_delete(agent).await
        })
        .unwrap();
        assert_eq!(write_tx!(h.store, |tx| tx.agent_delete(agent).await).unwrap_err().class, Class::NotFound);
        assert_eq!(write_tx!(h.store, |tx| tx.profile_delete(profile).await).unwrap_err().class, Class::NotFound);
        let id = w.workspace.id;
        let left = read_tx!(h.store, |read| Ok((read.agent_list(id).await?, read.profile_list(id).await?)));
        assert_eq!(left.unwrap(), (vec![w.agent], vec![w.profile]));
    }

    async fn blockers(h) {
        let w = World::stored(h, "home", "TY").await;
        let mut blocker = h.sources.task(&w.list, ShortId::new("TY", 2));
        let (a, b) = (w.task.id, blocker.id);
        let copy = blocker.clone();
        write_tx!(h.store, |tx| {
            tx.task_insert(&copy).await?;
            tx.blocker_add(a, b).await?;
            tx.blocker_add(a, b).await
        })
        .unwrap();
        let all = |a, b| async move {
            read_tx!(h.store, |read| Ok((read.blockers_of(a).await?, read.blocked_by_me(b).await?, read.unfinished_blockers(a).await?))).unwrap()
        };
        assert_eq!(all(a, b).await, (vec![b], vec![a], vec![b]));
        for (status, unfinished) in [(Status::Cancelled, true), (Status::Failed, true), (Status::Done, false)] {
            blocker.status = status;
            let copy = blocker.clone();
            write_tx!(h.store, |tx| tx.task_update(&copy).await).unwrap();
            assert_eq!(all(a, b).await.2.is_empty(), !unfinished, "{status}");
        }
        assert!(write_tx!(h.store, |tx| tx.blocker_remove(a, b).await).unwrap());
        assert!(!write_tx!(h.store, |tx| tx.blocker_remove(a, b).await).unwrap());
        assert_eq!(all(a, b).await, (vec![], vec![], vec![]));
        let gone = taskyard_domain::id::TaskId::new(&*h.sources.ids);
        assert_eq!(write_tx!(h.store, |tx| tx.blocker_add(a, gone).await).unwrap_err().class, Class::FailedPrecondition);
    }

    /// The queue sees queued tasks only, in its order, and says which are blocked.
    async fn queue_candidates(h) {
        let w = World::stored(h, "home", "TY").await;
        let task = |number: i64, change: fn(&mut taskyard_domain::task::Task)| {
            let mut task = h.sources.task(&w.list, ShortId::new("TY", number));
            change(&mut task);
            task
        };
        let (mut late, soon) = (task(2, |t| t.sort_order = 5.0), task(3, |t| t.sort_order = -5.0));
        late.config = Config {
            agent_profile_id: Some(w.profile.id),
            repository_id: Some(w.repository.id),
            model: Some("opus \"4\"".into()),
            ..Config::default()
        };
        let tie = task(4, |t| t.sort_order = 5.0);
        let other = [
            task(5, |t| t.status = Status::Ready),
            task(6, |t| t.kind = taskyard_domain::task::Kind::Epic),
            task(7, |t| t.archived_at = Some(t.created_at)),
        ];
        let copies: Vec<_> = [&late, &soon, &tie].into_iter().chain(&other).cloned().collect();
        let (blocked, blocker) = (late.id, other[0].id);
        write_tx!(h.store, |tx| {
            for task in &copies {
                tx.task_insert(task).await?;
            }
            tx.blocker_add(blocked, blocker).await
        })
        .unwrap();
        // The world's own task is queued, but has an open run.
        let queued = |task: &taskyard_domain::task::Task, blocked| QueuedTask {
            id: task.id,
            workspace_id: task.workspace_id,
            list_id: task.list_id,
            sort_order: task.sort_order,
            created_at: task.created_at,
            due_at: task.due_at,
            not_before: task.not_before,
            manual: task.manual,
            agent_profile_id: task.config.agent_profile_id,
            repository_id: task.config.repository_id,
            model: task.config.model.clone(),
            last_outcome: task.last_outcome,
            blocked,
        };
        let expected = vec![queued(&soon, false), queued(&late, true), queued(&tie, false)];
        assert_eq!(read_tx!(h.store, |read| read.queue_candidates(None).await).unwrap(), expected);
        let id = w.workspace.id;
        assert_eq!(read_tx!(h.store, |read| read.queue_candidates(Some(id)).await).unwrap(), expected);
    }

    async fn worktrees_and_merges_of_a_task(h) {
        let w = World::stored(h, "home", "TY").await;
        let mut gone = h.sources.worktree(&w.task, w.repository.id);
        gone.state = worktree::State::Discarded;
        let (mut landed, mut newer) = (h.sources.merge(&w.task, w.worktree.id), h.sources.merge(&w.task, w.worktree.id));
        landed.state = merge::State::Reverted;
        newer.landed_at = Some(h.sources.now());
        let mut open = h.sources.merge(&w.task, w.worktree.id);
        (open.state, open.landed_at) = (merge::State::Open, None);
        let copies = (gone.clone(), [landed.clone(), newer.clone(), open.clone()]);
        write_tx!(h.store, |tx| {
            tx.worktree_insert(&copies.0).await?;
            for merge in &copies.1 {
                tx.merge_insert(merge).await?;
            }
            Ok(())
        })
        .unwrap();
        let question = h.sources.question(&w.run, w.session.id);
        let mut closed = h.sources.question(&w.run, w.session.id);
        closed.state = taskyard_domain::question::State::Answered;
        let copies = (question.clone(), closed);
        write_tx!(h.store, |tx| {
            tx.question_insert(&copies.0).await?;
            tx.question_insert(&copies.1).await
        })
        .unwrap();
        read_tx!(h.store, |read| {
            assert_eq!(read.worktree_current(w.task.id).await?, Some(w.worktree.clone()));
            let of_state = WorktreeFilter { state: Some(worktree::State::Discarded), task: Some(w.task.id), ..Default::default() };
            assert_eq!(read.worktree_list(of_state).await?, vec![gone.clone()]);
            let of_repository = WorktreeFilter { repository: Some(w.repository.id), ..Default::default() };
            assert_eq!(read.worktree_list(of_repository).await?, vec![w.worktree.clone(), gone]);
            assert_eq!(read.merge_last_landed(w.worktree.id).await?, Some(newer.clone()));
            assert_eq!(read.merge_unfinished().await?, vec![open.clone()]);
            assert_eq!(read.merge_list(w.task.id).await?, vec![landed, newer, open]);
            assert_eq!(read.session_primary(w.task.id).await?, Some(w.session.clone()));
            assert_eq!(read.session_list(w.task.id).await?, vec![w.session]);
            assert_eq!(read.question_open_for_run(w.run.id).await?, vec![question.clone()]);
            assert_eq!(read.question_list_open(Some(w.workspace.id)).await?, vec![question.clone()]);
            assert_eq!(read.question_list_open(None).await?, vec![question]);
            Ok(())
        })
        .unwrap();
    }

    /// Two transactions that change the same locked row one after another lose nothing.
    async fn locked_rows_take_turns(h) {
        let w = World::stored(h, "home", "TY").await;
        let id = w.task.id;
        let turns = (0..24).map(|_| {
            let store = h.store.clone();
            tokio::spawn(async move {
                let outcome = write_tx!(store, |tx| {
                    let mut task = tx.task_lock(id).await?.unwrap();
                    task.interruptions += 1;
                    tx.task_update(&task).await
                });
                outcome.unwrap();
            })
        });
        for turn in join_all(turns).await {
            turn.unwrap();
        }
        assert_eq!(read_tx!(h.store, |read| read.task_fetch(id).await).unwrap().unwrap().interruptions, 2 + 24);
    }
}
