//! Drivers for coding agents: one interface, a closed enum of events, whatever the program speaks.
//!
//! A driver starts one agent process in a given folder, speaks its protocol, and turns what it says
//! into [`Event`]s. It decides nothing about tasks: whether a turn was a success is judged by the
//! engine from facts. It never touches the store, and every process goes through `taskyard-process`.

pub mod contract;
pub mod cut;
pub mod detect;
pub mod emit;
pub mod frame;
pub mod limits;
pub mod permission;
pub mod process;

mod acp;
mod claude;
mod codex;
mod dialogue;
mod exec;
#[cfg(test)]
mod properties;
mod start;

pub use contract::{
    Answer, Command, Event, Handle, Heard, Launch, LimitNotice, McpServer, Permission, PermissionOption, Resume, StartError, TurnEnd,
    TurnStop,
};
pub use start::start;
