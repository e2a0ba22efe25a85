//! Entities for tests, every optional field filled, and a small world of them that fits together.

use super::{Harness, Sources};
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use taskyard_domain::agent::{Agent, DriverKind, PermissionPolicy, Profile};
use taskyard_domain::id::*;
use taskyard_domain::list::{Config, List};
use taskyard_domain::merge::{MergeRecord, Snapshot, Strategy};
use taskyard_domain::message::Message;
use taskyard_domain::name::ShortId;
use taskyard_domain::question::Question;
use taskyard_domain::repository::{HookPolicy, Repository, SignPolicy};
use taskyard_domain::run::{Outcome, Run, Slot};
use taskyard_domain::session::Session;
use taskyard_domain::task::{Kind, Priority, Status, Task};
use taskyard_domain::transcript::Usage;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::worktree::{CopiedFile, Worktree};
use taskyard_domain::{Clock as _, merge, message, question, run, session, worktree};

impl Sources {
    /// A time that the database can keep.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.clock.now().as_microsecond()).unwrap()
    }

    pub fn workspace(&self, slug: &str, prefix: &str) -> Workspace {
        Workspace {
            id: WorkspaceId::new(&*self.ids),
            slug: slug.into(),
            name: "Über uns 🦀".into(),
            task_prefix: prefix.into(),
            prompt: "Be kind.\nAnd 'exact' \"always\".".into(),
            default_profile_id: Some(ProfileId::new(&*self.ids)),
            created_at: self.now(),
        }
    }

    pub fn repository(&self, workspace: WorkspaceId, path: &str) -> Repository {
        Repository {
            id: RepositoryId::new(&*self.ids),
            workspace_id: workspace,
            name: "app".into(),
            local_path: Some(path.into()),
            remote_url: Some("https://git.example/app".into()),
            default_branch: Some("main".into()),
            branch_prefix: "taskyard".into(),
            setup_script: Some("make setup".into()),
            cleanup_script: Some("make clean".into()),
            verify_script: Some("make check".into()),
            copy_files: vec![".env".into(), "*.key".into()],
            hook_policy: HookPolicy::Skip,
            sign_policy: SignPolicy::Never,
            created_at: self.now(),
        }
    }

    pub fn config(&self) -> Config {
        Config {
            agent_profile_id: Some(ProfileId::new(&*self.ids)),
            executor_profile_id: Some("local".into()),
            repository_id: Some(RepositoryId::new(&*self.ids)),
            target_branch: Some("main".into()),
            model: Some("opus".into()),
            max_turns: Some(40),
            system_prompt: Some("Short.".into()),
        }
    }

    pub fn list(&self, workspace: WorkspaceId) -> List {
        List {
            id: ListId::new(&*self.ids),
            workspace_id: workspace,
            name: "Inbox".into(),
            description: "What comes in.".into(),
            prompt: "Test first.".into(),
            sort_order: 1.5,
            config: self.config(),
            created_at: self.now(),
        }
    }

    pub fn agent(&self, workspace: WorkspaceId, name: &str) -> Agent {
        Agent {
            id: AgentId::new(&*self.ids),
            workspace_id: workspace,
            name: name.into(),
            driver: DriverKind::Acp,
            command: vec!["agent".into(), "--acp".into()],
            env: BTreeMap::from([("KEY".into(), "a=b\nc".into())]),
            limited_until: Some(self.now()),
            limit_reason: Some("resets at noon".into()),
            limit_strikes: 3,
            created_at: self.now(),
        }
    }

    pub fn profile(&self, agent: &Agent, name: &str) -> Profile {
        Profile {
            id: ProfileId::new(&*self.ids),
            workspace_id: agent.workspace_id,
            agent_id: agent.id,
            name: name.into(),
            model: Some("opus".into()),
            mode: Some("plan".into()),
            permission_policy: PermissionPolicy::Listed,
            allowed_tools: vec!["edit".into(), "execute".into()],
            env: BTreeMap::from([("A".into(), "1".into())]),
            max_parallel: Some(2),
            auto_commit: true,
            created_at: self.now(),
        }
    }

    pub fn task(&self, list: &List, short: ShortId) -> Task {
        Task {
            id: TaskId::new(&*self.ids),
            workspace_id: list.workspace_id,
            list_id: list.id,
            short_id: short,
            title: "Fix the ÜBER-login".into(),
            description: "100% of it, under_score".into(),
            kind: Kind::Task,
            slug: None,
            priority: Priority::High,
            parent_id: None,
            status: Status::Queued,
            sort_order: 1000.25,
            due_at: Some(self.now()),
            manual: true,
            my_day: false,
            config: self.config(),
            not_before: Some(self.now()),
            last_outcome: Some(Outcome::NoChanges),
            failure: Some("it broke".into()),
            interruptions: 2,
            next_prompt: Some("Once more.".into()),
            created_by: "operator".into(),
            archived_at: None,
            created_at: self.now(),
            updated_at: self.now(),
        }
    }

    pub fn worktree(&self, task: &Task, repository: RepositoryId) -> Worktree {
        Worktree {
            id: WorktreeId::new(&*self.ids),
            workspace_id: task.workspace_id,
            task_id: task.id,
            repository_id: repository,
            path: "/data/worktrees/ty-1".into(),
            branch: "taskyard/ty-1".into(),
            base_branch: Some("main".into()),
            base_commit: "a".repeat(40),
            state: worktree::State::Active,
            is_ready: true,
            has_folder: true,
            tip: Some("b".repeat(40)),
            kept_ref: Some("refs/taskyard/tasks/x/1".into()),
            copied_files: vec![CopiedFile { path: ".env".into(), hash: "c".repeat(64) }],
            created_at: self.now(),
            updated_at: self.now(),
        }
    }

    pub fn session(&self, task: &Task, profile: &Profile, worktree: Option<WorktreeId>) -> Session {
        Session {
            id: SessionId::new(&*self.ids),
            workspace_id: task.workspace_id,
            task_id: task.id,
            agent_id: profile.agent_id,
            profile_id: profile.id,
            worktree_id: worktree,
            is_primary: true,
            state: session::State::Running,
            agent_session_id: Some("sess-1".into()),
            created_at: self.now(),
            updated_at: self.now(),
        }
    }

    pub fn run(&self, task: &Task, session: Option<&Session>) -> Run {
        Run {
            id: RunId::new(&*self.ids),
            workspace_id: task.workspace_id,
            task_id: task.id,
            session_id: session.map(|session| session.id),
            kind: run::Kind::Managed,
            state: run::State::Running,
            outcome: Some(Outcome::Succeeded),
            cause: Some("done".into()),
            actor: Some("operator".into()),
            agent_id: session.map(|session| session.agent_id),
            profile_id: session.map(|session| session.profile_id),
            model: Some("opus".into()),
            prompt: "Do it.".into(),
            slot: Some(Slot::Override),
            wants_slot: true,
            cancel_requested: true,
            waiting_since: Some(self.now()),
            last_activity_at: self.now(),
            stalled: true,
            token_hash: Some(format!("{:064}", self.ids.next().as_u128() % 1_000_000_007)),
            pid: Some(4711),
            pid_started: Some(123_456_789),
            node: Some("node-1".into()),
            usage: Usage { turns: 7, input_tokens: 1 << 40, output_tokens: 12, cost_usd: Some(0.1234) },
            exit_code: Some(-9),
            notes: Some("fine".into()),
            prior_status: Status::Ready,
            start_commit: Some("d".repeat(40)),
            started_at: self.now(),
            ended_at: Some(self.now()),
        }
    }

    pub fn merge(&self, task: &Task, worktree: WorktreeId) -> MergeRecord {
        MergeRecord {
            id: MergeId::new(&*self.ids),
            unit_id: Some(self.ids.next()),
            workspace_id: task.workspace_id,
            task_id: task.id,
            worktree_id: worktree,
            kind: merge::Kind::Merge,
            reverts: None,
            state: merge::State::Landed,
            strategy: Strategy::Rebase,
            target: "main".into(),
            target_before: "1".repeat(40),
            target_after: Some("2".repeat(40)),
            tip: "3".repeat(40),
            merge_base: Some("4".repeat(40)),
            message: Some("Merge it".into()),
            merge_worktree_path: Some("/data/merges/1".into()),
            actor: "operator".into(),
            is_approval: true,
            created_at: self.now(),
            landed_at: Some(self.now()),
        }
    }

    pub fn snapshot(&self, worktree: &Worktree) -> Snapshot {
        Snapshot {
            id: SnapshotId::new(&*self.ids),
            workspace_id: worktree.workspace_id,
            repository_id: worktree.repository_id,
            task_id: Some(worktree.task_id),
            worktree_id: Some(worktree.id),
            ref_name: "refs/taskyard/snapshots/1".into(),
            commit: "5".repeat(40),
            reason: "cleanup".into(),
            created_at: self.now(),
            restored_to: Some("/data/restored".into()),
        }
    }

    pub fn question(&self, run: &Run, session: SessionId) -> Question {
        Question {
            id: QuestionId::new(&*self.ids),
            workspace_id: run.workspace_id,
            task_id: run.task_id,
            session_id: session,
            run_id: run.id,
            kind: question::Kind::Permission,
            state: question::State::Open,
            request_id: Some("42".into()),
            title: "May I?".into(),
            body: json!({"tool": "rm", "paths": ["/x"], "n": 1.5}),
            answer: Some(json!({"option": "allow_once"})),
            answered_by: Some("operator".into()),
            created_at: self.now(),
            closed_at: Some(self.now()),
        }
    }

    pub fn message(&self, session: &Session) -> Message {
        Message {
            id: MessageId::new(&*self.ids),
            workspace_id: session.workspace_id,
            session_id: session.id,
            task_id: session.task_id,
            sender: "operator".into(),
            text: "Also the docs.".into(),
            state: message::State::Queued,
            created_at: self.now(),
            delivered_at: Some(self.now()),
            reason: Some("none".into()),
        }
    }
}

/// A workspace with one of everything.
#[derive(Clone)]
pub struct World {
    pub workspace: Workspace,
    pub repository: Repository,
    pub list: List,
    pub agent: Agent,
    pub profile: Profile,
    pub task: Task,
    pub worktree: Worktree,
    pub session: Session,
    pub run: Run,
}

impl World {
    /// Entities that fit together, nothing stored.
    pub fn made(from: &Sources, slug: &str, prefix: &str) -> Self {
        let workspace = from.workspace(slug, prefix);
        let repository = from.repository(workspace.id, "/src/app");
        let list = from.list(workspace.id);
        let agent = from.agent(workspace.id, "claude");
        let profile = from.profile(&agent, "default");
        let task = from.task(&list, ShortId::new(prefix, 1));
        let worktree = from.worktree(&task, repository.id);
        let session = from.session(&task, &profile, Some(worktree.id));
        let run = from.run(&task, Some(&session));
        Self { workspace, repository, list, agent, profile, task, worktree, session, run }
    }

    /// The same, stored.
    pub async fn stored(harness: &Harness, slug: &str, prefix: &str) -> Self {
        let world = Self::made(&harness.sources, slug, prefix);
        let copy = world.clone();
        harness.store.write(move |tx| Box::pin(async move { copy.store(tx).await })).await.unwrap();
        world
    }

    async fn store(&self, tx: &mut taskyard_store::Tx) -> taskyard_domain::Result<()> {
        tx.workspace_insert(&self.workspace).await?;
        tx.repository_insert(&self.repository).await?;
        tx.list_insert(&self.list).await?;
        tx.agent_insert(&self.agent).await?;
        tx.profile_insert(&self.profile).await?;
        let number = tx.workspace_next_number(self.workspace.id).await?;
        assert_eq!(number, self.task.short_id.number());
        tx.task_insert(&self.task).await?;
        tx.worktree_insert(&self.worktree).await?;
        tx.session_insert(&self.session).await?;
        tx.run_insert(&self.run).await
    }
}
