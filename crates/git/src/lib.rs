//! taskyard-git: the only place that runs git.
//!
//! Repositories and their facts, worktrees and their isolation, what is unsaved in them, the commits that
//! Taskyard makes, snapshots and removal, diffs, previews, merges and reverts. Every call goes through
//! [`runner`]; every operation that a crash may cut in two can be run again. Owns no state but the locks;
//! never touches the user's own checkout except where landing a merge refreshes it.

mod by_hand;
mod carry;
pub mod commit;
pub mod contents;
pub mod copy;
pub mod diff;
pub mod error;
pub mod facts;
pub mod file_path;
mod fs;
pub mod furnished;
mod graph;
pub mod history;
mod hook_dir;
mod ignored_links;
mod index;
pub mod isolation;
pub mod land;
mod layout;
pub mod merge;
pub mod merge_tree;
pub mod oid;
pub mod open_merge;
mod present;
pub mod preview;
pub mod preview_set;
#[cfg(test)]
mod properties;
pub mod record;
mod refresh;
pub mod refs;
pub mod removal;
mod replay;
pub mod repo;
pub mod revert;
pub mod runner;
pub mod scratch;
pub mod script;
mod settings;
pub mod snapshot;
pub mod status;
pub mod submodule;
pub mod unsaved;
pub mod worktree;

pub use error::{Error, Result};
pub use file_path::FilePath;
pub use oid::Oid;
pub use repo::Repo;
pub use runner::{Git, Identity, Limits, Policy};
