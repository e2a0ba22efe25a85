//! The backend of a real server: one line per tool, from checked arguments to a command of the engine.

use crate::backend::{Backend, CallContext, Identity};
use crate::transport::SessionStore;
use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;
use taskyard_domain::{Error, Face, Result};
use taskyard_engine::{Caller, Engine, input, operator};

/// How long to wait before changes of the settings are followed again after a failure.
const FOLLOW_AGAIN: Duration = Duration::from_secs(2);

/// Calls commands of an engine.
pub struct EngineBackend {
    engine: Engine,
}

impl EngineBackend {
    /// Calls go to `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

/// Answers a call by the command of its name. Each command's future is boxed with what it owns: they are large,
/// and the compiler can't prove a borrowed one `Send` for every lifetime.
macro_rules! route {
    ($what:literal, $engine:expr, $caller:expr, $name:expr, $arguments:expr; $($inputs:ident { $($command:ident($input:ident),)* })*) => {
        match $name {
            $($(stringify!($command) => {
                let (engine, caller, input) = ($engine, $caller, read::<$inputs::$input>($arguments)?);
                let work: BoxFuture<'static, Result<Value>> = Box::pin(async move { answer(&engine.$command(&caller, input).await?) });
                work.await
            })*)*
            other => Err(Error::not_found($what, other)),
        }
    };
}

#[async_trait]
impl Backend for EngineBackend {
    async fn identify(&self, token: Option<&str>) -> Result<Identity> {
        let caller = self.engine.authenticate(token, Face::Mcp).await?;
        Ok(if caller.actor.is_person() { Identity::Person } else { Identity::Run })
    }

    async fn call(&self, tool: &str, arguments: Map<String, Value>, context: &CallContext) -> Result<Value> {
        let (engine, caller) = (self.engine.clone(), self.caller(context).await?);
        if tool == "wait_for_task_change" {
            return answer(&engine.wait_for_task_change(&caller, read(arguments)?, context.cancel.clone()).await?);
        }
        route! {
            "tool", engine, caller, tool, arguments;
            input {
                abort_merge(AbortMerge),
                add_subtask(AddSubtask),
                add_task(AddTask),
                add_task_dependency(AddTaskDependency),
                answer_question(AnswerQuestion),
                cancel_task(CancelTask),
                claim_next_task(ClaimNextTask),
                claim_task(ClaimTask),
                cleanup_task_worktree(CleanupTaskWorktree),
                complete_task(CompleteTask),
                continue_merge(ContinueMerge),
                continue_task(ContinueTask),
                create_list(CreateList),
                create_object(CreateObject),
                delete_list(DeleteList),
                delete_task(DeleteTask),
                get_app_settings(GetAppSettings),
                get_audit_log(GetAuditLog),
                get_list_config(GetListConfig),
                get_queue_state(GetQueueState),
                get_run(GetRun),
                get_task(GetTask),
                get_task_config(GetTaskConfig),
                get_task_diff(GetTaskDiff),
                get_task_log(GetTaskLog),
                get_task_status_values(GetTaskStatusValues),
                get_task_worktree(GetTaskWorktree),
                list_agents(ListAgents),
                list_backlog(ListBacklog),
                list_pending_questions(ListPendingQuestions),
                list_runs(ListRuns),
                list_snapshots(ListSnapshots),
                list_task_lists(ListTaskLists),
                list_tasks(ListTasks),
                list_workspaces(ListWorkspaces),
                list_worktrees(ListWorktrees),
                merge_task(MergeTask),
                preview_merge(PreviewMerge),
                preview_merge_set(PreviewMergeSet),
                remove_task_dependency(RemoveTaskDependency),
                reset_failed_task(ResetFailedTask),
                restore_snapshot(RestoreSnapshot),
                revert_merge(RevertMerge),
                review_task(ReviewTask),
                run_task_now(RunTaskNow),
                set_list_config(SetListConfig),
                set_task_config(SetTaskConfig),
                update_list(UpdateList),
                update_task(UpdateTask),
                update_task_status(UpdateTaskStatus),
            }
        }
    }

    async fn operate(&self, operation: &str, arguments: Map<String, Value>, context: &CallContext) -> Result<Value> {
        let (engine, caller) = (self.engine.clone(), self.caller(context).await?);
        route! {
            "operation", engine, caller, operation, arguments;
            operator {
                agent_add(AgentAdd),
                agent_remove(AgentRemove),
                agent_unlimit(AgentUnlimit),
                backlog_export(BacklogExport),
                backlog_import(BacklogImport),
                list_prompt(ListPrompt),
                queue_pause(QueuePause),
                queue_resume(QueueResume),
                repository_list(RepositoryList),
                repository_update(RepositoryUpdate),
                settings_update(SettingsUpdate),
                step_add(StepAdd),
                step_list(StepList),
                step_remove(StepRemove),
                step_update(StepUpdate),
                workspace_add(WorkspaceAdd),
                workspace_prompt(WorkspacePrompt),
                workspace_rename(WorkspaceRename),
            }
        }
    }

    async fn suffix(&self) -> String {
        let settings = self.engine.get_app_settings(&Caller::operator(Face::Mcp), input::GetAppSettings {}).await;
        match settings {
            Ok(answer) => answer.settings.tool_suffix,
            Err(error) => {
                tracing::warn!(%error, "the tool suffix can't be read");
                String::new()
            }
        }
    }

    async fn suffix_after(&self, known: &str) -> String {
        loop {
            match self.engine.settings_once(|settings| settings.tool_suffix != known).await {
                Ok(settings) => return settings.tool_suffix,
                Err(error) => {
                    tracing::debug!(%error, "changes of the settings can't be followed; trying again");
                    tokio::time::sleep(FOLLOW_AGAIN).await;
                }
            }
        }
    }
}

impl EngineBackend {
    async fn caller(&self, context: &CallContext) -> Result<Caller> {
        let caller = self.engine.authenticate(context.token.as_deref(), context.face).await?;
        match &context.workspace {
            Some(workspace) => self.engine.confined(caller, workspace).await,
            None => Ok(caller),
        }
    }
}

/// The input of a command. What is wrong inside a nested value shows here; the value itself isn't echoed.
fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let text = error.to_string();
        let kind = text.split([':', '"', '`']).next().unwrap_or_default().trim().to_owned();
        let named = ["missing field", "unknown field"].iter().any(|start| text.starts_with(start));
        let shown = if named { text } else { format!("an argument has the wrong shape ({kind})") };
        Error::new(taskyard_domain::Class::InvalidArgument, shown)
    })
}

fn answer<T: Serialize>(output: &T) -> Result<Value> {
    serde_json::to_value(output).map_err(|error| Error::internal(format!("an answer can't be written: {error}")))
}

/// Protocol sessions in an engine's database.
pub struct EngineSessions {
    engine: Engine,
}

impl EngineSessions {
    /// Sessions are kept by `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl SessionStore for EngineSessions {
    async fn load(&self, id: &str) -> Result<Option<Value>> {
        let id = id.to_owned();
        self.engine.store().read(move |read| Box::pin(async move { read.mcp_session_load(&id).await })).await
    }

    async fn store(&self, id: &str, state: Value) -> Result<()> {
        let id = id.to_owned();
        self.engine.store().write(move |tx| Box::pin(async move { tx.mcp_session_store(&id, state).await })).await
    }

    async fn delete(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.engine.store().write(move |tx| Box::pin(async move { tx.mcp_session_delete(&id).await })).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    struct Nested {
        #[serde(rename = "items")]
        _items: Vec<Map<String, Value>>,
    }

    #[test]
    fn a_misfit_inside_never_shows_the_value() {
        let read = |value: Value| read::<Nested>(value.as_object().cloned().unwrap()).unwrap_err().message;
        assert_eq!(read(json!({ "items": ["hunter2"] })), "an argument has the wrong shape (invalid type)");
        assert!(read(json!({})).contains("missing field `items`"));
    }
}
