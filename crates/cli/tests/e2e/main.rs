//! The whole job on the real binary: a server in a process of its own, scripted agents, real git, real kills.
//!
//! Every test has its own server, data folder, home and repository, and takes all of it away at its end.

mod outcomes;
mod support;
