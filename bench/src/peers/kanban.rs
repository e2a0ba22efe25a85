//! agentic-kanban (PyPI), by its MCP program in front of its server.

use super::subject::{Subject, Tool, Traits, Way, Who};
use crate::http::Http;
use crate::place::Place;
use crate::process::{Launch, environment};
use crate::yard::free_port;
use anyhow::{Result, ensure};
use serde_json::json;
use std::path::Path;

/// agentic-kanban on fresh folders.
///
/// # Errors
/// When the folders can't be made.
pub async fn subject(place: &Place, peers: &Path) -> Result<Subject> {
    let folder = place.folder("kanban")?;
    super::demo(folder.path()).await?;
    let env = environment(folder.path())?;
    let host = format!("127.0.0.1:{}", free_port()?);
    let inside = |name: &str| folder.path().join(name).display().to_string();
    let (data, worktrees) = (inside("data"), inside("worktrees"));
    let launch = |args: Vec<&str>, piped| Launch {
        program: peers.join("venv/bin/kanban"),
        args: args.into_iter().map(Into::into).collect(),
        env: env.clone(),
        cwd: folder.path().into(),
        log: folder.path().join("server.log"),
        piped,
    };
    let url = format!("http://{host}");
    let traits = Traits {
        who: Who::Kanban,
        name: "agentic-kanban",
        launch: launch(vec!["serve", "--addr", &host, "--data-dir", &data, "--worktrees-dir", &worktrees], false),
        ready: "/api/boards",
        ready_text: "",
        way: Way::Program(launch(vec!["mcp", "--server", &url], true)),
        host: host.clone(),
        create: Tool::default(),
        prompt: "body",
        list: Tool::default(),
    };
    Ok(Subject::new(traits, folder))
}

/// Makes the board.
///
/// # Errors
/// When it is refused.
pub async fn set_up(traits: &mut Traits, repo: &Path) -> Result<()> {
    let body = json!({ "name": "bench", "repo_path": repo }).to_string();
    let reply = Http::new(&traits.host).request("POST", "/api/boards", "", body.as_bytes()).await?;
    ensure!(reply.status < 300, "no board: {}", String::from_utf8_lossy(&reply.body));
    traits.create = Tool { name: "create_ticket", arguments: json!({ "board": "bench" }) };
    traits.list = Tool { name: "board_state", arguments: json!({ "board": "bench" }) };
    Ok(())
}
