//! Recognises that an agent's account has hit a usage limit, and until when, from the agent's own words.
//!
//! Vendors tell it in prose, in JSON and in header text; none of it is a stable format, so this looks for
//! phrases and then for a time behind the words that announce one. A request that was merely throttled
//! ("429", "overloaded") is a limit only when the text says when it ends: what an agent retries by itself
//! is none of our business. Pure, except for [`notice`], which asks the system for time and zone.

mod when;

use crate::contract::LimitNotice;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Phrases that tell of a usage limit by themselves (lower case).
const LIMITS: &[&str] = &[
    "usage limit reached",
    "usage limit exceeded",
    "usage limit has been reached",
    "usage_limit_reached",
    "usage_limit_exceeded",
    "usagelimitexceeded",
    "hit your usage limit",
    "hit the usage limit",
    "reached your usage limit",
    "reached the usage limit",
    "exceeded your usage limit",
    "usage limit for",
    "hit your limit",
    "reached your limit",
    "hit your session limit",
    "hit your weekly limit",
    "hit your 5-hour limit",
    "hit your opus limit",
    "hit your sonnet limit",
    "hit your monthly spend limit",
    "session limit reached",
    "hour limit reached",
    "daily limit reached",
    "weekly limit reached",
    "monthly limit reached",
    "opus limit reached",
    "sonnet limit reached",
    "out of extra usage",
    "exhausted your daily quota",
    "exhausted your capacity",
    "quota will reset",
];

/// Phrases of a throttled request: a limit only together with a time.
const THROTTLED: &[&str] = &[
    "rate_limit",
    "rate limit",
    "ratelimit",
    "429",
    "too many requests",
    "quota exceeded",
    "exceeded your current quota",
    "resource_exhausted",
    "limit reached",
    "usage limit",
];

/// Longest text that is looked at; a limit is told in a sentence or a small JSON object.
const LOOKED_AT: usize = 8 << 10;
/// Longest message kept.
const MESSAGE: usize = 500;

/// The usage limit that `text` tells of, if it does; times of the day without a zone are this machine's.
pub fn notice(text: &str) -> Option<LimitNotice> {
    notice_at(text, now(), &TimeZone::system())
}

/// The same at a given time; times of the day that name no zone are taken in `zone`.
pub fn notice_at(text: &str, now: Timestamp, zone: &TimeZone) -> Option<LimitNotice> {
    let text = &text[..text.floor_char_boundary(LOOKED_AT)];
    let lower = text.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    let (limit, throttled) = (says(LIMITS), says(THROTTLED));
    if !limit && !throttled {
        return None;
    }
    let reset_at = when::stated(text, now, zone);
    if !limit && reset_at.is_none() {
        return None;
    }
    Some(LimitNotice { reset_at, message: crate::cut::text(text.trim(), MESSAGE) })
}

/// The limit that an agent's last words tell of although its turn ended in good order. Only an unmistakable phrase
/// counts here: an agent may well speak of a rate limiter that it has just built.
pub fn told(text: &str) -> Option<LimitNotice> {
    let lower = text.to_lowercase();
    LIMITS.iter().any(|phrase| lower.contains(phrase)).then(|| notice(text)).flatten()
}

/// A limit the protocol itself reports; the time is taken from the words where they state one.
pub fn certain(text: &str) -> LimitNotice {
    notice(text).unwrap_or_else(|| LimitNotice {
        reset_at: when::stated(text, now(), &TimeZone::system()),
        message: crate::cut::text(text.trim(), MESSAGE),
    })
}

/// The time now, at the edge of the drivers: limits are told relative to it.
pub fn now() -> Timestamp {
    Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn at(text: &str) -> Option<LimitNotice> {
        notice_at(text, NOW.parse().unwrap(), &TimeZone::UTC)
    }

    fn reset(text: &str) -> String {
        let notice = at(text).unwrap_or_else(|| panic!("no limit seen in {text:?}"));
        notice.reset_at.map_or_else(|| "unknown".into(), |t| t.to_string())
    }

    #[test]
    fn words_about_rate_limits_are_no_limit() {
        assert!(told("Added the rate limiter: clients get 429 and must retry after 30 seconds.").is_none());
        for words in ["usage limit. Try again in 2 hours.", "5-hour limit · resets 9:13am (UTC)", "monthly spend limit."] {
            assert!(told(&format!("You've hit your {words}")).is_some(), "{words}");
        }
    }

    #[test]
    fn limits_and_their_times_are_read() {
        let cases = [
            ("Claude AI usage limit reached|1796000000", "2026-11-30T00:53:20Z"),
            ("Claude AI usage limit reached|1796040000000", "2026-11-30T12:00:00Z"),
            ("5-hour limit reached ∙ resets 3pm", "2026-11-30T15:00:00Z"),
            ("5-hour limit reached ∙ resets 3am", "2026-12-01T03:00:00Z"),
            ("You've hit your 5-hour limit · resets 9:13pm (UTC)", "2026-11-30T21:13:00Z"),
            ("You've hit your limit · resets 3:30pm (America/New_York)", "2026-11-30T20:30:00Z"),
            ("You've hit your weekly limit · resets Dec 4, 9am (Europe/Berlin)", "2026-12-04T08:00:00Z"),
            ("Weekly limit reached ∙ resets Mon 12:00 AM", "2026-12-07T00:00:00Z"),
            ("Usage limit reached. Resets at 2026-12-01T08:30:00Z.", "2026-12-01T08:30:00Z"),
            ("Usage limit reached; resets at 2026-12-01T08:30:00+02:00", "2026-12-01T06:30:00Z"),
            ("usage limit reached, resets in 2h 5m", "2026-11-30T14:05:00Z"),
            ("You've hit your usage limit. Try again in 2 days 3 hours 4 minutes.", "2026-12-02T15:04:00Z"),
            (
                "You've hit your usage limit. Upgrade to Pro (https://x.test/explore), or try again in 1 hour and 30 minutes.",
                "2026-11-30T13:30:00Z",
            ),
            ("You've hit your usage limit. Try again at Dec 3rd, 2026 3:04 PM.", "2026-12-03T15:04:00Z"),
            ("You've hit your usage limit. Try again at 4:15 PM.", "2026-11-30T16:15:00Z"),
            ("usage limit reached: try again at 23:10", "2026-11-30T23:10:00Z"),
            ("usage limit reached, resets at 09:00 UTC", "2026-12-01T09:00:00Z"),
            ("usage limit reached; reset: now+20s", "2026-11-30T12:00:20Z"),
            (r#"429 {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}} retry-after: 3600"#, "2026-11-30T13:00:00Z"),
            (r#"{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_at":1796043600}}"#, "2026-11-30T13:00:00Z"),
            (r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#, "2026-11-30T12:01:30Z"),
            ("rate_limit_error; anthropic-ratelimit-unified-reset: 1796043600", "2026-11-30T13:00:00Z"),
            ("429 Too Many Requests. Your quota will reset after 5h2m.", "2026-11-30T17:02:00Z"),
            (r#"RESOURCE_EXHAUSTED: Quota exceeded. "retryDelay": "34.5s""#, "2026-11-30T12:00:34.5Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(reset(text), expected, "{text}");
        }
    }

    #[test]
    fn a_limit_without_a_time_is_still_a_limit() {
        for text in ["You've hit your usage limit. Visit https://x.test to buy more", "Claude usage limit reached.", "usage_limit_reached"]
        {
            assert_eq!(reset(text), "unknown", "{text}");
        }
    }

    #[test]
    fn throttling_and_other_errors_are_not_limits() {
        for text in [
            "API Error: Request rejected (429) · rate limited",
            r#"529 {"type":"overloaded_error","message":"Overloaded"}"#,
            "Reconnecting... 2/5 (429 Too Many Requests)",
            "Prompt is too long",
            "Invalid API key",
            "the limit of 100 lines was reached at line 30",
            "",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn huge_and_odd_texts_do_no_harm() {
        let long = format!("usage limit reached {}", "é".repeat(20_000));
        assert!(at(&long).unwrap().message.len() < 600);
        for text in [
            "usage limit reached|99999999999999999999",
            "usage limit reached, resets in 99999999999999 days",
            "usage limit, resets 99pm",
            "usage limit reached, resets at 2026-13-45T99:00:00Z",
        ] {
            assert_eq!(at(text).and_then(|n| n.reset_at), None, "{text}");
        }
    }

    #[test]
    fn the_clock_ticks() {
        assert!(now() > "2025-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(certain("429").reset_at, None);
    }
}
