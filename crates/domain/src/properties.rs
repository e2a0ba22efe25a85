//! Names, ids and closed words: what is printed is read back, whatever else is read does no harm; the queue's plan
//! keeps its promises for any snapshot.

use crate::alias::Vocabulary;
use crate::error::Class;
use crate::id::{AgentId, ProfileId, RunId, TaskId};
use crate::name::{BranchName, ShortId, slugify, task_prefix};
use crate::queue::{Active, Candidate, Snapshot, plan};
use crate::run::{Outcome, Slot};
use crate::task::{Priority, Status, Word};
use jiff::Timestamp;
use proptest::prelude::*;
use taskyard_testkit::property::{any_text, config};
use uuid::Uuid;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/properties.txt");

/// `word` in another letter case, with something or nothing between its parts.
fn respelled(word: &str, upper: &[bool], between: &str) -> String {
    let mut flags = upper.iter().cycle();
    let letters = word.chars().map(|c| match c {
        '_' => between.to_owned(),
        c if *flags.next().unwrap_or(&false) => c.to_ascii_uppercase().to_string(),
        c => c.to_string(),
    });
    letters.collect()
}

fn check_words<V: Vocabulary + PartialEq + std::fmt::Debug>(upper: &[bool], between: &str, text: &str) -> Result<(), TestCaseError> {
    for (value, word) in V::WORDS {
        prop_assert_eq!(V::read("x", &respelled(word, upper, between)).ok(), Some(*value), "{}", word);
        prop_assert_eq!(V::stored(word), Some(*value));
    }
    for (alias, value) in V::ALIASES {
        prop_assert_eq!(V::read("x", &respelled(alias, upper, between)).ok(), Some(*value), "{}", alias);
    }
    if let Err(error) = V::read("fieldName", text) {
        prop_assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("fieldName")));
    }
    Ok(())
}

fn uuid(n: u8) -> Uuid {
    Uuid::from_u128(u128::from(n) + 1)
}

fn second(n: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + n).unwrap()
}

fn candidate() -> impl Strategy<Value = Candidate> {
    let flag = || prop::bool::weighted(0.15);
    (
        any::<u8>(),
        -3i8..3,
        0i64..9,
        prop::option::weighted(0.3, -5i64..5),
        (flag(), flag(), flag(), flag()),
        prop::option::weighted(0.9, 0u8..3),
    )
        .prop_map(|(id, sort, created, not_before, (manual, blocked, homeless, misfit), profile)| Candidate {
            task_id: TaskId(uuid(id)),
            sort_order: f64::from(sort),
            created_at: second(created),
            not_before: not_before.map(second),
            manual,
            blocked,
            has_repository: !homeless,
            fits_model: !misfit,
            profile_id: profile.map(|n| ProfileId(uuid(n))),
            agent_id: profile.map(|n| AgentId(uuid(n / 2))),
        })
}

fn active() -> impl Strategy<Value = Active> {
    let slot = prop::sample::select(vec![Some(Slot::Queue), Some(Slot::Queue), Some(Slot::Override), None]);
    (any::<u8>(), slot, any::<bool>(), 0u8..3).prop_map(|(id, slot, wants, profile)| Active {
        run_id: RunId(uuid(id)),
        task_id: TaskId(uuid(id)),
        slot,
        profile_id: Some(ProfileId(uuid(profile))),
        wants_slot: wants && slot.is_none(),
        started_at: second(0),
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let caps = prop::collection::vec((0u8..3, 0usize..3), 0..3);
    let limited = prop::collection::vec((0u8..2, -5i64..5), 0..2);
    (prop::collection::vec(candidate(), 0..10), prop::collection::vec(active(), 0..5), 0usize..5, prop::bool::weighted(0.1), limited, caps)
        .prop_map(|(mut candidates, active, configured, paused, limited, caps)| {
            candidates.sort_by_key(|candidate| candidate.task_id);
            candidates.dedup_by_key(|candidate| candidate.task_id);
            let limited = limited.into_iter().map(|(agent, until)| (AgentId(uuid(agent)), second(until))).collect();
            let caps = caps.into_iter().map(|(profile, cap)| (ProfileId(uuid(profile)), cap)).collect();
            Snapshot { candidates, active, configured, paused, limited, caps }
        })
}

proptest! {
    #![proptest_config(config(256, KEPT))]

    #[test]
    fn ids_are_read_back(bits in any::<u128>(), text in any_text()) {
        let id = TaskId(Uuid::from_u128(bits));
        prop_assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        prop_assert_eq!(format!(" {} ", id.to_string().to_uppercase()).parse::<TaskId>(), Ok(id));
        prop_assert_eq!(serde_json::from_value::<TaskId>(serde_json::to_value(id).unwrap()).unwrap(), id);
        if let Ok(id) = text.parse::<TaskId>() {
            prop_assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        }
        prop_assert!(id.to_string()[..35].parse::<TaskId>().is_err(), "a prefix is no id");
    }

    #[test]
    fn short_ids_are_read_back_in_any_letter_case(prefix in "[A-Z]{2,6}", number in 1i64..1_000_000_000_000, upper in prop::collection::vec(any::<bool>(), 1..7), text in "[A-Za-z0-9-]{0,12}|.{0,8}") {
        let id = ShortId::new(&prefix, number);
        prop_assert_eq!(ShortId::parse(&id.to_string()), Some(id.clone()));
        prop_assert_eq!(ShortId::parse(&respelled(&id.to_string().to_lowercase(), &upper, "_")), Some(id));
        if let Some(id) = ShortId::parse(&text) {
            prop_assert!((2..=6).contains(&id.prefix().len()) && id.number() > 0);
            prop_assert_eq!(ShortId::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn slugs_are_plain_words_and_parts_of_branches(text in any_text(), max in 4usize..60) {
        let slug = slugify(&text, max);
        prop_assert!(!slug.is_empty() && slug.len() <= max, "{}", slug);
        prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", slug);
        prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"), "{}", slug);
        prop_assert_eq!(slugify(&slug, max), slug.clone());
        prop_assert!(BranchName::parse(&("taskyard/ty-1-".to_owned() + &slug)).is_ok());
    }

    #[test]
    fn prefixes_are_two_to_six_capitals_and_free(slugs in prop::collection::vec("[a-z0-9-]{0,8}|a", 1..40)) {
        let mut taken: Vec<String> = Vec::new();
        for slug in slugs {
            let prefix = task_prefix(&slug, &taken);
            prop_assert!((2..=6).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_uppercase()), "{}", prefix);
            prop_assert!(!taken.contains(&prefix), "{} again", prefix);
            prop_assert!(ShortId::parse(&(prefix.clone() + "-1")).is_some());
            taken.push(prefix);
        }
    }

    #[test]
    fn a_branch_name_that_is_taken_is_kept_as_typed(text in any_text()) {
        match BranchName::parse(&text) {
            Ok(name) => prop_assert!(name.as_str() == text && name.full_ref() == "refs/heads/".to_owned() + &text),
            Err(error) => prop_assert_eq!(error.class, Class::InvalidArgument),
        }
    }

    #[test]
    fn words_are_read_in_any_spelling(upper in prop::collection::vec(any::<bool>(), 1..9), between in prop::sample::select(vec!["_", "-", " ", ""]), text in any_text()) {
        check_words::<Status>(&upper, between, &text)?;
        check_words::<Word>(&upper, between, &text)?;
        check_words::<Priority>(&upper, between, &text)?;
        check_words::<Outcome>(&upper, between, &text)?;
    }

    #[test]
    fn a_plan_starts_what_may_start_in_order_and_no_more(snapshot in snapshot()) {
        let now = second(0);
        let made = plan(snapshot.clone(), now);
        let taken = snapshot.active.iter().filter(|run| run.slot == Some(Slot::Queue)).count();
        prop_assert!(made.start.is_empty() || taken + made.resume.len() + made.start.len() <= snapshot.configured);
        prop_assert!(made.resume.is_empty() || taken + made.resume.len() <= snapshot.configured);
        prop_assert_eq!(made.start.len() + made.waiting.len(), snapshot.candidates.len(), "each task is started or told why not");
        prop_assert!(!snapshot.paused || made.start.is_empty());
        let of = |id: &TaskId| snapshot.candidates.iter().find(|candidate| candidate.task_id == *id).unwrap();
        for id in &made.start {
            let task = of(id);
            let due = task.not_before.is_none_or(|at| at <= now);
            prop_assert!(!task.manual && !task.blocked && task.has_repository && task.fits_model && task.profile_id.is_some() && due);
            prop_assert!(!snapshot.limited.iter().any(|(agent, until)| Some(*agent) == task.agent_id && *until > now));
        }
        for (profile, cap) in snapshot.caps.iter().take(1) {
            let runs = snapshot.active.iter().filter(|run| run.profile_id == Some(*profile)).count();
            let started = made.start.iter().filter(|id| of(id).profile_id == Some(*profile)).count();
            prop_assert!(started == 0 || runs + started <= *cap);
        }
        let place = |id: &TaskId| { let task = of(id); (task.sort_order, task.created_at, task.task_id) };
        prop_assert!(made.start.windows(2).all(|pair| place(&pair[0]) <= place(&pair[1])));
        prop_assert!(made.wake_at.is_none_or(|at| at > now));
    }
}
