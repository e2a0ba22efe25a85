//! Settings and generators that property tests share.
//!
//! `PROPTEST_CASES` (set by `make fuzz CASES=…`) scales every property from its own default, so that slow ones stay
//! slow ones. What a property failed on once is kept beside its crate in `proptest-regressions` and tried first.

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::Value;

/// The number of cases that `PROPTEST_CASES` scales from.
const USUAL: u64 = 256;

/// Settings of a property that takes `cases` cases in `make test`. `regressions` is the absolute path of the file with
/// what it failed on before.
pub fn config(cases: u32, regressions: &'static str) -> Config {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(USUAL);
    let cases = (u64::from(cases) * wanted).div_ceil(USUAL).clamp(1, u64::from(u32::MAX));
    Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..Config::default()
    }
}

/// Any JSON value, a few levels deep.
pub fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), any_text().prop_map(Value::from),];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z_]{1,10}", inner, 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Numbers, those at the ends of their ranges among them.
pub fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3i64..200).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            Value::from(i64::MAX),
            Value::from(i64::MIN),
            Value::from(u64::MAX),
            Value::from(1e300),
            Value::from(0.5)
        ]),
    ]
}

/// Texts: usual ones, odd characters, long ones.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 _./:-]{0,16}",
        2 => ".{0,12}",
        1 => prop::sample::select(vec!["", " ", "\0", "\n", "\u{202e}x", "é", "../..", "TY-1", "'; DROP TABLE task; --", "{{title}}"])
            .prop_map(str::to_owned),
        1 => ("[a-z\u{e9}\u{1f600}]", 1000usize..40_000).prop_map(|(text, times)| text.repeat(times)),
    ]
}

/// `text` with pieces cut out, doubled or overwritten: what is left of a good line after an accident.
pub fn damaged(text: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let accident = (any::<prop::sample::Index>(), 0usize..40, 0u8..4, any::<u8>());
    (text, prop::collection::vec(accident, 1..4)).prop_map(|(mut bytes, accidents)| {
        for (at, length, kind, byte) in accidents {
            if bytes.is_empty() {
                break;
            }
            let from = at.index(bytes.len());
            let to = (from + length).min(bytes.len());
            match kind {
                0 => drop(bytes.drain(from..to)),
                1 => bytes[from..to].fill(byte),
                2 => bytes.truncate(from),
                _ => {
                    let piece = bytes[from..to].to_vec();
                    bytes.splice(from..from, piece);
                }
            }
        }
        bytes
    })
}
