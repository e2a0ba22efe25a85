//! Taskyard beside its peers: `serve` as anybody starts it, the tools that most clients connect to.

use super::subject::{Subject, Tool, Traits, Way, Who};
use crate::http::Http;
use crate::place::Place;
use crate::process::{Launch, environment};
use crate::yard::free_port;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Taskyard on a fresh folder.
///
/// # Errors
/// When the folder can't be made.
pub fn subject(place: &Place) -> Result<Subject> {
    let folder = place.folder("ours")?;
    let mut env = environment(folder.path())?;
    env.push(("TASKYARD_DATA_DIR".into(), folder.path().join("data").into()));
    let host = format!("127.0.0.1:{}", free_port()?);
    let launch = Launch {
        program: place.program.clone(),
        args: ["serve", "--listen", &host].map(Into::into).to_vec(),
        env,
        cwd: folder.path().into(),
        log: folder.path().join("server.log"),
        piped: false,
    };
    let traits = Traits {
        who: Who::Ours,
        name: "Taskyard",
        launch,
        ready: "/healthz",
        ready_text: "true",
        way: Way::Http(format!("http://{host}/mcp?mode=core")),
        host,
        create: Tool::default(),
        prompt: "description",
        list: Tool::default(),
    };
    Ok(Subject::new(traits, folder))
}

/// Makes the list.
///
/// # Errors
/// When it is refused.
pub async fn set_up(traits: &mut Traits) -> Result<()> {
    let reply = Http::new(&traits.host).request("POST", "/api/internal/call/create_list", "", br#"{"name":"Bench"}"#).await?;
    let answer: Value = serde_json::from_slice(&reply.body)?;
    let list = answer["result"]["list_id"].as_str().with_context(|| format!("no list: {answer}"))?;
    traits.create = Tool { name: "add_task", arguments: json!({ "list_id": list }) };
    traits.list = Tool { name: "list_tasks", arguments: json!({ "list_id": list }) };
    Ok(())
}
