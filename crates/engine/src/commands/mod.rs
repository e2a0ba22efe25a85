//! The commands that faces call, one per file: an input with the tool's parameters, an output, the rule between.

mod add_subtask;
mod add_task;
mod answer_question;
mod cancel_task;
mod check;
mod config;
mod continue_task;
mod create_list;
mod creation;
mod delete_list;
mod delete_task;
mod dependencies;
mod get_app_settings;
mod get_audit_log;
mod get_queue_state;
mod get_task;
mod get_task_log;
mod get_task_status_values;
mod list_config;
mod list_pending_questions;
mod list_runs;
mod list_snapshots;
mod list_task_lists;
mod list_tasks;
mod list_workspaces;
mod locked;
mod named;
mod paging;
pub(crate) mod repository;
mod reset_failed_task;
mod ring;
mod run_task_now;
mod task_config;
mod update_list;
mod update_task;
mod update_task_status;
mod wait;
mod wait_for_task_change;
mod words;

pub mod input {
    //! The inputs of all commands, by the tool's name.

    pub use super::add_subtask::AddSubtask;
    pub use super::add_task::AddTask;
    pub use super::answer_question::AnswerQuestion;
    pub use super::cancel_task::CancelTask;
    pub use super::continue_task::ContinueTask;
    pub use super::create_list::CreateList;
    pub use super::delete_list::DeleteList;
    pub use super::delete_task::DeleteTask;
    pub use super::dependencies::{AddTaskDependency, RemoveTaskDependency};
    pub use super::get_app_settings::GetAppSettings;
    pub use super::get_audit_log::GetAuditLog;
    pub use super::get_queue_state::GetQueueState;
    pub use super::get_task::GetTask;
    pub use super::get_task_log::GetTaskLog;
    pub use super::get_task_status_values::GetTaskStatusValues;
    pub use super::list_config::{GetListConfig, SetListConfig};
    pub use super::list_pending_questions::ListPendingQuestions;
    pub use super::list_runs::{GetRun, ListRuns};
    pub use super::list_snapshots::ListSnapshots;
    pub use super::list_task_lists::ListTaskLists;
    pub use super::list_tasks::ListTasks;
    pub use super::list_workspaces::ListWorkspaces;
    pub use super::reset_failed_task::ResetFailedTask;
    pub use super::run_task_now::RunTaskNow;
    pub use super::task_config::{GetTaskConfig, SetTaskConfig};
    pub use super::update_list::UpdateList;
    pub use super::update_task::UpdateTask;
    pub use super::update_task_status::UpdateTaskStatus;
    pub use super::wait_for_task_change::WaitForTaskChange;
}

pub mod output {
    //! The outputs of all commands.

    pub use super::add_task::AddTaskOutput;
    pub use super::answer_question::QuestionAnswered;
    pub use super::cancel_task::TaskCancelled;
    pub use super::config::ConfigView;
    pub use super::create_list::CreateListOutput;
    pub use super::delete_list::DeleteListOutput;
    pub use super::delete_task::DeleteTaskOutput;
    pub use super::dependencies::DependencyOutput;
    pub use super::get_app_settings::GetAppSettingsOutput;
    pub use super::get_audit_log::{AuditRow, GetAuditLogOutput};
    pub use super::get_queue_state::{ActiveSlot, GetQueueStateOutput, WaitingTask};
    pub use super::get_task::{GetTaskOutput, QuestionSummary, Related, WorktreeSummary};
    pub use super::get_task_log::GetTaskLogOutput;
    pub use super::get_task_status_values::{GetTaskStatusValuesOutput, StatusValue};
    pub use super::list_config::ListConfigOutput;
    pub use super::list_pending_questions::{ListPendingQuestionsOutput, QuestionRow};
    pub use super::list_runs::{GetRunOutput, ListRunsOutput};
    pub use super::list_snapshots::{ListSnapshotsOutput, SnapshotRow};
    pub use super::list_task_lists::{ListName, ListRow, ListTaskListsOutput};
    pub use super::list_tasks::ListTasksOutput;
    pub use super::list_workspaces::{ListWorkspacesOutput, WorkspaceRow};
    pub use super::named::TaskRef;
    pub use super::reset_failed_task::ResetFailedTaskOutput;
    pub use super::run_task_now::RunStarted;
    pub use super::task_config::TaskConfigOutput;
    pub use super::update_list::UpdateListOutput;
    pub use super::update_task::UpdateTaskOutput;
    pub use super::update_task_status::UpdateTaskStatusOutput;
    pub use super::wait_for_task_change::{ChangedTask, StuckTask, WaitForTaskChangeOutput};
}
