//! `get_app_settings`: the server's settings, read-only.

use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::settings::Settings;

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetAppSettings {}

/// The settings. There are no secrets among them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetAppSettingsOutput {
    /// By name, with the defaults filled in.
    pub settings: Settings,
    /// The server's version.
    pub version: String,
    /// Where the server is reached.
    pub url: String,
    /// The data folder.
    pub data_dir: String,
}

impl Engine {
    /// The settings with their defaults.
    ///
    /// # Errors
    /// Only the store's.
    pub async fn get_app_settings(&self, _caller: &Caller, _input: GetAppSettings) -> Result<GetAppSettingsOutput> {
        let settings = self.store().read(|read| Box::pin(async move { read.settings_fetch().await })).await?;
        Ok(GetAppSettingsOutput {
            settings,
            version: env!("CARGO_PKG_VERSION").into(),
            url: self.url().to_owned(),
            data_dir: self.paths().data().display().to_string(),
        })
    }
}
