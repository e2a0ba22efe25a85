//! The whole job on repositories made from published packages: every shape through run, review, conflict, every merge
//! strategy, revert and merging again, each result held against what plain git makes of the same commits.
//!
//! `make test-repositories` builds the repositories and runs this; without them it fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what took how long"
)]

mod flow;
mod plain;
#[path = "../e2e/project.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests")]
mod project;
mod shapes;
mod stage;
#[path = "../e2e/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the end-to-end tests")]
mod support;
