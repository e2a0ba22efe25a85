//! Where protocol sessions live across restarts: the client's opening words by session id.

use async_trait::async_trait;
use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore as SdkStore, SessionStoreError};
use serde_json::Value;
use std::sync::Arc;
use taskyard_domain::Result;

/// A table of protocol sessions.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// What was stored for `id`.
    ///
    /// # Errors
    /// When the table can't be read.
    async fn load(&self, id: &str) -> Result<Option<Value>>;
    /// Stores `state` for `id`.
    ///
    /// # Errors
    /// When the table can't be written.
    async fn store(&self, id: &str, state: Value) -> Result<()>;
    /// Forgets `id`.
    ///
    /// # Errors
    /// When the table can't be written.
    async fn delete(&self, id: &str) -> Result<()>;
}

/// Our table as the SDK wants it.
pub(super) struct Adapter(pub Arc<dyn SessionStore>);

#[async_trait]
impl SdkStore for Adapter {
    async fn load(&self, id: &str) -> std::result::Result<Option<SessionState>, SessionStoreError> {
        let Some(state) = self.0.load(id).await? else { return Ok(None) };
        match serde_json::from_value(state) {
            Ok(state) => Ok(Some(state)),
            Err(error) => {
                // To the client it is as unknown: it starts anew.
                tracing::warn!(%error, "a stored protocol session can't be read");
                Ok(None)
            }
        }
    }

    async fn store(&self, id: &str, state: &SessionState) -> std::result::Result<(), SessionStoreError> {
        Ok(self.0.store(id, serde_json::to_value(state)?).await?)
    }

    async fn delete(&self, id: &str) -> std::result::Result<(), SessionStoreError> {
        Ok(self.0.delete(id).await?)
    }
}
