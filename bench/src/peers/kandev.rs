//! Kandev (npm `@kdlbs/runtime-linux-x64`), over its MCP endpoint.

use super::subject::{Client, Subject, Tool, Traits, Way, Who};
use crate::place::Place;
use crate::process::{Launch, environment};
use crate::yard::free_port;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::path::Path;

/// Kandev on a fresh home.
///
/// # Errors
/// When the home can't be made.
pub async fn subject(place: &Place, peers: &Path) -> Result<Subject> {
    let folder = place.folder("kandev")?;
    super::demo(folder.path()).await?;
    let package = peers.join("npm/node_modules/@kdlbs/runtime-linux-x64");
    let (port, agents) = (free_port()?, free_port()?);
    let mut env = environment(folder.path())?;
    let own = [
        ("KANDEV_BUNDLE_DIR", package.display().to_string()),
        ("KANDEV_HOME_DIR", folder.path().join("home/.kandev").display().to_string()),
        ("KANDEV_SERVER_HOST", "127.0.0.1".into()),
        ("KANDEV_SERVER_PORT", port.to_string()),
        ("KANDEV_AGENT_STANDALONE_HOST", "127.0.0.1".into()),
        ("KANDEV_AGENT_STANDALONE_PORT", agents.to_string()),
        ("KANDEV_DOCKER_ENABLED", "false".into()),
        ("KANDEV_NO_BROWSER", "1".into()),
        ("KANDEV_REPOSITORYDISCOVERY_ROOTS", folder.path().join("repos").display().to_string()),
        ("KANDEV_MOCK_AGENT", "true".into()),
    ];
    env.extend(own.map(|(name, value)| (name.into(), value.into())));
    let launch = Launch {
        program: package.join("bin/kandev"),
        args: ["run", "--headless", "--port", &port.to_string()].map(Into::into).to_vec(),
        env,
        cwd: folder.path().into(),
        log: folder.path().join("server.log"),
        piped: false,
    };
    let host = format!("127.0.0.1:{port}");
    let traits = Traits {
        who: Who::Kandev,
        name: "Kandev",
        launch,
        ready: "/ready",
        ready_text: "\"phase\":\"ready\"",
        way: Way::Http(format!("http://{host}/mcp")),
        host,
        create: Tool::default(),
        prompt: "prompt",
        list: Tool::default(),
    };
    Ok(Subject::new(traits, folder))
}

/// Asks for the workspace, workflow and agent that a task needs.
///
/// # Errors
/// When it doesn't answer as it did.
pub async fn set_up(traits: &mut Traits, client: &mut Client, repo: &Path) -> Result<()> {
    let workspaces = client.call("list_workspaces_kandev", &json!({})).await?.value()?;
    let workspace = workspaces["workspaces"][0]["id"].as_str().with_context(|| format!("no workspace: {workspaces}"))?;
    let workflows = client.call("list_workflows_kandev", &json!({ "workspace_id": workspace })).await?.value()?;
    let workflow = workflows["workflows"][0]["id"].as_str().with_context(|| format!("no workflow: {workflows}"))?;
    let agents = client.call("list_agents_kandev", &json!({})).await?.value()?;
    let agent = concrete(&agents).with_context(|| format!("no concrete agent profile: {agents}"))?;
    traits.create = Tool {
        name: "create_task_kandev",
        arguments: json!({ "workspace_id": workspace, "workflow_id": workflow, "agent_profile_id": agent, "local_path": repo, "start_agent": false }),
    };
    traits.list = Tool { name: "list_tasks_kandev", arguments: json!({ "workflow_id": workflow }) };
    Ok(())
}

/// The id of the first profile of kind `concrete`, wherever it is.
fn concrete(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) if fields.get("kind").is_some_and(|kind| kind == "concrete") => fields.get("id")?.as_str().map(str::to_owned),
        Value::Object(fields) => fields.values().find_map(concrete),
        Value::Array(all) => all.iter().find_map(concrete),
        _ => None,
    }
}
