//! Inherited configuration: the effective value of each key and where it comes from.

use crate::list::Config;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Where an effective value comes from, nearest last.
    Source, "source", {
        /// Taskyard's own default.
        BuiltIn = "built_in",
        /// The settings.
        Settings = "settings",
        /// The workspace.
        Workspace = "workspace",
        /// The agent profile.
        Profile = "profile",
        /// The repository.
        Repository = "repository",
        /// The task's worktree.
        Worktree = "worktree",
        /// The list.
        List = "list",
        /// The task.
        Task = "task",
        /// The call.
        Call = "call",
        /// It was the only one there is.
        Only = "only_one",
    }
}

/// A value with its source; `value` is `None` where nothing sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The effective value.
    pub value: Option<T>,
    /// Which level set it.
    pub source: Source,
}

/// The nearest value of a key: the call's, else the task's, else the list's, else what the workspace gives.
pub fn nearest<T>(call: Option<T>, task: Option<T>, list: Option<T>, workspace: Option<T>) -> Sourced<T> {
    let levels = [(call, Source::Call), (task, Source::Task), (list, Source::List), (workspace, Source::Workspace)];
    for (value, source) in levels {
        if value.is_some() {
            return Sourced { value, source };
        }
    }
    Sourced { value: None, source: Source::BuiltIn }
}

/// One key of [`Config`] resolved over task and list.
pub fn over<T: Clone>(task: &Config, list: &Config, key: impl Fn(&Config) -> &Option<T>) -> Sourced<T> {
    nearest(None, key(task).clone(), key(list).clone(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_level_wins() {
        assert_eq!(nearest(Some(1), Some(2), Some(3), Some(4)).source, Source::Call);
        assert_eq!(nearest(None, Some(2), Some(3), Some(4)), Sourced { value: Some(2), source: Source::Task });
        assert_eq!(nearest(None, None, Some(3), Some(4)).source, Source::List);
        assert_eq!(nearest(None, None, None, Some(4)).source, Source::Workspace);
        assert_eq!(nearest::<i32>(None, None, None, None), Sourced { value: None, source: Source::BuiltIn });
    }
}
