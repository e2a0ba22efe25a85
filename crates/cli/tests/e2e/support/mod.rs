//! What the tests stand on: a server to start, kill and restart, a project, scripted agents, bounded waiting.

mod mcp;
mod server;
mod yard;

pub use mcp::Mcp;
pub use server::{PROGRAM, Server, Setup, Told};
pub use yard::{Task, Yard, prompt, work};

use std::time::{Duration, Instant};

/// Longest that anything is waited for: far above what a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Looks again and again until `look` finds something; panics with `what` after [`PATIENCE`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> F) -> T {
    within(PATIENCE, what, look).await
}

/// [`eventually`] with a limit of its own, for what other people's programs take their time over.
pub async fn within<T, F: Future<Output = Option<T>>>(limit: Duration, what: &str, mut look: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < limit, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ids of living processes that belong to `session` (UUID), by the variable that they all inherit.
pub fn processes_of(session: &str) -> Vec<i32> {
    taskyard_process::tree::marked(&format!("TASKYARD_SESSION_ID={session}"))
}

/// Whether process `pid` lives.
pub fn lives(pid: i32) -> bool {
    taskyard_process::tree::start_time(pid).is_some()
}
