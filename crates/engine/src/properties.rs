//! Random sequences of commands on both databases: the rules of tasks, runs, questions and the queue hold after every
//! step, a refused command has changed nothing, and both databases come to the same.
//!
//! A step is a command of a person, or what a session's actor, the queue or a restart would do. Agents aren't started.

mod rules;
mod steps;
mod world;

use proptest::prelude::*;
use steps::{Step, step};
use taskyard_testkit::property::config;
use world::World;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/commands.txt");

/// Every step on every world; what they come to is the same.
async fn play(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut worlds = World::each().await;
    let mut before = worlds[0].look().await;
    for (number, step) in steps.iter().enumerate() {
        let mut first: Option<(serde_json::Value, serde_json::Value)> = None;
        for world in &mut worlds {
            let planned = world.planned().await;
            let outcome = world.take(step, &before).await;
            let after = world.look().await;
            let at = format!("step {number} {step:?} on {} came to {outcome}", world.name);
            rules::check(&before, &after, step, &outcome, &at)?;
            rules::check_queue(world, &after, step, &planned, &before, &at).await?;
            match &first {
                None => first = Some((outcome, after)),
                Some((expected, state)) => {
                    prop_assert_eq!(&outcome, expected, "{}: another outcome", at);
                    prop_assert!(&after == state, "{}: another state\n{}", at, rules::difference(state, &after));
                }
            }
        }
        before = first.map(|(_, state)| state).unwrap_or_default();
    }
    for world in worlds {
        world.finish().await;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..config(2, KEPT) })]

    #[test]
    fn commands_in_any_order_keep_the_rules_on_both_databases(steps in prop::collection::vec(step(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(play(&steps))?;
    }
}
