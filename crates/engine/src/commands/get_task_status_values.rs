//! `get_task_status_values`: the statuses and what they mean.

use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::task::{Status, Word};

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetTaskStatusValues {}

/// A status.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatusValue {
    /// Its word.
    pub status: String,
    /// What it means.
    pub meaning: String,
    /// Whether `update_task_status` takes it.
    pub settable: bool,
    /// Other spellings that are read as it.
    pub aliases: Vec<String>,
}

/// The statuses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskStatusValuesOutput {
    /// Every status.
    pub statuses: Vec<StatusValue>,
}

impl Engine {
    /// Every status with its meaning, and which of them `update_task_status` takes.
    ///
    /// # Errors
    /// None.
    pub async fn get_task_status_values(&self, _caller: &Caller, _input: GetTaskStatusValues) -> Result<GetTaskStatusValuesOutput> {
        let aliases = |status: Status| Status::ALIASES.iter().filter(|(_, s)| *s == status).map(|(alias, _)| (*alias).to_owned()).collect();
        let value = |status: &Status| StatusValue {
            status: status.to_string(),
            meaning: status.meaning().into(),
            settable: Word::ALL.iter().any(|word| word.as_str() == status.as_str()),
            aliases: aliases(*status),
        };
        Ok(GetTaskStatusValuesOutput { statuses: Status::ALL.iter().map(value).collect() })
    }
}
