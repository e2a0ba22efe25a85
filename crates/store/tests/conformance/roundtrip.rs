//! Every entity comes back whole: with all optional parts, without any, and after an update of everything.

use crate::support::make::World;
use crate::{on_both, read_tx, write_tx};
use taskyard_domain::{Class, merge, message, question, run, session, task, worktree};

/// Inserts nothing: checks that `$entity` is what the database has, updates it to `$changed`, checks again, and
/// checks that updating a row that isn't there is `NOT_FOUND`.
macro_rules! comes_back {
    ($harness:ident, $fetch:ident, $update:ident, $id:ty, $entity:expr, |$changed:ident| $change:block) => {{
        let (store, entity) = (&$harness.store, $entity.clone());
        let id = entity.id;
        assert_eq!(read_tx!(store, |read| read.$fetch(id).await).unwrap().as_ref(), Some(&entity));
        let mut $changed = entity.clone();
        $change
        assert_ne!($changed, entity);
        let copy = $changed.clone();
        write_tx!(store, |tx| tx.$update(&copy).await).unwrap();
        assert_eq!(read_tx!(store, |read| read.$fetch(id).await).unwrap(), Some($changed));
        let mut gone = entity.clone();
        gone.id = <$id>::new(&*$harness.sources.ids);
        let (missing, text) = (gone.id, gone.id.to_string());
        let error = write_tx!(store, |tx| tx.$update(&gone).await).unwrap_err();
        assert_eq!(error.class, Class::NotFound, "{error}");
        assert!(error.message.contains(&text), "{error}");
        assert_eq!(read_tx!(store, |read| read.$fetch(missing).await).unwrap(), None);
        // Back to what it was, for those that refer to it.
        write_tx!(store, |tx| tx.$update(&entity).await).unwrap();
    }};
}

use taskyard_domain::id::*;

on_both! {
    async fn workspaces_repositories_lists(h) {
        let w = World::stored(h, "home", "TY").await;
        comes_back!(h, workspace_fetch, workspace_update, WorkspaceId, w.workspace, |x| {
            x.slug = "other".into();
            x.name = "Other".into();
            x.prompt = String::new();
            x.default_profile_id = None;
        });
        comes_back!(h, repository_fetch, repository_update, RepositoryId, w.repository, |x| {
            x.local_path = None;
            x.remote_url = None;
            x.default_branch = None;
            x.setup_script = None;
            x.cleanup_script = None;
            x.verify_script = None;
            x.copy_files.clear();
            x.hook_policy = taskyard_domain::repository::HookPolicy::Run;
            x.sign_policy = taskyard_domain::repository::SignPolicy::Inherit;
        });
        comes_back!(h, list_fetch, list_update, ListId, w.list, |x| {
            x.name = "Later".into();
            x.sort_order = -0.1;
            x.config = taskyard_domain::list::Config::default();
        });
    }

    async fn agents_and_profiles(h) {
        let w = World::stored(h, "home", "TY").await;
        comes_back!(h, agent_fetch, agent_update, AgentId, w.agent, |x| {
            x.driver = taskyard_domain::agent::DriverKind::Exec;
            x.command.clear();
            x.env.clear();
            x.limited_until = None;
            x.limit_reason = None;
            x.limit_strikes = 0;
        });
        comes_back!(h, profile_fetch, profile_update, ProfileId, w.profile, |x| {
            x.model = None;
            x.mode = None;
            x.permission_policy = taskyard_domain::agent::PermissionPolicy::Worktree;
            x.allowed_tools.clear();
            x.env.clear();
            x.max_parallel = None;
            x.auto_commit = false;
        });
        let (agent, profile, id) = (w.agent.clone(), w.profile.clone(), w.workspace.id);
        let found = read_tx!(h.store, |read| {
            let agents = (read.agent_by_name(id, "claude").await?, read.agent_by_name(id, "nobody").await?);
            Ok((agents, read.profile_by_name(id, "default").await?))
        });
        assert_eq!(found.unwrap(), ((Some(agent), None), Some(profile)));
    }

    async fn tasks(h) {
        let w = World::stored(h, "home", "TY").await;
        let parent = w.task.clone();
        let mut child = h.sources.task(&w.list, taskyard_domain::name::ShortId::new("TY", 2));
        child.parent_id = Some(parent.id);
        let copy = child.clone();
        write_tx!(h.store, |tx| tx.task_insert(&copy).await).unwrap();
        comes_back!(h, task_fetch, task_update, TaskId, child, |x| {
            x.title = "Other".into();
            x.description = String::new();
            x.kind = task::Kind::Epic;
            x.priority = task::Priority::Low;
            x.parent_id = None;
            x.status = task::Status::WaitingForReview;
            x.sort_order = f64::MIN_POSITIVE;
            x.due_at = None;
            x.manual = false;
            x.my_day = true;
            x.config = taskyard_domain::list::Config::default();
            x.not_before = None;
            x.last_outcome = None;
            x.failure = None;
            x.interruptions = 0;
            x.next_prompt = None;
            x.archived_at = Some(h.sources.now());
            x.updated_at = h.sources.now();
        });
        let short = child.short_id.clone();
        assert_eq!(read_tx!(h.store, |read| read.task_by_short(&short).await).unwrap(), Some(child.clone()));
        assert_eq!(read_tx!(h.store, |read| read.task_children(parent.id).await).unwrap(), vec![child]);
    }

    async fn sessions_and_runs(h) {
        let w = World::stored(h, "home", "TY").await;
        comes_back!(h, session_fetch, session_update, SessionId, w.session, |x| {
            x.worktree_id = None;
            x.is_primary = false;
            x.state = session::State::Failed;
            x.agent_session_id = None;
            x.updated_at = h.sources.now();
        });
        comes_back!(h, run_fetch, run_update, RunId, w.run, |x| {
            x.session_id = None;
            x.kind = run::Kind::Claimed;
            x.state = run::State::Ended;
            x.outcome = None;
            x.cause = None;
            x.actor = None;
            x.agent_id = None;
            x.profile_id = None;
            x.model = None;
            x.slot = None;
            x.wants_slot = false;
            x.cancel_requested = false;
            x.waiting_since = None;
            x.stalled = false;
            x.token_hash = None;
            x.pid = None;
            x.pid_started = None;
            x.node = None;
            x.usage = taskyard_domain::transcript::Usage::default();
            x.exit_code = None;
            x.notes = None;
            x.start_commit = None;
            x.ended_at = None;
        });
    }

    async fn worktrees_merges_snapshots(h) {
        let w = World::stored(h, "home", "TY").await;
        comes_back!(h, worktree_fetch, worktree_update, WorktreeId, w.worktree, |x| {
            x.base_branch = None;
            x.state = worktree::State::Discarded;
            x.is_ready = false;
            x.has_folder = false;
            x.tip = None;
            x.kept_ref = None;
            x.copied_files.clear();
        });
        let merge = h.sources.merge(&w.task, w.worktree.id);
        let mut revert = h.sources.merge(&w.task, w.worktree.id);
        revert.kind = merge::Kind::Revert;
        revert.reverts = Some(merge.id);
        let snapshot = h.sources.snapshot(&w.worktree);
        let copies = (merge.clone(), revert.clone(), snapshot.clone());
        write_tx!(h.store, |tx| {
            tx.merge_insert(&copies.0).await?;
            tx.merge_insert(&copies.1).await?;
            tx.snapshot_insert(&copies.2).await
        })
        .unwrap();
        comes_back!(h, merge_fetch, merge_update, MergeId, revert, |x| {
            x.unit_id = None;
            x.reverts = None;
            x.state = merge::State::Open;
            x.strategy = merge::Strategy::Squash;
            x.target_after = None;
            x.merge_base = None;
            x.message = None;
            x.merge_worktree_path = None;
            x.is_approval = false;
            x.landed_at = None;
        });
        comes_back!(h, snapshot_fetch, snapshot_update, SnapshotId, snapshot, |x| {
            x.task_id = None;
            x.worktree_id = None;
            x.restored_to = None;
        });
        let (task, repository) = (w.task.id, w.repository.id);
        let found = read_tx!(h.store, |read| {
            Ok((read.merge_list(task).await?, read.snapshot_list(Some(task), None).await?, read.snapshot_list(None, Some(repository)).await?))
        });
        assert_eq!(found.unwrap(), (vec![merge, revert], vec![snapshot.clone()], vec![snapshot]));
    }

    async fn questions_and_messages(h) {
        let w = World::stored(h, "home", "TY").await;
        let question = h.sources.question(&w.run, w.session.id);
        let message = h.sources.message(&w.session);
        let copies = (question.clone(), message.clone());
        write_tx!(h.store, |tx| {
            tx.question_insert(&copies.0).await?;
            tx.message_insert(&copies.1).await
        })
        .unwrap();
        comes_back!(h, question_fetch, question_update, QuestionId, question, |x| {
            x.kind = question::Kind::Question;
            x.state = question::State::Void;
            x.request_id = None;
            x.body = serde_json::Value::Null;
            x.answer = None;
            x.answered_by = None;
            x.closed_at = None;
        });
        comes_back!(h, message_fetch, message_update, MessageId, message, |x| {
            x.state = message::State::Undeliverable;
            x.delivered_at = None;
            x.reason = None;
        });
    }

    /// What a row lock gives is the row.
    async fn locked_rows(h) {
        let w = World::stored(h, "home", "TY").await;
        let merge = h.sources.merge(&w.task, w.worktree.id);
        let question = h.sources.question(&w.run, w.session.id);
        write_tx!(h.store, |tx| {
            tx.merge_insert(&merge).await?;
            tx.question_insert(&question).await?;
            assert_eq!(tx.workspace_lock(w.workspace.id).await?, Some(w.workspace));
            assert_eq!(tx.agent_lock(w.agent.id).await?, Some(w.agent));
            assert_eq!(tx.task_lock(w.task.id).await?, Some(w.task));
            assert_eq!(tx.session_lock(w.session.id).await?, Some(w.session));
            assert_eq!(tx.run_lock(w.run.id).await?, Some(w.run));
            assert_eq!(tx.worktree_lock(w.worktree.id).await?, Some(w.worktree));
            assert_eq!(tx.merge_lock(merge.id).await?, Some(merge));
            assert_eq!(tx.question_lock(question.id).await?, Some(question));
            Ok(())
        })
        .unwrap();
    }

    /// A stray NUL from an agent is stored as U+FFFD; it doesn't keep a run from being recorded.
    async fn nul_in_text(h) {
        let w = World::stored(h, "home", "TY").await;
        let mut run = w.run.clone();
        run.cause = Some("bad\0byte".into());
        write_tx!(h.store, |tx| tx.run_update(&run).await).unwrap();
        let id = w.run.id;
        let found = read_tx!(h.store, |read| read.run_fetch(id).await).unwrap().unwrap();
        assert_eq!(found.cause.as_deref(), Some("bad\u{fffd}byte"));
    }
}
