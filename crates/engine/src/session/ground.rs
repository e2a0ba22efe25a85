//! The ground a run stands on: its worktree, made or found, prepared and proven isolated.
//!
//! Intent first: the worktree's row is written before git makes anything, and marked ready after the setup
//! script has passed. Whatever a crash leaves in between is completed by the next run or taken away.

use super::recording::Recorder;
use crate::resolve::Levels;
use crate::{Caller, Engine, change, fold};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RunId, WorktreeId};
use taskyard_domain::repository::Repository;
use taskyard_domain::run::Run;
use taskyard_domain::session::Session;
use taskyard_domain::settings::Settings;
use taskyard_domain::task::Task;
use taskyard_domain::worktree::{CopiedFile, State, Worktree};
use taskyard_domain::{Error, Result};
use taskyard_git::contents::Contents;
use taskyard_git::script::Script;
use taskyard_git::worktree::{Plan, Ready, Wanted};
use taskyard_git::{Error as Git, Oid, Repo, furnished};
use taskyard_store::Tx;

/// How much of a script's output the log keeps, bytes.
const SCRIPT_LOG_LIMIT: u64 = 1 << 20;
/// How many places are tried for one worktree.
const PLANS: usize = 5;

/// A worktree that is there, isolated, and ready for an agent.
pub(super) struct Ground {
    pub worktree: Worktree,
    pub repository: Repository,
    /// The user's checkout or bare repository.
    pub project: Repo,
    /// The worktree as git sees it.
    pub tree: Repo,
    /// Its commit when the run started.
    pub start_commit: Oid,
}

/// What a task's worktree is made from and where it goes.
pub(crate) struct Site<'a> {
    pub levels: &'a Levels,
    pub repository: &'a Repository,
    /// The user's checkout or bare repository.
    pub project: &'a Repo,
    /// The folder that the worktree goes below.
    pub root: PathBuf,
}

/// A task's worktree with its folder.
pub(crate) struct Stood {
    pub worktree: Worktree,
    /// The worktree as git sees it.
    pub tree: Repo,
    /// What it holds, where it was made just now.
    pub contents: Option<Contents>,
}

/// A fresh worktree and what it is furnished from.
struct Fresh<'a> {
    repository: &'a Repository,
    project: &'a Repo,
    tree: &'a Repo,
    contents: &'a Contents,
}

impl Site<'_> {
    fn wanted<'a>(&'a self, name: &'a str) -> Wanted<'a> {
        Wanted { root: &self.root, prefix: &self.repository.branch_prefix, name }
    }
}

/// Has git make what `worktree` says, or find it made.
async fn make(project: &Repo, worktree: &Worktree) -> Result<Result<Ready, Git>> {
    let plan = Plan { path: PathBuf::from(&worktree.path), branch: worktree.branch.clone() };
    if worktree.is_ready {
        let tip = worktree.tip.as_deref().and_then(Oid::parse);
        return Ok(taskyard_git::worktree::attach(project, &plan, tip.as_ref()).await);
    }
    let base = Oid::parse(&worktree.base_commit).ok_or_else(|| Error::internal("a worktree's base is no commit id"))?;
    Ok(taskyard_git::worktree::create(project, &plan, &base).await)
}

impl Ground {
    /// The worktree's folder.
    pub(super) fn path(&self) -> PathBuf {
        self.tree.root().to_owned()
    }

    /// Folders outside the worktree that a commit in it writes to.
    pub(super) fn writable_dirs(&self) -> Vec<PathBuf> {
        vec![self.tree.common_dir().to_owned(), self.tree.git_dir().to_owned()]
    }
}

impl Engine {
    /// Makes or finds the task's worktree, prepares it, proves that it is isolated.
    pub(super) async fn prepare_ground(
        &self,
        run: &Run,
        session: &Session,
        levels: &Levels,
        settings: &Settings,
        recorder: &mut Recorder,
    ) -> Result<Ground> {
        let repository = self.repository_of(levels).await?;
        let local = repository.local_path.clone().ok_or_else(|| {
            Error::precondition(format!("the repository {} has no local path yet", repository.name)).with_field("repository_id")
        })?;
        // Marked like the agent: after a crash its processes are found and ended with the run.
        let (name, value) = super::launch::mark(session.id);
        let project = Repo::open(&self.git().marked(name, &value), Path::new(&local)).await.map_err(fold::git)?;
        project.check_not_switched_bare().map_err(fold::git)?;
        let site = Site { levels, repository: &repository, project: &project, root: self.worktree_root(settings, &repository) };
        let Stood { mut worktree, tree, contents } = self.stand(&site).await?;
        if worktree.is_ready {
            taskyard_git::commit::clear_stale_lock(&tree).await.map_err(fold::git)?;
        }
        // A folder that was put back has none of the copied files, and nothing of what the setup script makes.
        if !worktree.is_ready || !furnished::is_furnished(&tree) {
            let contents = match contents {
                Some(contents) => contents,
                None => Contents::of_index(&tree).await.map_err(fold::git)?,
            };
            let fresh = Fresh { repository: &repository, project: &project, tree: &tree, contents: &contents };
            self.furnish(&fresh, &mut worktree, (run, session), settings, recorder).await?;
        }
        taskyard_git::isolation::verify(&project, tree.root(), Some(&worktree.branch)).await.map_err(fold::git)?;
        furnished::mark_furnished(&tree).map_err(fold::git)?;
        let head = tree.head().await.map_err(fold::git)?.oid().cloned();
        let start_commit = run.start_commit.as_deref().and_then(Oid::parse).or(head);
        let start_commit = start_commit.ok_or_else(|| Error::precondition("the worktree has no commit to start from"))?;
        worktree.is_ready = true;
        Ok(Ground { worktree, repository, project, tree, start_commit })
    }

    async fn repository_of(&self, levels: &Levels) -> Result<Repository> {
        let levels = levels.clone();
        self.store().read(move |read| Box::pin(async move { levels.repository(read).await })).await
    }

    /// Below which folder a repository's worktrees are made.
    fn worktree_root(&self, settings: &Settings, repository: &Repository) -> PathBuf {
        let root = if settings.worktree_root.is_empty() { self.paths().worktrees() } else { PathBuf::from(&settings.worktree_root) };
        root.join(&repository.name)
    }

    /// The task's worktree with its folder, made or found. A cleanup of it that is under way ends first.
    pub(crate) async fn stand(&self, site: &Site<'_>) -> Result<Stood> {
        let task = site.levels.task.id;
        let _turn = self.ground_turn(task).await;
        let current = self.store().read(move |read| Box::pin(async move { read.worktree_current(task).await })).await?;
        let usable = current.filter(|w| w.repository_id == site.repository.id && matches!(w.state, State::Active | State::Kept));
        let mut worktree = match usable {
            Some(worktree) => worktree,
            None => self.plan_worktree(site).await?,
        };
        let fresh = Oid::parse(&worktree.base_commit).filter(|_| !worktree.is_ready);
        // Beside the checkout, which takes longer.
        let listing = async {
            match &fresh {
                Some(base) => Contents::of_commit(site.project, base).await.map(Some),
                None => Ok(None),
            }
        };
        let (tree, contents) = tokio::join!(self.materialise(site, &mut worktree), listing);
        let (tree, contents) = (tree?, contents.map_err(fold::git)?);
        // One that was found half furnished may hold something else by now.
        let is_base = tree.resolve("HEAD").await.map_err(fold::git)? == fresh;
        Ok(Stood { worktree, tree, contents: contents.filter(|_| is_base) })
    }

    /// Chooses base, folder and branch, and writes the intent.
    async fn plan_worktree(&self, site: &Site<'_>) -> Result<Worktree> {
        let task = &site.levels.task;
        let base = self.choose_base(site).await?;
        let plan = taskyard_git::worktree::plan(site.project, &site.wanted(&task.branch_leaf())).await.map_err(fold::git)?;
        let now = self.now();
        let worktree = Worktree {
            id: WorktreeId::new(self.ids()),
            workspace_id: task.workspace_id,
            task_id: task.id,
            repository_id: site.repository.id,
            path: plan.path.to_string_lossy().into_owned(),
            branch: plan.branch,
            base_branch: base.branch,
            base_commit: base.oid.to_string(),
            state: State::Active,
            is_ready: false,
            has_folder: false,
            tip: None,
            kept_ref: None,
            copied_files: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        let row = worktree.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.worktree_insert(&row).await?;
                    let metadata = json!({ "path": row.path, "branch": row.branch, "base": row.base_commit });
                    note(tx, &row, None, Action::WorktreePlanned, metadata).await
                })
            })
            .await?;
        Ok(worktree)
    }

    /// Has git make the worktree, or put a lost folder back from its branch or kept tip. What somebody else has put in
    /// its place meanwhile stays, and the worktree goes to another.
    async fn materialise(&self, site: &Site<'_>, worktree: &mut Worktree) -> Result<Repo> {
        let mut tries = 0;
        let ready = loop {
            tries += 1;
            match make(site.project, worktree).await? {
                Ok(ready) => break ready,
                Err(Git::PathTaken { .. } | Git::BranchTaken { .. }) if tries < PLANS => self.replan(site, worktree).await?,
                Err(error) => return Err(fold::git(error)),
            }
        };
        worktree.path = ready.path.to_string_lossy().into_owned();
        worktree.has_folder = true;
        Repo::open(site.project.git(), &ready.path).await.map_err(fold::git)
    }

    /// Moves the intent to a free folder: with its branch while that is its own, else with a new one.
    async fn replan(&self, site: &Site<'_>, worktree: &mut Worktree) -> Result<()> {
        let leaf = site.levels.task.branch_leaf();
        let tip = site.project.tip(&format!("refs/heads/{}", worktree.branch)).await.map_err(fold::git)?;
        let is_own = worktree.is_ready || tip.is_none_or(|tip| tip.as_str() == worktree.base_commit);
        let path = if is_own {
            taskyard_git::worktree::free_path(site.project, &site.root, &leaf).await.map_err(fold::git)?
        } else {
            let plan = taskyard_git::worktree::plan(site.project, &site.wanted(&leaf)).await.map_err(fold::git)?;
            worktree.branch = plan.branch;
            plan.path
        };
        tracing::info!(from = %worktree.path, to = %path.display(), "something else is where a worktree was to be");
        let from = std::mem::replace(&mut worktree.path, path.to_string_lossy().into_owned());
        worktree.updated_at = self.now();
        let row = worktree.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    tx.worktree_update(&row).await?;
                    let metadata = json!({ "from": from, "path": row.path, "branch": row.branch, "reason": "something else was there" });
                    note(tx, &row, None, Action::WorktreeMoved, metadata).await
                })
            })
            .await
    }

    /// Copies files in and runs the setup script.
    async fn furnish(
        &self,
        fresh: &Fresh<'_>,
        worktree: &mut Worktree,
        whose: (&Run, &Session),
        settings: &Settings,
        recorder: &mut Recorder,
    ) -> Result<()> {
        let Fresh { repository, project, tree, contents } = *fresh;
        let report = taskyard_git::copy::copy_files(project, tree, &repository.copy_files).await.map_err(fold::git)?;
        for pattern in &report.missing {
            recorder.notice("warning", format!("copy_files: nothing matches {pattern}")).await?;
        }
        for skipped in &report.skipped {
            recorder.notice("info", format!("copy_files: {} was not copied: {}", skipped.path, skipped.reason)).await?;
        }
        worktree.copied_files = report.copied.iter().map(|f| CopiedFile { path: f.path.to_string(), hash: f.sha256.clone() }).collect();
        for path in &report.not_ignored {
            recorder
                .notice("warning", format!("copy_files: git doesn't ignore {path}; an agent that adds everything would commit it"))
                .await?;
        }
        let modules = taskyard_git::submodule::fill_listed(project, tree, contents).await.map_err(fold::git)?;
        if let Some(note) = modules.note() {
            recorder.notice("warning", note).await?;
        }
        for note in taskyard_git::facts::facts_of(tree, contents).await.map_err(fold::git)?.notes {
            recorder.notice("info", note).await?;
        }
        if let Some(script) = repository.setup_script.as_deref().filter(|s| !s.trim().is_empty()) {
            self.run_script("setup", script, tree.root(), whose, settings, recorder).await?;
        }
        Ok(())
    }

    /// Runs a script of the repository's in the worktree, its output in the task's log.
    async fn run_script(
        &self,
        name: &'static str,
        text: &str,
        folder: &Path,
        (run, session): (&Run, &Session),
        settings: &Settings,
        recorder: &mut Recorder,
    ) -> Result<()> {
        recorder.notice("info", format!("{name} script started")).await?;
        recorder.flush(false).await?;
        let (mark, value) = super::launch::mark(session.id);
        let env = self.environment().without_agents().with(mark, value);
        let script = Script {
            name,
            text,
            folder,
            env: env.with("TASKYARD_TASK_ID", run.task_id.to_string()).with("TASKYARD_WORKTREE", folder),
            log: &self.paths().run_log(run.id),
            log_limit: SCRIPT_LOG_LIMIT,
            time_limit: Duration::from_secs(u64::try_from(settings.script_limit).unwrap_or(600)),
            marker: Some(super::launch::marker(session.id)),
        };
        taskyard_git::script::run_script(&script).await.map_err(fold::git)
    }

    /// Marks the worktree as ready, binds it to the session, and records on the run where it starts from, with the hash of
    /// the token of the agent that will be started there.
    ///
    /// # Errors
    /// `CONFLICT` when the run has ended.
    pub(super) async fn take_ground(&self, run: RunId, ground: &Ground, token_hash: Option<String>) -> Result<()> {
        let (mut row, start) = (ground.worktree.clone(), ground.start_commit.to_string());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut run = super::asking::open_run(tx, run).await?;
                    let now = tx.now();
                    if let Some(id) = run.session_id
                        && let Some(mut session) = tx.session_lock(id).await?
                    {
                        session.worktree_id = Some(row.id);
                        session.updated_at = now;
                        tx.session_update(&session).await?;
                    }
                    run.start_commit = Some(start);
                    run.token_hash = token_hash;
                    super::slot::store(tx, &run).await?;
                    row.updated_at = now;
                    tx.worktree_update(&row).await?;
                    let metadata = json!({ "path": row.path, "branch": row.branch, "base": row.base_commit, "run_id": run.id });
                    note(tx, &row, Some(run.id), Action::WorktreePrepared, metadata).await
                })
            })
            .await
    }

    /// At a run's end: commits what was left, remembers the tip, and says whether anything changed in the run.
    pub(super) async fn take_stock(&self, run: RunId, commit: bool, task: &Task, ground: &Ground, recorder: &mut Recorder) -> Result<bool> {
        // Looked at anew: what was opened before the turn knows only what was so then.
        if let Ok(project) = Repo::open(self.git(), ground.project.root()).await {
            project.check_not_switched_bare().map_err(fold::git)?;
        }
        let copied = crate::facts::copied(&ground.worktree);
        if commit {
            let message =
                format!("{}: {}\n\nCommitted by Taskyard: the agent had left these changes uncommitted.", task.short_id, task.title);
            let author = self.author(&ground.repository, &ground.project).await?;
            let what =
                taskyard_git::commit::AutoCommit { message: &message, author: &author, copied: &copied, scratch: &self.paths().scratch() };
            let done = taskyard_git::commit::auto_commit(&ground.project, &ground.tree, &what).await.map_err(fold::git)?;
            if done.commit.is_some() {
                let files = if done.files.len() == 1 { "1 file".into() } else { format!("{} files", done.files.len()) };
                recorder.notice("info", format!("committed {files} that the agent had left uncommitted")).await?;
            }
            for (path, why) in &done.left_out {
                recorder.notice("warning", format!("{path} was left out of the commit: {}", why.as_sentence())).await?;
            }
            if let Some(warning) = done.warning {
                recorder.notice("warning", warning).await?;
            }
        }
        let status = taskyard_git::status::status(&ground.tree, None, &copied).await.map_err(fold::git)?;
        let tip = status.head.oid().cloned();
        self.note_tip(run, ground, tip.as_ref()).await?;
        Ok(tip.as_ref() != Some(&ground.start_commit) || !status.changes.is_empty())
    }

    /// Remembers the tip that a run left behind.
    async fn note_tip(&self, run: RunId, ground: &Ground, tip: Option<&Oid>) -> Result<()> {
        let (id, tip) = (ground.worktree.id, tip.map(ToString::to_string));
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut row = tx.worktree_lock(id).await?.ok_or_else(|| Error::not_found("worktree", id))?;
                    if row.tip == tip {
                        return Ok(());
                    }
                    let before = std::mem::replace(&mut row.tip, tip).unwrap_or_else(|| row.base_commit.clone());
                    row.updated_at = tx.now();
                    if row.tip.as_ref() == Some(&before) {
                        // Known for the first time, and nothing was committed.
                        tx.bookkeeping();
                        return tx.worktree_update(&row).await;
                    }
                    tx.worktree_update(&row).await?;
                    let metadata = json!({ "branch": row.branch, "tip": row.tip, "before": before, "run_id": run });
                    note(tx, &row, Some(run), Action::WorktreeAdvanced, metadata).await
                })
            })
            .await
    }
}

/// The event and the audit entry of a worktree's change.
pub(crate) async fn note(tx: &mut Tx, row: &Worktree, run: Option<RunId>, action: Action, metadata: Value) -> Result<()> {
    let data = json!({ "worktree_id": row.id, "state": row.state, "branch": row.branch, "has_folder": row.has_folder });
    let event = NewEvent::new(row.workspace_id, Kind::WorktreeChanged).task(row.task_id).data(data);
    tx.event(match run {
        Some(run) => event.run(run),
        None => event,
    });
    change::audit(tx, &Caller::system(), row.workspace_id, action, About::from(row), metadata).await
}
