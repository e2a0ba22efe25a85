//! What only the operator does, not offered as MCP tools of an agent: agents, profiles, settings.
//!
//! Every operation refuses a run's token.

mod agent_add;
mod agent_remove;
mod agent_unlimit;
mod backlog_export;
mod backlog_import;
mod repositories;
mod settings;
mod steps;
mod workspaces;

pub use agent_add::{AgentAdd, AgentAddOutput};
pub use agent_remove::{AgentRemove, AgentRemoveOutput};
pub use agent_unlimit::{AgentUnlimit, AgentUnlimitOutput};
pub use backlog_export::{BacklogExport, BacklogExportOutput, ExportedFile, LeftAlone};
pub use backlog_import::{BacklogImport, BacklogImportOutput, BacklogText, ImportedFile};
pub use repositories::{RepositoryList, RepositoryListOutput, RepositoryUpdate, RepositoryUpdateOutput, RepositoryView};
pub use settings::{QueuePause, QueueResume, SettingsOutput, SettingsUpdate};
pub use steps::{ListPrompt, StepAdd, StepList, StepRemove, StepUpdate, StepView, WorkflowOutput};
pub use workspaces::{WorkspaceAdd, WorkspaceOutput, WorkspacePrompt, WorkspaceRename};
