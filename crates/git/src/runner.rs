//! The one way this crate runs git: pinned environment, bounded time and output, typed errors.
//!
//! Owns the process-wide table of per-repository locks. Never reads the terminal or the environment, never
//! lets git ask for anything. Calls that may run the user's hooks get no `-c` options and no variables that
//! would change what git does inside the hook; all other calls are pinned as tightly as git allows.

use crate::error::{Error, Result};
use crate::oid::Oid;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use taskyard_domain::repository::{HookPolicy, SignPolicy};
use taskyard_process::{Command, Environment, Input, Output};

/// Configuration for calls that run no hooks of the user's.
const PINS: &[&str] = &[
    "core.quotepath=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "worktree.guessRemote=false",
    "branch.autoSetupMerge=false",
    "color.ui=false",
    "advice.detachedHead=false",
];

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// One plain call.
    pub call: Duration,
    /// A call that may run the user's hooks.
    pub hooks: Duration,
    /// One signature.
    pub signing: Duration,
    /// How long to wait, in all, for a lock that another git process holds.
    pub lock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(120),
            hooks: Duration::from_secs(600),
            signing: Duration::from_secs(30),
            lock: Duration::from_secs(15),
        }
    }
}

/// Whether hooks run on, and signatures are put on, the commits made for a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Hooks.
    pub hooks: HookPolicy,
    /// Signatures.
    pub sign: SignPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self { hooks: HookPolicy::Run, sign: SignPolicy::Inherit }
    }
}

impl Policy {
    /// The flag for `commit`, `merge`, `revert` and `rebase` that follows from the signing policy.
    pub fn sign_flag(self) -> Option<&'static str> {
        (self.sign == SignPolicy::Never).then_some("--no-gpg-sign")
    }
}

/// Who a commit is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// Mail address.
    pub email: String,
}

type LockTable = Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>;

/// Held while shared state of a repository (refs, worktree registrations, configuration) is being changed.
pub type RepoLock = tokio::sync::OwnedMutexGuard<()>;

/// The git command with everything pinned. Cheap to clone; clones share the table of locks.
#[derive(Debug, Clone)]
pub struct Git {
    env: Arc<Environment>,
    limits: Limits,
    locks: Arc<LockTable>,
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Git {
    /// Runs git with the variables of `env`, vendors' and Taskyard's own left out.
    pub fn new(env: Environment) -> Self {
        Self { env: Arc::new(env.without_agents()), limits: Limits::default(), locks: Arc::default(), calls: Arc::default() }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with a variable that marks every process it starts. Clones share the table of locks.
    #[must_use]
    pub fn marked(&self, name: &str, value: &str) -> Self {
        Self { env: Arc::new((*self.env).clone().with(name, value)), ..self.clone() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The variables children start from, before git's pins.
    pub fn environment(&self) -> &Environment {
        &self.env
    }

    /// How many processes of git were started so far for each stage, by this value and its clones.
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A call of git in the folder `cwd`; `stage` says in a few words what it is for ("list branches").
    pub fn call(&self, stage: &'static str, cwd: impl Into<PathBuf>) -> Call {
        Call {
            git: self.clone(),
            stage,
            cwd: cwd.into(),
            args: Vec::new(),
            env: Vec::new(),
            input: Input::Null,
            hooks: false,
            literal: true,
            retry: true,
            limit: None,
            cap: taskyard_process::run::DEFAULT_OUTPUT_CAP,
        }
    }

    /// Waits for the lock of the repository whose common git folder is `common_dir`. Not re-entrant: functions
    /// of this crate that take it say so.
    pub async fn lock(&self, common_dir: &Path) -> RepoLock {
        self.lock_of(common_dir).lock_owned().await
    }

    /// The same lock when it is free now.
    pub fn try_lock(&self, common_dir: &Path) -> Option<RepoLock> {
        self.lock_of(common_dir).try_lock_owned().ok()
    }

    fn lock_of(&self, common_dir: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let key = common_dir.canonicalize().unwrap_or_else(|_| common_dir.to_owned());
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds or waits for.
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(key).or_default().clone()
    }
}

/// One call of git, being put together.
#[derive(Debug, Clone)]
pub struct Call {
    git: Git,
    stage: &'static str,
    cwd: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    input: Input,
    hooks: bool,
    literal: bool,
    retry: bool,
    limit: Option<Duration>,
    cap: usize,
}

impl Call {
    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = I>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable, a private `GIT_INDEX_FILE` for instance.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Author and committer.
    #[must_use]
    pub fn by(self, who: &Identity) -> Self {
        self.env("GIT_AUTHOR_NAME", &who.name)
            .env("GIT_AUTHOR_EMAIL", &who.email)
            .env("GIT_COMMITTER_NAME", &who.name)
            .env("GIT_COMMITTER_EMAIL", &who.email)
    }

    /// What it reads on standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Runs the user's hooks when `policy` is [`HookPolicy::Run`]: no `-c` pins and no literal pathspecs then,
    /// for both would be inherited by git commands inside the hook.
    #[must_use]
    pub fn hooks(mut self, policy: HookPolicy) -> Self {
        self.hooks = policy == HookPolicy::Run;
        self
    }

    /// Lets pathspecs have magic (`:(glob)…`); without this they are plain names.
    #[must_use]
    pub fn pathspec_magic(mut self) -> Self {
        self.literal = false;
        self
    }

    /// Doesn't try again when a lock is held: for calls that can't simply be repeated.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.retry = false;
        self
    }

    /// Another time limit than the usual.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Keeps at most so many bytes of output.
    #[must_use]
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.cap = bytes;
        self
    }

    fn command(&self) -> Command {
        let mut env = (*self.git.env).clone();
        for (name, value) in [
            ("LC_ALL", "C.UTF-8"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "true"),
            ("GIT_SEQUENCE_EDITOR", "true"),
            ("GIT_MERGE_AUTOEDIT", "no"),
            ("GIT_PAGER", "cat"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS_REQUIRE", "force"),
        ] {
            env.set(name, value);
        }
        for (name, value) in &self.env {
            env.set(name, value);
        }
        // Looked up each time: git may be replaced by another version while the server runs.
        let program = env.find("git").map_or_else(|| "git".into(), PathBuf::into_os_string);
        let mut command = Command::new(program, &self.cwd, env).input(self.input.clone()).output_cap(self.cap);
        command = command.time_limit(self.limit.unwrap_or(if self.hooks { self.git.limits.hooks } else { self.git.limits.call }));
        if !self.hooks {
            command = command.args(["--no-pager", "--no-optional-locks"]);
            command = if self.literal { command.arg("--literal-pathspecs") } else { command };
            command = PINS.iter().fold(command, |command, pin| command.arg("-c").arg(*pin));
        }
        command.args(&self.args)
    }

    fn argv(&self) -> String {
        let words = self.args.iter().map(|w| w.to_string_lossy().into_owned());
        std::iter::once("git".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it; any exit code is a result. Tries again while another process holds one of git's locks.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::TimedOut`], [`Error::NoFolder`], [`Error::Process`].
    pub async fn output(self) -> Result<Output> {
        let give_up = tokio::time::Instant::now() + self.git.limits.lock;
        let mut pause = Duration::from_millis(20);
        loop {
            let output = self.once_through().await?;
            let Some(lock) = (!output.ok()).then(|| held_lock(&output.stderr_tail())).flatten() else {
                return Ok(output);
            };
            if !self.retry || tokio::time::Instant::now() >= give_up {
                return Err(Error::Locked { stage: self.stage, lock });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(400));
        }
    }

    async fn once_through(&self) -> Result<Output> {
        let stage = self.stage;
        *self.git.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(stage).or_default() += 1;
        taskyard_process::run(self.command()).await.map_err(|error| match error {
            taskyard_process::Error::TimedOut { limit, stderr, .. } => Error::TimedOut { stage, argv: self.argv(), limit, stderr },
            taskyard_process::Error::NoFolder { cwd, .. } => Error::NoFolder { path: cwd },
            source => Error::Process { stage, source },
        })
    }

    /// Runs it and wants exit code 0 and the whole output.
    ///
    /// # Errors
    /// Those of [`Call::output`], [`Error::Failed`], [`Error::TooLong`], and the classes that git's own words
    /// give away ([`Error::NotARepository`], [`Error::Untrusted`], [`Error::RefInTheWay`]).
    pub async fn run(self) -> Result<Output> {
        self.accept(&[0]).await
    }

    /// Like [`Call::run`], with other exit codes that are fine too.
    ///
    /// # Errors
    /// See [`Call::run`].
    pub async fn accept(self, codes: &[i32]) -> Result<Output> {
        let (stage, argv, cwd, cap) = (self.stage, self.argv(), self.cwd.clone(), self.cap);
        let output = self.output().await?;
        if !output.code.is_some_and(|code| codes.contains(&code)) {
            return Err(failure(stage, argv, cwd, &output));
        }
        if output.truncated {
            return Err(Error::TooLong { stage, argv, cap });
        }
        Ok(output)
    }

    /// Runs it and gives standard output as text without the line end.
    ///
    /// # Errors
    /// See [`Call::run`].
    pub async fn text(self) -> Result<String> {
        let output = self.run().await?;
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// Runs it and reads one object name.
    ///
    /// # Errors
    /// See [`Call::run`]; [`Error::Unreadable`] when it is none.
    pub async fn oid(self) -> Result<Oid> {
        let stage = self.stage;
        let text = self.text().await?;
        Oid::parse(&text).ok_or(Error::Unreadable { stage, what: text })
    }

    /// Runs it and gives the NUL-terminated fields of standard output.
    ///
    /// # Errors
    /// See [`Call::run`].
    pub async fn fields(self) -> Result<Vec<Vec<u8>>> {
        Ok(split_nul(&self.run().await?.stdout))
    }

    /// Runs it as a question: exit code 0 is yes, 1 is no.
    ///
    /// # Errors
    /// See [`Call::run`].
    pub async fn yes(self) -> Result<bool> {
        Ok(self.accept(&[0, 1]).await?.ok())
    }
}

/// The error for a call that ended with a code it shouldn't have.
pub(crate) fn failure(stage: &'static str, argv: String, cwd: PathBuf, output: &Output) -> Error {
    let stderr = output.stderr_tail();
    if stderr.contains("not a git repository") {
        return Error::NotARepository { path: cwd };
    }
    if stderr.contains("detected dubious ownership") {
        return Error::Untrusted { path: cwd, stderr };
    }
    if let Some((wanted, existing)) = ref_in_the_way(&stderr) {
        return Error::RefInTheWay { wanted, existing };
    }
    if let Some((file, filter)) = failed_filter(&stderr) {
        return Error::FilterFailed { filter, file, text: stderr };
    }
    Error::Failed { stage, argv, code: output.code, stderr }
}

/// `fatal: FILE: clean filter 'NAME' failed` (or `smudge filter NAME failed`) gives `(FILE, NAME)`.
fn failed_filter(stderr: &str) -> Option<(String, String)> {
    stderr.lines().find_map(|line| {
        let line = line.strip_suffix(" failed")?;
        let (before, filter) = [": clean filter ", ": smudge filter "].iter().find_map(|words| line.rsplit_once(words))?;
        let file = before.strip_prefix("fatal: ").or_else(|| before.strip_prefix("error: ")).unwrap_or(before);
        Some((file.to_owned(), filter.trim_matches('\'').to_owned()))
    })
}

/// `cannot lock ref 'A': 'B' exists; cannot create 'A'` gives `(A, B)`.
fn ref_in_the_way(stderr: &str) -> Option<(String, String)> {
    let (before, _) = stderr.split_once("' exists; cannot create '")?;
    let (before, existing) = before.rsplit_once('\'')?;
    let wanted = stderr.split_once("exists; cannot create '")?.1.split('\'').next()?;
    before.contains('\'').then(|| (wanted.to_owned(), existing.to_owned()))
}

/// The lock that git found held, as it says.
fn held_lock(stderr: &str) -> Option<String> {
    let line = stderr.lines().find(|line| {
        line.contains(".lock': File exists") || line.contains("could not lock config file") || line.contains("could not lock config")
    })?;
    let quoted = line.split('\'').find(|part| part.ends_with(".lock"));
    Some(quoted.map_or_else(|| line.to_owned(), str::to_owned))
}

/// The fields of NUL-terminated output.
pub fn split_nul(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect() }
}

/// A path made of the bytes git printed.
pub fn path_from(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_filters_are_named() {
        let clean = "error: external filter 'git-lfs filter-process' failed\nfatal: a b: c.so: clean filter 'lfs' failed";
        assert_eq!(failed_filter(clean), Some(("a b: c.so".into(), "lfs".into())));
        let smudge = "fatal: x.so: smudge filter lfs failed\n";
        assert_eq!(failed_filter(smudge), Some(("x.so".into(), "lfs".into())));
        assert_eq!(failed_filter("error: external filter 'x' failed"), None);
    }

    #[test]
    fn held_locks_are_recognised() {
        let config = "error: could not lock config file .git/config: File exists\nfatal: x";
        assert!(held_lock(config).is_some());
        let index = "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process seems to be running";
        assert_eq!(held_lock(index).as_deref(), Some("/r/.git/index.lock"));
        assert_eq!(held_lock("fatal: cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b'"), None);
    }

    #[test]
    fn a_ref_in_the_way_is_named() {
        let said = "fatal: cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b'";
        assert_eq!(ref_in_the_way(said), Some(("refs/heads/a/b".into(), "refs/heads/a".into())));
        assert_eq!(ref_in_the_way("fatal: a branch named 'x' already exists"), None);
    }

    #[test]
    fn fields_end_in_nul() {
        assert_eq!(split_nul(b"a\0b c\0"), [b"a".to_vec(), b"b c".to_vec()]);
        assert_eq!(split_nul(b"a\0\0b\0"), [b"a".to_vec(), Vec::new(), b"b".to_vec()]);
        assert!(split_nul(b"").is_empty());
    }
}
