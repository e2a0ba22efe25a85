//! The smallest parsers: frames, usage limits and their times, shell wrappers, permission policy.

use super::lines::pieces;
use crate::frame::{Frame, Framer};
use crate::{cut, limits};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use taskyard_testkit::property::{any_text, config};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/parsers.txt");

fn framed(cap: usize, chunks: &[Vec<u8>]) -> Vec<Frame> {
    let mut framer = Framer::new(cap);
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.push(chunk);
        frames.extend(std::iter::from_fn(|| framer.pop()));
    }
    framer.finish();
    frames.extend(std::iter::from_fn(|| framer.pop()));
    frames
}

/// What the frames of `bytes` are by definition.
fn expected(cap: usize, bytes: &[u8]) -> Vec<Frame> {
    let frame = |line: &[u8]| {
        if line.len() > cap {
            return Some(Frame::Oversized { bytes: line.len() as u64 });
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (!line.trim_ascii().is_empty()).then(|| Frame::Line(String::from_utf8_lossy(line).into_owned()))
    };
    bytes.split(|byte| *byte == b'\n').filter_map(frame).collect()
}

/// Bytes with many line ends, blanks and broken characters.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"\xc3".to_vec()),
        Just("ä€😀".as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
        (1usize..300).prop_map(|length| vec![b'x'; length]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Words of which limits are told, in any order.
fn limit_text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "usage limit reached",
        "429",
        "rate limit",
        "resets",
        "reset at",
        "try again",
        "in",
        "at",
        "until",
        "retry-after:",
        "reached|",
        "3pm",
        "12:60",
        "99:99pm",
        "2h 5m",
        "1 day",
        "999999999999999999 weeks",
        "1796043600",
        "1796040000000",
        "99999999999",
        "2026-12-01T08:30:00Z",
        "2026-13-45T99:00:00+99:99",
        "Dec 3rd, 2026 3:04 PM",
        "Feb 30, 9am",
        "Mon 12:00 AM",
        "tomorrow 9am",
        "(Europe/Berlin)",
        "(Nowhere/Land)",
        "UTC",
        "now+20s",
        "and",
        "é",
        "\u{130}",
        ",",
        ":",
        "\n",
    ]);
    let part = prop_oneof![6 => word.prop_map(str::to_owned), 1 => any_text(), 1 => "[0-9:apm. -]{1,12}"];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.join(" "))
}

fn some_time() -> impl Strategy<Value = Timestamp> {
    (0i64..4_102_444_800).prop_map(|second| Timestamp::from_second(second).unwrap())
}

proptest! {
    #![proptest_config(config(256, KEPT))]

    #[test]
    fn frames_are_the_lines_however_the_bytes_are_cut(
        bytes in stream(), cap in 1usize..200, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)
    ) {
        prop_assert_eq!(framed(cap, &pieces(&bytes, &cuts)), expected(cap, &bytes));
    }

    #[test]
    fn a_limit_is_told_by_any_words_without_harm_and_its_time_is_near(text in limit_text(), now in some_time()) {
        for zone in ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"] {
            let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
            if let Some(notice) = limits::notice_at(&text, now, &zone) {
                prop_assert!(notice.message.len() <= 600);
                if let Some(at) = notice.reset_at {
                    prop_assert!(at.duration_since(now).abs().as_hours() <= 400 * 24 + 1, "{} from {}", at, now);
                }
            }
        }
        limits::told(&text);
        limits::certain(&text);
    }

    #[test]
    fn a_stated_time_is_read_back(seconds in 60i64..30 * 86_400, now in some_time()) {
        let at = now + jiff::SignedDuration::from_secs(seconds);
        let zone = TimeZone::UTC;
        let read = |text: &str| limits::notice_at(text, now, &zone).and_then(|notice| notice.reset_at);
        prop_assert_eq!(read(&format!("Usage limit reached, resets at {at}.")), Some(at));
        prop_assert_eq!(read(&format!("usage limit reached; try again in {seconds} seconds")), Some(at));
        if at.as_second() >= 1_000_000_000 {
            prop_assert_eq!(read(&format!("Claude AI usage limit reached|{}", at.as_second())), Some(at));
        }
    }

    #[test]
    fn texts_are_cut_to_size_and_the_tail_is_the_end(texts in prop::collection::vec(any_text(), 0..6), max in 0usize..100) {
        let mut tail = cut::Tail::default();
        for text in &texts {
            tail.push(text);
            prop_assert!(cut::text(text, max).len() <= max.max(text.len().min(max)) + 40);
        }
        let (whole, kept) = (texts.concat(), tail.take());
        prop_assert!(kept.len() <= cut::LAST_TEXT && whole.ends_with(&kept));
        prop_assert!(kept.len() + 4 > whole.len().min(cut::LAST_TEXT));
    }
}
