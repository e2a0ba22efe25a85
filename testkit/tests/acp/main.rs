//! The ACP driver against the scripted agent: real processes, real pipes, every way of misbehaving.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod end;
mod handshake;
mod noise;
mod permission;
mod support;
mod turn;
mod wire;
