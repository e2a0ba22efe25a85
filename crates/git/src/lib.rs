//! taskyard-git: the only place that runs git.
//!
//! Repositories and their facts, worktrees and their isolation, what is unsaved in them, the commits that
//! Taskyard makes, snapshots and removal, diffs, previews, merges and reverts. Every call goes through
//! [`runner`]; every operation that a crash may cut in two can be run again. Owns no state but the locks;
//! never touches the user's own checkout except where landing a merge refreshes it.

pub mod error;
pub mod oid;
pub mod repo;
pub mod runner;

pub use error::{Error, Result};
pub use oid::Oid;
pub use repo::Repo;
pub use runner::{Git, Identity, Limits, Policy};
