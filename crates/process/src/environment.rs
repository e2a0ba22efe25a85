//! What children inherit: a snapshot of the parent's variables without those that would redirect git,
//! open an editor or leak another vendor's agent settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Variables of git's that stay: where its configuration is, who the user is, how to reach remotes.
const GIT_KEPT: &[&str] = &[
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_EXEC_PATH",
];

/// Prefixes of variables that belong to one vendor's agent or to Taskyard itself.
const AGENT_PREFIXES: &[&str] = &[
    "CLAUDE",
    "ANTHROPIC",
    "OPENAI",
    "CODEX",
    "GEMINI",
    "GOOGLE_",
    "QWEN",
    "COPILOT",
    "CLINE",
    "OPENCODE",
    "CURSOR",
    "XAI",
    "MISTRAL",
    "OPENROUTER",
    "AMP_",
    "GROQ",
    "DEEPSEEK",
    "MCP_",
    "TASKYARD",
];

/// A scrubbed set of variables to start children with.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// From a process's own variables (the binary passes `std::env::vars_os()`): everything but git's
    /// redirections, editors and pagers. What an agent's profile needs of its vendor's is added later.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let vars = vars.into_iter().filter(|(name, _)| kept(name)).collect();
        Self { vars }
    }

    /// The same without any agent vendor's variables and without Taskyard's own.
    #[must_use]
    pub fn without_agents(&self) -> Self {
        let foreign = |name: &OsStr| {
            let name = name.to_string_lossy();
            AGENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        Self { vars: self.vars.iter().filter(|(name, _)| !foreign(name)).map(|(n, v)| (n.clone(), v.clone())).collect() }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.vars.insert(name.into(), value.into());
    }

    /// The same with a variable set.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set(name, value);
        self
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Where its `PATH` has an executable file called `program`. A process whose path is known is started without a
    /// copy of ours being made first.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        // An empty or relative entry would depend on where the server happens to run.
        std::env::split_paths(self.get("PATH")?)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(program))
            .find(|path| is_program(path))
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.vars.iter()
    }
}

/// Whether `path` is a file that somebody may execute.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn kept(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    if name.starts_with("GIT_") {
        return GIT_KEPT.contains(&name.as_ref());
    }
    !matches!(name.as_ref(), "EDITOR" | "VISUAL" | "PAGER" | "SSH_ASKPASS" | "LC_ALL" | "LANGUAGE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Environment {
        Environment::from_vars(names.iter().map(|n| (OsString::from(n), OsString::from("x"))))
    }

    #[test]
    fn redirections_editors_and_pagers_are_dropped() {
        let env = of(&["PATH", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "EDITOR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"]);
        let names: Vec<_> = env.iter().map(|(n, _)| n.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["GIT_CONFIG_GLOBAL", "PATH"]);
    }

    #[test]
    fn vendors_do_not_leak_into_each_other() {
        let vendors = [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "TASKYARD_TOKEN",
            "CLAUDECODE",
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "CURSOR_API_KEY",
            "XAI_API_KEY",
            "MISTRAL_API_KEY",
            "OPENROUTER_API_KEY",
            "AMP_API_KEY",
            "GROQ_API_KEY",
            "DEEPSEEK_API_KEY",
        ];
        let env = of(&[&vendors[..], &["PATH", "AMPLITUDE"]].concat()).without_agents();
        let names: Vec<_> = env.iter().map(|(n, _)| n.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["AMPLITUDE", "PATH"]);
    }
}
