//! Who waits for a merge, so that tidying up after others gives way.
//!
//! Owns how many merges and reverts are asked for and not ended, and when the last one ended. In memory only: a start
//! finds nobody waiting.

use crate::Engine;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long nobody may have merged before tidying up begins, seconds: somebody who approves one task after another doesn't
/// wait for it.
const PAUSE_S: f64 = 0.25;
/// How long tidying up gives way at most, seconds.
const GIVE_WAY_S: f64 = 5.0;

/// Merges that are asked for.
#[derive(Debug)]
pub(crate) struct Asked(watch::Sender<State>);

#[derive(Debug, Clone, Copy, Default)]
struct State {
    asked: usize,
    ended: Option<Instant>,
}

impl Default for Asked {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

/// A merge that is asked for, until it is dropped.
pub(super) struct Asking<'a>(&'a Asked);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| *state = State { asked: state.asked.saturating_sub(1), ended: Some(Instant::now()) });
    }
}

impl Asked {
    pub(super) fn ask(&self) -> Asking<'_> {
        self.0.send_modify(|state| state.asked += 1);
        Asking(self)
    }

    async fn quiet(&self, pause: Duration) {
        let mut seen = self.0.subscribe();
        loop {
            let State { asked, ended } = *seen.borrow_and_update();
            let until = ended.map(|ended| ended + pause).filter(|until| *until > Instant::now());
            match (asked, until) {
                (0, None) => return,
                (0, Some(until)) => {
                    let _ = tokio::time::timeout_at(until, seen.changed()).await;
                }
                _ if seen.changed().await.is_err() => return,
                _ => {}
            }
        }
    }
}

impl Engine {
    /// Waits until nobody waits for a merge and none has just ended; for a bounded time.
    pub(crate) async fn merges_quiet(&self) {
        tokio::select! {
            _ = tokio::time::timeout(self.patience(GIVE_WAY_S), self.merges_asked().quiet(self.patience(PAUSE_S))) => {}
            () = self.shutdown().cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tidying_up_waits_while_a_merge_is_asked_for() {
        let asked = Asked::default();
        let pause = Duration::from_millis(20);
        asked.quiet(pause).await;
        let one = asked.ask();
        {
            let mut quiet = std::pin::pin!(asked.quiet(pause));
            tokio::select! {
                biased;
                () = &mut quiet => panic!("somebody waits for a merge"),
                () = std::future::ready(()) => {}
            }
            drop(one);
            tokio::select! {
                biased;
                () = &mut quiet => panic!("the merge has only just ended"),
                () = std::future::ready(()) => {}
            }
            quiet.await;
        }
    }
}
