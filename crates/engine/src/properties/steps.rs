//! What can happen, with small numbers that stand for tasks and runs, so that sequences shrink.

use proptest::prelude::*;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Add { list: u8, queue: bool, manual: bool, blocked_by: Vec<u8>, key: Option<u8>, sort: Option<i8>, due: Option<i16> },
    Sub { parent: u8, queue: bool, key: Option<u8> },
    Update { task: u8, what: u8 },
    Word { task: u8, word: u8 },
    Block { task: u8, on: u8 },
    Unblock { task: u8, on: u8 },
    Delete { task: u8 },
    Cancel { task: u8 },
    Reset { task: u8 },
    Review { task: u8, decision: u8 },
    RunNow { task: u8 },
    Continue { task: u8, key: Option<u8> },
    Configure { task: u8, what: u8 },
    Dispatch,
    Turn { run: u8 },
    Ask { run: u8, request: u8 },
    Withdraw { run: u8, request: u8 },
    Answer { question: u8, how: u8 },
    GiveSlotBack { run: u8 },
    End { run: u8, outcome: u8 },
    Repair,
    Pause(bool),
    Slots(u8),
    ResumeLimited(bool),
    Unlimit(u8),
    Pass(u16),
}

/// The words of [`Step::Word`].
pub const WORDS: &[&str] = &["ready", "queued", "cancelled", "done"];
/// The decisions of [`Step::Review`].
pub const DECISIONS: &[&str] = &["approve", "reject_rerun", "reject_park", "cancel"];

/// Any step; those that bring a task forward are frequent.
pub fn step() -> impl Strategy<Value = Step> {
    let task = 0u8..8;
    let key = || prop::option::weighted(0.3, 0u8..3);
    let run = 0u8..3;
    prop_oneof![
        8 => (0u8..2, any::<bool>(), prop::bool::weighted(0.1), prop::collection::vec(task.clone(), 0..2), key(),
              prop::option::of(-3i8..3), prop::option::weighted(0.2, -60i16..600))
            .prop_map(|(list, queue, manual, blocked_by, key, sort, due)| Step::Add { list, queue, manual, blocked_by, key, sort, due }),
        2 => (task.clone(), any::<bool>(), key()).prop_map(|(parent, queue, key)| Step::Sub { parent, queue, key }),
        3 => (task.clone(), 0u8..8).prop_map(|(task, what)| Step::Update { task, what }),
        8 => (task.clone(), 0u8..4).prop_map(|(task, word)| Step::Word { task, word }),
        3 => (task.clone(), task.clone()).prop_map(|(task, on)| Step::Block { task, on }),
        1 => (task.clone(), task.clone()).prop_map(|(task, on)| Step::Unblock { task, on }),
        2 => task.clone().prop_map(|task| Step::Delete { task }),
        3 => task.clone().prop_map(|task| Step::Cancel { task }),
        2 => task.clone().prop_map(|task| Step::Reset { task }),
        6 => (task.clone(), 0u8..4).prop_map(|(task, decision)| Step::Review { task, decision }),
        3 => task.clone().prop_map(|task| Step::RunNow { task }),
        3 => (task.clone(), key()).prop_map(|(task, key)| Step::Continue { task, key }),
        2 => (task, 0u8..6).prop_map(|(task, what)| Step::Configure { task, what }),
        8 => Just(Step::Dispatch),
        4 => run.clone().prop_map(|run| Step::Turn { run }),
        5 => (run.clone(), 0u8..2).prop_map(|(run, request)| Step::Ask { run, request }),
        2 => (run.clone(), 0u8..2).prop_map(|(run, request)| Step::Withdraw { run, request }),
        4 => (0u8..4, 0u8..5).prop_map(|(question, how)| Step::Answer { question, how }),
        2 => run.clone().prop_map(|run| Step::GiveSlotBack { run }),
        8 => (run, 0u8..8).prop_map(|(run, outcome)| Step::End { run, outcome }),
        1 => Just(Step::Repair),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (1u8..4).prop_map(Step::Slots),
        1 => any::<bool>().prop_map(Step::ResumeLimited),
        1 => (0u8..2).prop_map(Step::Unlimit),
        2 => (0u16..900).prop_map(Step::Pass),
    ]
}
