//! Placeholder of the recognition of usage limits until it is written.

use crate::contract::LimitNotice;

/// The usage limit that `text` tells of, if it does.
pub fn notice(_text: &str) -> Option<LimitNotice> {
    None
}
