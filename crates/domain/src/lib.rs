//! The words and rules of Taskyard as plain data and pure functions.
//!
//! Owns nothing and does nothing: no I/O, no async, no clock, no randomness. Ids and times come in as
//! arguments. Every state machine here is a function `(state, event) -> state` with its whole table
//! under test; whoever changes a state does so through it.

pub mod actor;
pub mod agent;
pub mod alias;
pub mod audit;
pub mod backlog;
pub mod clock;
pub mod config;
pub mod error;
pub mod event;
pub mod id;
pub mod list;
pub mod merge;
pub mod message;
pub mod name;
#[cfg(test)]
mod properties;
pub mod question;
pub mod queue;
pub mod repository;
pub mod run;
pub mod session;
pub mod settings;
pub mod step;
pub mod task;
pub mod task_status;
pub mod template;
pub mod transcript;
pub mod workspace;
pub mod worktree;

pub use actor::{Actor, Face};
pub use clock::Clock;
pub use error::{Class, Error, Result};
pub use id::Ids;
pub use jiff::Timestamp;
