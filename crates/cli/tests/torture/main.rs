//! The campaign: rounds of load and faults on the real binary, and every invariant of the product after each.
//!
//! `make torture` plays many rounds and goes on where it stopped; a few are played by `make test`. A seed names a
//! round: the same faults, the same work, the same dice of each client. What a round that isn't clean leaves stays on
//! the disk, and its seed is printed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say how far they are"
)]

mod base;
mod by_hand;
mod check;
mod clients;
mod dice;
mod disk;
mod faults;
mod jobs;
mod ledger;
mod round;
mod settle;
mod shim;
mod stage;
mod state;
#[path = "../e2e/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the end-to-end tests")]
mod support;
mod target;
mod wire;

use state::State;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

/// The short campaign: each round a test of its own, so that they run side by side and none outlasts its limit.
macro_rules! short_campaign {
    ($($name:ident: $seed:literal),*) => {
        $(#[tokio::test]
        async fn $name() {
            campaign($seed, 1, None).await;
        })*
    };
}

short_campaign!(
    round_1: 1, round_2: 2, round_3: 3, round_4: 4, round_5: 5, round_6: 6, round_7: 7, round_8: 8, round_9: 9, round_10: 10
);

/// `ROUNDS` rounds from `SEED` on, without those that the file `STATE` says were clean with the same `BUILD`; for
/// `make torture`.
#[tokio::test]
#[ignore = "as long as it is asked to be"]
async fn rounds() {
    let number = |name: &str, default| std::env::var(name).ok().map_or(default, |text| text.parse().expect(name));
    let state = std::env::var_os("STATE").map(PathBuf::from).map(|path| State::open(path, std::env::var("BUILD").unwrap_or_default()));
    campaign(number("SEED", 1), number("ROUNDS", 100), state).await;
}

async fn campaign(first: u64, rounds: u64, state: Option<State>) {
    let mut figures: BTreeMap<String, usize> = BTreeMap::new();
    let mut failures = String::new();
    for seed in (first..first + rounds).filter(|seed| state.as_ref().is_none_or(|state| !state.is_clean(*seed))) {
        let began = Instant::now();
        let outcome = round::play(seed).await;
        let word = if outcome.wrong.is_empty() { "clean" } else { "NOT CLEAN" };
        println!("seed {seed}: {word} in {} ms", began.elapsed().as_millis());
        for text in &outcome.internal {
            println!("  internal: {text}");
        }
        if let Some(state) = &state {
            state.write(seed, outcome.wrong.is_empty(), &outcome.figures);
        }
        for (name, count) in outcome.figures {
            *figures.entry(name).or_default() += count;
        }
        if let Some(kept) = outcome.kept {
            let failure = format!("seed {seed}, kept in {}:\n  {}", kept.display(), outcome.wrong.join("\n  "));
            println!("{failure}");
            let _ = writeln!(failures, "{failure}");
        }
    }
    println!("{figures:#?}");
    assert!(failures.is_empty(), "not every round was clean:\n{failures}");
}
