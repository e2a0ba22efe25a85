//! Where the time comes from. Injected, so that tests can fix it.

use jiff::Timestamp;

/// A source of the present time.
pub trait Clock: Send + Sync + 'static {
    /// Now, UTC.
    fn now(&self) -> Timestamp;
}
