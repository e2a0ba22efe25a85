//! The tests of the commands once more, on PostgreSQL. Where there is none they run on SQLite, after saying so.

#![expect(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

/// Which database the commands run on here.
const ON_POSTGRES: bool = true;

#[path = "../support/mod.rs"]
mod support;

#[path = "../commands/agents.rs"]
mod agents;
#[path = "../commands/answers.rs"]
mod answers;
#[path = "../commands/audit.rs"]
mod audit;
#[path = "../commands/backlog.rs"]
mod backlog;
#[path = "../commands/claim_rules.rs"]
mod claim_rules;
#[path = "../commands/claims.rs"]
mod claims;
#[path = "../commands/config.rs"]
mod config;
#[path = "../commands/deletion.rs"]
mod deletion;
#[path = "../commands/dependencies.rs"]
mod dependencies;
#[path = "../commands/identity.rs"]
mod identity;
#[path = "../commands/lists.rs"]
mod lists;
#[path = "../commands/operator.rs"]
mod operator;
#[path = "../commands/questions.rs"]
mod questions;
#[path = "../commands/status.rs"]
mod status;
#[path = "../commands/tasks.rs"]
mod tasks;
#[path = "../commands/wait.rs"]
mod wait;
