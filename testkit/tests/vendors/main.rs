//! The drivers of vendors' own protocols against stand-ins: real processes, real pipes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod dialogue;
mod exec;
mod support;
