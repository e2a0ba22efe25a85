//! Finds the running server by the `server.json` it writes into its data folder, and starts one for `taskyard mcp`.

use crate::args::Global;
use crate::config::{DEFAULT_LISTEN, data_dir};
use crate::fail::{Result, machine};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use taskyard_domain::{Error, Timestamp};

/// The file's name.
pub const FILE: &str = "server.json";

/// What a running server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    pub url: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub version: String,
}

impl ServerFile {
    /// Writes the file, readable by its owner only, all or nothing.
    pub fn write(&self, data_dir: &Path) -> Result<()> {
        let (path, draft) = (data_dir.join(FILE), data_dir.join("server.json.new"));
        let failed = |error: std::io::Error| machine(&format!("writing {}", path.display()), error);
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(e.into()))?;
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&draft, &path).map_err(failed)
    }

    /// Takes the file away when the server ends.
    pub fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(data_dir.join(FILE));
    }

    fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read(data_dir.join(FILE)).ok()?;
        let file: Self = serde_json::from_slice(&text).ok()?;
        let alive = i32::try_from(file.pid).is_ok_and(|pid| taskyard_process::tree::start_time(pid).is_some());
        alive.then_some(file)
    }
}

/// The server's URL: `--server` or `TASKYARD_URL`, else the file of a server that lives.
pub fn find(global: &Global) -> Result<String> {
    if let Some(url) = &global.server {
        return checked(url);
    }
    let dir = data_dir(global)?;
    ServerFile::read(&dir).map(|file| file.url).ok_or_else(|| none_runs(&dir))
}

/// `url` as the base of calls.
fn checked(url: &str) -> Result<String> {
    let is_server = |parsed: &reqwest::Url| matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    match reqwest::Url::parse(url) {
        Ok(parsed) if is_server(&parsed) => Ok(url.trim_end_matches('/').to_owned()),
        _ => Err(Error::invalid("server", format!("server: {url:?} is no URL such as http://{DEFAULT_LISTEN}"))
            .with_hint("leave --server and TASKYARD_URL out to find the server by its data folder")),
    }
}

/// The error that says how to start a server.
pub fn none_runs(dir: &Path) -> Error {
    Error::unavailable(format!("no Taskyard server runs for {}", dir.display()))
        .with_hint(format!("start one with `taskyard serve` (it listens on {DEFAULT_LISTEN}), or name one with --server"))
}

/// Starts a detached server for the data folder and waits until it has written its file. Losing the race for the
/// data folder's lock to another starter is fine: then that one is found.
pub async fn start_detached(global: &Global) -> Result<String> {
    let dir = data_dir(global)?;
    std::fs::create_dir_all(&dir).map_err(|e| machine(&format!("making {}", dir.display()), e))?;
    let program = std::env::current_exe().map_err(|e| machine("finding this program", e))?;
    let log = dir.join("server.log");
    let env = taskyard_process::Environment::from_vars(std::env::vars_os());
    // The shell leaves at once, so that the server belongs to nobody's process group but its own.
    let script = "setsid \"$0\" serve --data-dir \"$1\" >>\"$2\" 2>&1 </dev/null &";
    let command = taskyard_process::Command::new("sh", &dir, env).arg("-c").arg(script).arg(program).arg(&dir).arg(&log);
    taskyard_process::run(command).await.map_err(|e| machine("starting a server", e))?;
    wait_for(&dir).await
}

/// The URL of a server that was just started for the data folder, once it is ready.
pub async fn wait_for(dir: &Path) -> Result<String> {
    let ready = async {
        loop {
            if let Some(file) = ServerFile::read(dir) {
                return file.url;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(std::time::Duration::from_secs(20), ready).await {
        Ok(url) => Ok(url),
        Err(_) => Err(Error::unavailable(format!("the server that was started isn't ready: {}", log_tail(&dir.join("server.log"))))),
    }
}

fn log_tail(log: &PathBuf) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let tail: Vec<&str> = text.lines().rev().take(3).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
    format!("{} says: {tail}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_url_names_a_server() {
        assert_eq!(checked("http://127.0.0.1:4517/").unwrap(), "http://127.0.0.1:4517");
        for bad in ["nonsense", "127.0.0.1:4517", "localhost:4517", "ftp://localhost", ""] {
            assert!(checked(bad).unwrap_err().message.contains("is no URL such as http://127.0.0.1:4517"), "{bad}");
        }
    }
}
