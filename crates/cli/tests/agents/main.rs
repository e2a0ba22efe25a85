//! The whole job with real coding agents, offline: the real server and the agents that npm has, whose models are played
//! by the testkit's scripted model. Run by `make test-agents`, which installs them.
//!
//! Each test has its own server, data folder, home and repository. An agent is configured as the README tells a user to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

mod acp;
mod cases;
mod claude;
mod codex;
mod harness;
mod steering;
#[path = "../e2e/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the end-to-end tests use more of it")]
mod support;
mod wide;
