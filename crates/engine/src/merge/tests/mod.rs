//! Merges on real repositories and a real store; no agent takes part.

mod counting;
mod crash;
mod looking;
mod merging;
mod opening;
mod putting_away;
mod racing;
mod reverting;
mod reviewing;
pub(crate) mod yard;
