//! The real clock and the real source of ids; tests inject their own.

use jiff::Timestamp;
use taskyard_domain::{Clock, Ids};
use uuid::Uuid;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the time is taken")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Random, time-ordered ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one place where ids are made")]
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}
