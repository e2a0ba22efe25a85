//! The whole job on the real binary: a server in a process of its own, scripted agents, real git, real kills.
//!
//! Every test has its own server, data folder, home and repository, and takes all of it away at its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

mod bridge;
mod cases;
mod claims;
mod claims_wire;
mod command_line;
mod crash;
mod follow_up;
mod git_cleanup;
mod git_commits;
mod git_crash;
mod git_diff;
mod git_merge;
mod git_preview;
mod git_revert;
mod git_worktrees;
mod identity;
mod limits;
mod mcp_surface;
mod mcp_wait;
mod migration;
mod noise;
mod outcomes;
mod permission;
mod project;
mod queue;
mod serving;
mod stopping;
mod support;
