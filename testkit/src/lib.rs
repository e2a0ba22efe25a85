//! What Taskyard's tests (and its demo) stand on: a scripted agent that speaks ACP, a scripted model for real
//! agents, and temporary repositories with a git that doesn't see the machine's configuration.
//!
//! Owns nothing of the product's state. The demo uses the scripted agent too, so nothing in here depends
//! on a test harness.

pub mod model;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "property")]
pub mod property;
pub mod repo;
pub mod scripted;
