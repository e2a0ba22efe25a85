//! The use cases of Taskyard: one command per file, the queue, live sessions, merges, reconcilers.
//!
//! Faces translate and call; every rule is here or in `taskyard-domain`. A command is one store
//! transaction (rows, event, audit entry, outbox effect); what must happen outside the database happens
//! after the commit, from the outbox, and reports back through another command. The engine owns the live
//! session actors and the background loops; it never speaks SQL and never runs git itself.

mod caller;
mod change;
pub mod commands;
mod effect;
mod engine;
mod facts;
mod fold;
mod handle;
mod listings;
mod merge;
pub mod operator;
#[cfg(test)]
mod properties;
mod queue;
mod reconcile;
mod resolve;
mod session;
mod system;
pub mod view;

pub use caller::Caller;
pub use commands::input;
pub use engine::{Engine, Options, Paths};
pub use resolve::Effective;
pub use system::{SystemClock, SystemIds};
