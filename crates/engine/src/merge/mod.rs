//! Merges and reverts: sagas whose every step can be run again.
//!
//! Intent first: the record is written before git does anything, the result is computed in private scratch
//! space, the target moves by compare-and-swap, and only then are record, worktree and task concluded. What a
//! crash leaves in between is finished or given up by [`Engine::reconcile_merges`](crate::Engine), from the
//! record alone. One merge at a time per repository, so that approvals queue up instead of failing each other.
//!
//! This module owns the records and the worktrees' states after review. It never touches a user's checkout
//! except through [`taskyard_git::land`], and it never forgets a record whose target has moved.

mod again;
mod author;
mod begin;
mod bench;
mod by_hand;
mod conclude;
mod conflict;
mod finish;
mod open;
mod origin;
mod place;
mod preview;
mod put_away;
mod quiet;
mod recover;
mod revert;
mod saga;
mod target;
mod unmerged;
mod view;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use begin::{OnConflict, Wish, check_no_run, none_under_way};
pub(crate) use bench::Bench;
pub(crate) use conclude::Concluded;
pub(crate) use origin::origin;
pub(crate) use place::Place;
pub use preview::PreviewView;
pub(crate) use preview::{Stand, Trial, word as preview_word};
pub(crate) use put_away::{Loss, Release};
pub(crate) use quiet::Asked;
pub(crate) use saga::Outcome;
pub use view::MergeView;

use taskyard_domain::Error;

/// The error of a saga that stopped before anything moved.
fn unchanged(mut error: Error) -> Error {
    let mut details = error.details.take().unwrap_or_else(|| serde_json::json!({}));
    if let Some(map) = details.as_object_mut() {
        map.insert("nothing_changed".into(), true.into());
    }
    error.details = Some(crate::fold::few(details));
    error
}
