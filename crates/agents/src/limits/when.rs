//! Times as agents write them: unix seconds, RFC 3339, "in 2h 5m", "3pm (Europe/Berlin)", "Dec 3rd, 2026 3:04 PM".
//!
//! Looks only behind words that announce a reset; the first that reads as a time wins. Pure.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// Words that announce a time (lower case).
const ANNOUNCE: &[&str] = &["reset", "retry", "try again", "available", "until", "wait", "reached|"];
/// How far behind such a word a time may begin, in bytes.
const REACH: usize = 48;
/// Stated times further away than this are misreadings.
const FAR: SignedDuration = SignedDuration::from_hours(24 * 400);

/// The time at which `text` says that it ends.
pub(super) fn stated(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    // ASCII lower case keeps byte positions, so that both texts can be cut alike.
    let lower = text.to_ascii_lowercase();
    let mut places: Vec<usize> = ANNOUNCE.iter().flat_map(|word| lower.match_indices(word).map(|(at, found)| at + found.len())).collect();
    places.sort_unstable();
    let near = |time: &Timestamp| time.duration_since(now).abs() <= FAR;
    places.into_iter().filter_map(|at| behind(&text[at..], &lower[at..], now, zone)).find(near)
}

/// The first time within reach of the beginning of `text`.
fn behind(text: &str, lower: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let seconds = announces_seconds(lower);
    let mut before = [' ', ' '];
    for (at, char) in lower.char_indices().take_while(|(at, _)| *at <= REACH) {
        // "00" in "99:00" is no beginning, "30" in "after:30" is.
        let inside = before[1].is_ascii_alphanumeric() || before[0].is_ascii_digit() && "-:+.".contains(before[1]);
        let starts_word = char.is_ascii_alphanumeric() && !inside;
        before = [before[1], char];
        if !starts_word {
            continue;
        }
        let (text, lower) = (&text[at..], &lower[at..]);
        if let Some(time) = rfc3339(text).or_else(|| relative(lower, now)).or_else(|| unix(lower, now, seconds)) {
            return Some(time);
        }
        if let Some(time) = calendar(text, lower, now, zone) {
            return Some(time);
        }
    }
    None
}

/// Whether a bare number counts seconds from now: `retry-after: 30`, `resets_in_seconds: 90`.
fn announces_seconds(lower: &str) -> bool {
    let name: String = lower.chars().take(REACH).take_while(|c| !c.is_ascii_digit()).collect();
    ["after", "second", "_in", "-in"].iter().any(|word| name.contains(word))
}

fn rfc3339(text: &str) -> Option<Timestamp> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-:.+".contains(c))).unwrap_or(text.len());
    let word = text[..end].trim_end_matches('.');
    (word.len() >= 20 && word.as_bytes()[4] == b'-').then(|| word.parse().ok()).flatten()
}

fn unix(lower: &str, now: Timestamp, seconds: bool) -> Option<Timestamp> {
    let digits = lower.len() - lower.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: i64 = lower[..digits].parse().ok()?;
    match digits {
        10 => Timestamp::from_second(number).ok(),
        13 => Timestamp::from_millisecond(number).ok(),
        1..=7 if seconds => now.checked_add(SignedDuration::from_secs(number)).ok(),
        _ => None,
    }
}

/// "2h 5m", "1 hour and 30 minutes", "now+20s".
fn relative(lower: &str, now: Timestamp) -> Option<Timestamp> {
    let mut rest = lower.strip_prefix("now+").unwrap_or(lower);
    let mut total = 0.0;
    let mut found = false;
    while let Some((seconds, behind)) = amount(rest) {
        total += seconds;
        found = true;
        rest = behind.trim_start_matches([' ', ',']).trim_start_matches("and ").trim_start();
    }
    let duration = found.then(|| SignedDuration::try_from_secs_f64(total).ok()).flatten()?;
    now.checked_add(duration).ok()
}

/// A number with a unit of time, in seconds, and what follows.
fn amount(text: &str) -> Option<(f64, &str)> {
    let (number, rest) = split(text, |c| c.is_ascii_digit() || c == '.');
    let number: f64 = number.parse().ok()?;
    let (unit, rest) = split(rest.trim_start(), |c| c.is_ascii_alphabetic());
    let seconds = match unit {
        "ms" | "millis" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    };
    Some((number * seconds, rest))
}

/// A time of the day, with a date or a day of the week before it or not, with a zone behind it or not.
fn calendar(text: &str, lower: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let (day, rest) = day(lower);
    let rest = rest.trim_start_matches([' ', ',']);
    let rest = rest.strip_prefix("at ").unwrap_or(rest);
    let (time, rest) = clock(rest)?;
    // The lower-cased text has the same length, so the zone's name is found in the original.
    let named = named_zone(&text[text.len() - rest.len()..]);
    let zone = named.as_ref().unwrap_or(zone);
    let local = now.to_zoned_datetime(zone.clone());
    let on = |date: Date| date.to_datetime(time).to_zoned_datetime(zone.clone()).ok().map(|zoned| zoned.timestamp());
    match day {
        Day::Unsaid => next_after(now, local.date(), 1, on),
        Day::Tomorrow => on(local.date().tomorrow().ok()?),
        Day::OfWeek(weekday) => {
            let wait = local.weekday().until(weekday);
            next_after(now, local.date().checked_add(i64::from(wait).days()).ok()?, 7, on)
        }
        Day::Of(month, day, Some(year)) => on(Date::new(year, month, day).ok()?),
        Day::Of(month, day, None) => {
            let this_year = on(Date::new(local.year(), month, day).ok()?)?;
            if this_year.duration_since(now) > SignedDuration::from_hours(-24) {
                return Some(this_year);
            }
            on(Date::new(local.year() + 1, month, day).ok()?)
        }
    }
}

/// `first` or, when that is over, `step` days later.
fn next_after(now: Timestamp, first: Date, step: i64, on: impl Fn(Date) -> Option<Timestamp>) -> Option<Timestamp> {
    let time = on(first)?;
    if time > now { Some(time) } else { on(first.checked_add(step.days()).ok()?) }
}

enum Day {
    Unsaid,
    Tomorrow,
    OfWeek(Weekday),
    Of(i8, i8, Option<i16>),
}

fn day(lower: &str) -> (Day, &str) {
    let (word, rest) = split(lower, |c| c.is_ascii_alphabetic());
    if word == "tomorrow" {
        return (Day::Tomorrow, rest);
    }
    if let Some(weekday) = weekday(word) {
        return (Day::OfWeek(weekday), rest);
    }
    month_and_day(word, rest).unwrap_or((Day::Unsaid, lower))
}

fn weekday(word: &str) -> Option<Weekday> {
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let at = names.iter().position(|name| word.len() >= 3 && name.starts_with(word))?;
    Weekday::from_monday_zero_offset(i8::try_from(at).ok()?).ok()
}

fn month_and_day<'a>(word: &str, rest: &'a str) -> Option<(Day, &'a str)> {
    let names = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
    let month = names.iter().position(|name| word.len() >= 3 && name.starts_with(word))? + 1;
    let (number, rest) = split(rest.trim_start_matches([' ', '.']), |c| c.is_ascii_digit());
    let day: i8 = number.parse().ok()?;
    let rest = ["st", "nd", "rd", "th"].iter().find_map(|ending| rest.strip_prefix(ending)).unwrap_or(rest);
    let (year, behind) = split(rest.trim_start_matches([' ', ',']), |c| c.is_ascii_digit());
    let year = (year.len() == 4 && !behind.starts_with(':')).then(|| year.parse().ok()).flatten();
    Some((Day::Of(i8::try_from(month).ok()?, day, year), if year.is_some() { behind } else { rest }))
}

/// "3pm", "3:45 PM", "15:00", "15:00:30".
fn clock(lower: &str) -> Option<(Time, &str)> {
    let (hour, mut rest) = split(lower, |c| c.is_ascii_digit());
    let hour: i8 = (hour.len() <= 2).then(|| hour.parse().ok()).flatten()?;
    let (mut minute, mut second, mut has_minutes) = (0, 0, false);
    if let Some((value, behind)) = two_digits(rest) {
        (minute, rest, has_minutes) = (value, behind, true);
        if let Some((value, behind)) = two_digits(rest) {
            (second, rest) = (value, behind);
        }
    }
    let (half, behind) = split(rest.trim_start(), |c| c.is_ascii_alphabetic());
    let hour = match (half, hour) {
        ("am", 12) => 0,
        ("am", 1..=11) | ("pm", 12) => hour,
        ("pm", 1..=11) => hour + 12,
        ("am" | "pm", _) => return None,
        _ if has_minutes => return Some((Time::new(hour, minute, second, 0).ok()?, rest)),
        _ => return None,
    };
    Some((Time::new(hour, minute, second, 0).ok()?, behind))
}

fn two_digits(text: &str) -> Option<(i8, &str)> {
    let digits = text.strip_prefix(':')?;
    let value = digits.get(..2)?.parse().ok()?;
    Some((value, &digits[2..]))
}

/// "(Europe/Berlin)", "UTC", "GMT".
fn named_zone(text: &str) -> Option<TimeZone> {
    let text = text.trim_start_matches([' ', '(']);
    let (name, _) = split(text, |c| c.is_ascii_alphanumeric() || "/_-+".contains(c));
    match name {
        "UTC" | "GMT" | "Z" | "utc" | "gmt" => Some(TimeZone::UTC),
        name if name.contains('/') => TimeZone::get(name).ok(),
        _ => None,
    }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}
