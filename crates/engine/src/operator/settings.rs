//! Settings of the server, and the queue's pause, which is one of them.

use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::settings::Settings;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// Settings to change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingsUpdate {
    /// New values by name; the others stay.
    pub settings: Map<String, Value>,
}

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct QueuePause {}

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct QueueResume {}

/// The settings as they are now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingsOutput {
    /// Whether anything changed.
    pub updated: bool,
    /// All settings.
    pub settings: Settings,
}

impl Engine {
    /// Changes settings: all that are named, or none.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming a setting that doesn't exist, has the wrong type or is out of range; `FORBIDDEN`
    /// for a run.
    pub async fn settings_update(&self, caller: &Caller, input: SettingsUpdate) -> Result<SettingsOutput> {
        caller.require_person("change settings")?;
        self.change_settings(caller, input.settings).await
    }

    /// Lets the queue start nothing new. Runs that are open go on.
    ///
    /// # Errors
    /// `FORBIDDEN` for a run.
    pub async fn queue_pause(&self, caller: &Caller, _input: QueuePause) -> Result<SettingsOutput> {
        caller.require_person("pause the queue")?;
        self.change_settings(caller, Map::from_iter([("paused".to_owned(), json!(true))])).await
    }

    /// Lets the queue start work again.
    ///
    /// # Errors
    /// `FORBIDDEN` for a run.
    pub async fn queue_resume(&self, caller: &Caller, _input: QueueResume) -> Result<SettingsOutput> {
        caller.require_person("resume the queue")?;
        self.change_settings(caller, Map::from_iter([("paused".to_owned(), json!(false))])).await
    }

    /// Returns the settings once they are as `wanted` says: at once, or after the change that makes them so. Woken by
    /// changes of the settings only, which every workspace is told of. May be dropped at any point.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the database doesn't answer, the store was closed, or the server hasn't started yet.
    pub async fn settings_once(&self, wanted: impl Fn(&Settings) -> bool) -> Result<Settings> {
        let oldest = self.store().read(|read| {
            Box::pin(async move {
                let Some(workspace) = read.workspace_list().await?.into_iter().next() else { return Ok(None) };
                Ok(Some((workspace.id, read.event_head(workspace.id).await?)))
            })
        });
        let (workspace, head) = oldest.await?.ok_or_else(|| Error::unavailable("there is no workspace yet"))?;
        let mut changes = self.store().subscribe_kinds(workspace, &[Kind::SettingsChanged], head);
        loop {
            let settings = self.store().read(|read| Box::pin(async move { read.settings_fetch().await })).await?;
            if wanted(&settings) {
                return Ok(settings);
            }
            changes.next().await?;
        }
    }

    async fn change_settings(&self, caller: &Caller, values: Map<String, Value>) -> Result<SettingsOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { update(tx, &caller, values).await })).await
    }
}

async fn update(tx: &mut Tx, caller: &Caller, values: Map<String, Value>) -> Result<SettingsOutput> {
    let before = tx.settings_fetch().await?;
    let names: Vec<String> = values.keys().cloned().collect();
    let settings = merged(&before, values)?;
    settings.check()?;
    if !settings.worktree_root.is_empty() && !Path::new(&settings.worktree_root).is_absolute() {
        return Err(Error::invalid("worktree_root", "worktree_root needs an absolute path, or an empty text for the data folder"));
    }
    let updated = settings != before;
    if updated {
        tx.settings_store(&settings).await?;
        let all = json!(settings);
        let values: Map<String, Value> = names.iter().map(|name| ((*name).to_string(), all[&**name].clone())).collect();
        for workspace in tx.workspace_list().await? {
            let data = json!({ "settings": names, "values": values });
            tx.event(NewEvent::new(workspace.id, Kind::SettingsChanged).data(data.clone()));
            change::audit(tx, caller, workspace.id, Action::SettingsUpdated, About::Settings, data).await?;
        }
    }
    Ok(SettingsOutput { updated, settings })
}

/// What the place of `value` takes, where that is plain from its kind.
fn needed(value: &Value) -> Option<&'static str> {
    match value {
        Value::Number(_) => Some("a whole number"),
        Value::Bool(_) => Some("true or false"),
        Value::String(_) => Some("a text"),
        _ => None,
    }
}

/// `before` with the new values, each checked for itself so that an error names it.
fn merged(before: &Settings, values: Map<String, Value>) -> Result<Settings> {
    let unreadable = |error: serde_json::Error| Error::internal(format!("the settings can't be read: {error}"));
    let mut all = serde_json::to_value(before).map_err(unreadable)?;
    for (name, value) in values {
        let known: Vec<String> = all.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
        let Some(place) = all.get_mut(&name) else {
            return Err(Error::invalid(&name, format!("there is no setting {name}; there are {}", known.join(", "))));
        };
        let (needed, given) = (needed(place), value.to_string());
        *place = value;
        if let Err(error) = serde_json::from_value::<Settings>(all.clone()) {
            let why = needed.map_or_else(|| error.to_string(), |needed| format!("{needed} is needed, and {given} isn't one"));
            return Err(Error::invalid(&name, format!("{name}: {why}")));
        }
    }
    serde_json::from_value(all).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_settings_of_the_right_type_are_taken() {
        let set = |name: &str, value: Value| merged(&Settings::default(), Map::from_iter([(name.to_owned(), value)]));
        assert_eq!(set("configured_slots", json!(7)).unwrap().configured_slots, 7);
        assert_eq!(set("configured_slots", json!("many")).unwrap_err().field.as_deref(), Some("configured_slots"));
        let error = set("configured_slots", json!("banana")).unwrap_err();
        assert_eq!(error.message, "configured_slots: a whole number is needed, and \"banana\" isn't one");
        assert!(set("paused", json!(1)).unwrap_err().message.contains("true or false is needed"));
        let error = set("slots", json!(7)).unwrap_err();
        assert!(error.message.contains("configured_slots"), "{error}");
    }
}
