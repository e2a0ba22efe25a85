//! The ACP driver against the scripted agent: real processes, real pipes, every way of misbehaving.

mod end;
mod handshake;
mod noise;
mod permission;
mod support;
mod turn;
