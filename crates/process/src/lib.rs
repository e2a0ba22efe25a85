//! The one place that starts processes.
//!
//! Every spawn has an explicit folder, an environment built from a scrubbed [`Environment`], closed or
//! given standard input, a time limit and capped output. Long-lived children ([`spawn`]) are owned as a
//! whole tree: their own process group, a marker in the environment that descendants inherit, and a
//! [`tree::end`] that reaches those which left the group. Never reads the environment by itself.

pub mod environment;
pub mod run;
pub mod spawn;
pub mod tree;

pub use environment::{Environment, is_program};
pub use run::{Command, Error, Input, Output, run};
pub use spawn::{Child, Spawn, spawn};
