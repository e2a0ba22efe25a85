//! Calls the running server: one operation by name, JSON in, JSON out.

use crate::args::Global;
use crate::discover;
use crate::fail::{Result, machine};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use taskyard_domain::Error;
use taskyard_domain::id::ListId;

/// A connection to a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    workspace: Option<String>,
}

/// Whether an operation is about the server or names its workspace itself.
fn is_of_the_server(operation: &str) -> bool {
    let whole = ["list_workspaces", "get_app_settings", "settings_update", "queue_pause", "queue_resume"];
    operation.starts_with("workspace_") || whole.contains(&operation)
}

impl Client {
    /// The server that `global` names or its data folder tells of.
    pub fn find(global: &Global) -> Result<Self> {
        let workspace = global.workspace.clone().filter(|handle| !handle.trim().is_empty());
        Ok(Self { workspace, ..Self::at(discover::find(global)?)? })
    }

    /// The server at `url`.
    pub fn at(url: String) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build().map_err(|e| machine("setting up HTTP", e))?;
        Ok(Self { http, url, workspace: None })
    }

    /// The workspace that the caller names, for every command.
    pub fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs `operation` and gives its result.
    ///
    /// # Errors
    /// The server's error as it is; `UNAVAILABLE` when it can't be reached.
    pub async fn call(&self, operation: &str, arguments: Value) -> Result<Value> {
        let unreachable = |error: reqwest::Error| {
            Error::unavailable(format!("the server at {} doesn't answer: {error}", self.url)).with_hint("start it with `taskyard serve`")
        };
        let mut request = self.http.post(format!("{}/api/internal/call/{operation}", self.url)).json(&without_nulls(arguments));
        if let Some(workspace) = self.workspace.as_deref().filter(|_| !is_of_the_server(operation)) {
            let name = HeaderValue::from_str(workspace).map_err(|_| Error::not_found("workspace", workspace).with_field("workspace"))?;
            request = request.header("taskyard-workspace", name);
        }
        if let Some(token) = std::env::var("TASKYARD_TOKEN").ok().filter(|t| !t.is_empty()) {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body: Value = response.json().await.map_err(|error| {
            Error::unavailable(format!("{} answered {status} with no JSON: {error}", self.url)).with_hint("is that a Taskyard server?")
        })?;
        match (body.get("result"), body.get("error")) {
            (Some(result), _) => Ok(result.clone()),
            (None, Some(error)) => {
                let error = serde_json::from_value(error.clone());
                Err(error.map_or_else(|_| Error::internal(format!("{} answered {status}: {body}", self.url)), |error| self.hinted(error)))
            }
            (None, None) => Err(Error::internal(format!("{} answered {status} with neither result nor error", self.url))),
        }
    }

    /// The error with the way out that the command line has.
    fn hinted(&self, error: Error) -> Error {
        let wants_workspace = matches!(error.field.as_deref(), Some("workspace" | "workspace_id")) && self.workspace.is_none();
        if wants_workspace && error.hint.is_none() {
            return error.with_hint("--workspace (or TASKYARD_WORKSPACE) says which");
        }
        error
    }

    /// Whether the server answers and is ready.
    pub async fn health(&self) -> Result<Value> {
        let answer = self.http.get(format!("{}/healthz", self.url)).send().await;
        let answer = answer.map_err(|e| Error::unavailable(format!("the server at {} doesn't answer: {e}", self.url)))?;
        answer.json().await.map_err(|e| Error::unavailable(format!("{} is no Taskyard server: {e}", self.url)))
    }

    /// The UUID of the list that `handle` (UUID or name) names; without one the only list.
    pub async fn list_id(&self, handle: Option<&str>) -> Result<String> {
        if let Some(id) = handle.filter(|handle| handle.parse::<ListId>().is_ok()) {
            return Ok(id.to_owned());
        }
        only_list(&self.call("list_task_lists", json!({})).await?, handle)
    }

    /// Refuses a name that a list has already: two of one name couldn't be told apart on the command line.
    pub async fn check_new_list(&self, name: &str) -> Result<()> {
        let answer = self.call("list_task_lists", json!({})).await?;
        let Some(known) = all_lists(&answer).find(|list| list["name"] == name) else { return Ok(()) };
        Err(Error::conflict(format!("NAME: there is a list {name} already ({})", known["id"].as_str().unwrap_or_default()))
            .with_hint("give the new one another name; `taskyard list` shows all"))
    }
}

/// The lists of the answer. Where there are many, only the names of most fit into it.
fn all_lists(answer: &Value) -> impl Iterator<Item = &Value> {
    ["lists", "further"].iter().filter_map(|key| answer[key].as_array()).flatten()
}

/// The list of the answer that is called `handle`; without one the only list.
fn only_list(answer: &Value, handle: Option<&str>) -> Result<String> {
    let lists: Vec<&Value> = all_lists(answer).collect();
    let names: Vec<&str> = lists.iter().filter_map(|l| l["name"].as_str()).collect();
    let matching: Vec<&Value> = lists.iter().copied().filter(|l| handle.is_none_or(|handle| l["name"] == handle)).collect();
    match (matching.as_slice(), handle) {
        ([one], _) => Ok(one["id"].as_str().unwrap_or_default().to_owned()),
        ([], None) => {
            Err(Error::precondition("there is no list yet").with_hint("make one with `taskyard list add NAME --path REPOSITORY`"))
        }
        ([], Some(handle)) => Err(Error::not_found("list", handle).with_field("list").with_hint(format!("lists: {}", names.join(", ")))),
        (_, None) => Err(Error::invalid("list", format!("list: there are several, name one with --list ({})", names.join(", ")))),
        (several, Some(handle)) => {
            let ids: Vec<&str> = several.iter().filter_map(|list| list["id"].as_str()).collect();
            Err(Error::invalid("list", format!("list: {} are called {handle}; name one by its UUID: {}", ids.len(), ids.join(", "))))
        }
    }
}

/// Options that weren't given are left out, so that the server's defaults hold.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_found_among_those_of_which_only_the_name_fits() {
        let answer = json!({ "lists": [{ "id": "1", "name": "A" }], "further": [{ "id": "2", "name": "B" }], "total": 2 });
        assert_eq!(only_list(&answer, Some("B")).unwrap(), "2");
        assert_eq!(only_list(&answer, Some("C")).unwrap_err().field.as_deref(), Some("list"));
        assert!(only_list(&answer, None).unwrap_err().message.contains("A, B"), "there isn't only one");
        assert_eq!(only_list(&json!({ "lists": [{ "id": "1", "name": "A" }] }), None).unwrap(), "1");
        let twice = json!({ "lists": [{ "id": "1", "name": "A" }, { "id": "2", "name": "A" }] });
        assert_eq!(only_list(&twice, Some("A")).unwrap_err().message, "list: 2 are called A; name one by its UUID: 1, 2");
    }
}
