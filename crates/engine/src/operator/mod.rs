//! What only the operator does, not offered as MCP tools of an agent: agents, profiles, settings.
//!
//! Every operation refuses a run's token.

mod agent_add;
mod agent_remove;
mod agent_unlimit;
mod repositories;
mod settings;
mod workspaces;

pub use agent_add::{AgentAdd, AgentAddOutput};
pub use agent_remove::{AgentRemove, AgentRemoveOutput};
pub use agent_unlimit::{AgentUnlimit, AgentUnlimitOutput};
pub use repositories::{RepositoryList, RepositoryListOutput, RepositoryUpdate, RepositoryUpdateOutput, RepositoryView};
pub use settings::{QueuePause, QueueResume, SettingsOutput, SettingsUpdate};
pub use workspaces::{WorkspaceAdd, WorkspaceOutput, WorkspaceRename};
