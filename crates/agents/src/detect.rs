//! Which of the known agents are installed on this machine, and in which version.
//!
//! Looks for programs by name on a given `PATH` and asks each for its version; starts no conversation and
//! changes nothing. What is unknown can still be configured by hand.

use futures::StreamExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_domain::agent::DriverKind;
use taskyard_process::{Command, Environment, run};

/// How long a program may take to tell its version.
const LIMIT: Duration = Duration::from_secs(5);
/// How many are asked at once; most are large and slow to start.
const AT_ONCE: usize = 4;
const OUTPUT: usize = 16 << 10;

/// A known agent: its name, the driver that speaks to it, the command that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name, which is also its program's.
    pub name: &'static str,
    /// The protocol to speak with it.
    pub driver: DriverKind,
    /// Arguments that make it speak the protocol; the driver adds its own.
    pub args: &'static [&'static str],
}

/// All known agents, in the order they are offered.
pub const KNOWN: &[Known] = &[
    Known { name: "claude", driver: DriverKind::Claude, args: &[] },
    Known { name: "codex", driver: DriverKind::Codex, args: &[] },
    Known { name: "opencode", driver: DriverKind::Acp, args: &["acp"] },
    Known { name: "gemini", driver: DriverKind::Acp, args: &["--acp"] },
    Known { name: "qwen", driver: DriverKind::Acp, args: &["--acp"] },
    Known { name: "copilot", driver: DriverKind::Acp, args: &["--acp"] },
    Known { name: "cline", driver: DriverKind::Acp, args: &["--acp"] },
    Known { name: "pi-acp", driver: DriverKind::Acp, args: &[] },
    Known { name: "claude-agent-acp", driver: DriverKind::Acp, args: &[] },
    Known { name: "codex-acp", driver: DriverKind::Acp, args: &[] },
    Known { name: "auggie", driver: DriverKind::Acp, args: &["--acp"] },
    Known { name: "goose", driver: DriverKind::Acp, args: &["acp"] },
];

/// What was found of one known agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: &'static str,
    /// The protocol to speak with it.
    pub driver: DriverKind,
    /// The command to configure: its program by name, so that an update is followed, and arguments.
    pub command: Vec<String>,
    /// Where its program is; `None` when it isn't installed.
    pub path: Option<PathBuf>,
    /// Its version, when it told one in time.
    pub version: Option<String>,
}

impl Found {
    /// Whether its program is there.
    pub fn installed(&self) -> bool {
        self.path.is_some()
    }
}

/// Looks for all known agents on the `PATH` of `env`; one entry for each, in the order of [`KNOWN`].
pub async fn detect(env: &Environment) -> Vec<Found> {
    // Futures first: with a closure inside the stream the compiler can't prove the whole `Send`.
    let looks: Vec<_> = KNOWN.iter().map(|known| look_for(known, env)).collect();
    futures::stream::iter(looks).buffered(AT_ONCE).collect().await
}

async fn look_for(known: &'static Known, env: &Environment) -> Found {
    let path = env.find(known.name);
    let version = match &path {
        Some(path) => version(path, env).await,
        None => None,
    };
    let command = std::iter::once(known.name).chain(known.args.iter().copied()).map(str::to_owned).collect();
    Found { name: known.name, driver: known.driver, command, path, version }
}

async fn version(program: &Path, env: &Environment) -> Option<String> {
    let command = Command::new(program, "/", env.without_agents()).arg("--version").time_limit(LIMIT).output_cap(OUTPUT);
    let output = run(command).await.ok()?;
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.ok() { said.iter().find_map(|text| version_in(text)) } else { None }
}

/// The first word of `text` that looks like a version: `2.1.332 (Claude Code)`, `codex-cli 0.171.0`, `v1.2`.
fn version_in(text: &str) -> Option<String> {
    let word = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let version = word.strip_prefix('v').unwrap_or(word);
        let numbers: Vec<&str> = version.split(['-', '+']).next()?.split('.').collect();
        let fits = (2..=4).contains(&numbers.len()) && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        fits.then(|| version.to_owned())
    };
    text.lines().take(20).flat_map(str::split_whitespace).find_map(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn install(folder: &Path, name: &str, script: &str, mode: u32) {
        let path = folder.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn installed_agents_are_found_with_their_versions_in_a_stable_order() {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path(), "codex", "#!/bin/sh\n[ \"$1\" = --version ] && echo 'codex-cli 0.171.0'\n", 0o755);
        install(folder.path(), "claude", "#!/bin/sh\necho '2.1.332 (Claude Code)'\n", 0o755);
        install(folder.path(), "goose", "#!/bin/sh\nexit 3\n", 0o755);
        install(folder.path(), "qwen", "#!/bin/sh\necho 1.2.3\n", 0o644);
        let env = Environment::default().with("PATH", folder.path());
        let found = detect(&env).await;
        assert_eq!(found.iter().map(|found| found.name).collect::<Vec<_>>(), KNOWN.iter().map(|known| known.name).collect::<Vec<_>>());
        let of = |name: &str| found.iter().find(|found| found.name == name).unwrap();
        assert_eq!((of("claude").version.as_deref(), of("claude").driver), (Some("2.1.332"), DriverKind::Claude));
        assert_eq!((of("codex").version.as_deref(), of("codex").path.clone()), (Some("0.171.0"), Some(folder.path().join("codex"))));
        assert_eq!((of("goose").installed(), of("goose").version.as_deref()), (true, None));
        assert_eq!((of("qwen").installed(), of("opencode").installed()), (false, false));
        assert_eq!(of("opencode").command, ["opencode", "acp"]);
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, version) in [
            ("2.1.332 (Claude Code)", Some("2.1.332")),
            ("GitHub Copilot CLI 1.0.102.\nRun it", Some("1.0.102")),
            ("v0.61.0-nightly.1", Some("0.61.0-nightly.1")),
            ("listening on 127.0.0.1:80", None),
            ("no version", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
