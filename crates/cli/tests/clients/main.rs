//! Real MCP clients against the real server, offline: the official SDKs (newest and of 2025), the inspector, and the
//! coding agents that are MCP clients, over HTTP, the older HTTP+SSE and `taskyard mcp`. Run by `make test-clients`,
//! which installs them.
//!
//! Each test has its own server, data folder and home. Limits of the clients are shortened where they can be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail by panicking")]

mod agents;
mod inspector;
mod program;
mod sdk;
mod stage;
#[path = "../e2e/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the end-to-end tests use more of it")]
mod support;
