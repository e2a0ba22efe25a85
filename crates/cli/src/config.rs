//! Configuration: flags, then environment (both by clap), then `config.toml` in the data folder, then defaults.

use crate::args::{Global, Serve};
use crate::fail::{Result, machine};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use taskyard_domain::Error;

/// Where the server listens when nothing says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:4517";
/// What is logged when nothing says otherwise: the MCP library tells each connection twice over at `info`.
const LOG: &str = "info,rmcp=warn";
/// The file in the data folder.
pub const FILE: &str = "config.toml";

/// What `config.toml` may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    database_url: Option<String>,
    allowed_hosts: Option<Vec<String>>,
    allowed_origins: Option<Vec<String>>,
    mcp_log: Option<PathBuf>,
    log: Option<String>,
}

/// The server's effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    pub database_url: Option<String>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub mcp_log: Option<PathBuf>,
    pub log: String,
}

impl Config {
    /// Puts flags, file and defaults together.
    pub fn load(global: &Global, serve: &Serve) -> Result<Self> {
        let data_dir = data_dir(global)?;
        let file = read(&data_dir.join(FILE))?;
        let listen = serve.listen.clone().or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.into());
        let listen = listen
            .parse()
            .map_err(|_| Error::invalid("listen", format!("listen: {listen:?} is not an address with a port, such as {DEFAULT_LISTEN}")))?;
        Ok(Self {
            data_dir,
            listen,
            database_url: serve.database_url.clone().or(file.database_url),
            allowed_hosts: serve.allowed_hosts.clone().or(file.allowed_hosts).unwrap_or_default(),
            allowed_origins: serve.allowed_origins.clone().or(file.allowed_origins).unwrap_or_default(),
            mcp_log: serve.mcp_log.clone().or(file.mcp_log),
            log: serve.log.clone().or(file.log).unwrap_or_else(|| LOG.into()),
        })
    }
}

/// The data folder: flag or variable, else `$XDG_DATA_HOME/taskyard`, else `~/.local/share/taskyard`.
pub fn data_dir(global: &Global) -> Result<PathBuf> {
    if let Some(dir) = &global.data_dir {
        return std::path::absolute(dir).map_err(|e| machine("reading the data folder's path", e));
    }
    let base = match (std::env::var_os("XDG_DATA_HOME").filter(|v| !v.is_empty()), std::env::var_os("HOME")) {
        (Some(xdg), _) => PathBuf::from(xdg),
        (None, Some(home)) => PathBuf::from(home).join(".local/share"),
        (None, None) => return Err(Error::invalid("data_dir", "no data folder: set --data-dir, TASKYARD_DATA_DIR or HOME")),
    };
    Ok(base.join("taskyard"))
}

fn read(path: &Path) -> Result<File> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(machine(&format!("reading {}", path.display()), error)),
    };
    toml::from_str(&text).map_err(|error| Error::invalid("config.toml", format!("{}: {}", path.display(), error.to_string().trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(dir: &Path) -> Global {
        Global { server: None, data_dir: Some(dir.into()), workspace: None, json: false }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let load = |serve: &Serve| Config::load(&global(dir.path()), serve);
        assert_eq!(load(&Serve::default()).unwrap().listen.to_string(), DEFAULT_LISTEN);
        std::fs::write(dir.path().join(FILE), "listen = \"127.0.0.1:1\"\nlog = \"debug\"\n").unwrap();
        let config = load(&Serve::default()).unwrap();
        assert_eq!((config.listen.port(), config.log.as_str()), (1, "debug"));
        let flags = Serve { listen: Some("127.0.0.1:2".into()), ..Serve::default() };
        assert_eq!(load(&flags).unwrap().listen.port(), 2);
    }

    #[test]
    fn a_typing_mistake_in_the_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "lisen = \"x\"\n").unwrap();
        let error = Config::load(&global(dir.path()), &Serve::default()).unwrap_err();
        assert!(error.message.contains("lisen") && error.message.contains(FILE), "{error}");
    }
}
