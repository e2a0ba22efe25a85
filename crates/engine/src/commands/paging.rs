//! Pages of answers: limits, opaque cursors, and the size that every client can take.
//!
//! Owns no state. A page is cut between rows, never inside one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use taskyard_domain::{Error, Result};

/// Bytes that the rows of a default answer may take, so that the whole stays below 10 KB.
pub(crate) const ROWS: usize = 9_000;

/// The largest `limit` of a list.
pub(crate) const MOST: i64 = 200;

/// Checks a `limit` argument: 1 to [`MOST`].
pub(crate) fn limit(value: i64) -> Result<usize> {
    match usize::try_from(value) {
        Ok(limit) if (1..=MOST).contains(&value) => Ok(limit),
        _ => Err(Error::invalid("limit", format!("limit is {value}; it can be 1 to {MOST}"))),
    }
}

/// A cursor as callers see it.
pub(crate) fn encode(cursor: &impl Serialize) -> Result<String> {
    let json = serde_json::to_vec(cursor).map_err(|e| Error::internal(format!("a cursor can't be written: {e}")))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

/// Reads a `cursor` argument; an empty one is the beginning.
pub(crate) fn decode<T: DeserializeOwned>(text: Option<&str>) -> Result<Option<T>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let json = URL_SAFE_NO_PAD.decode(text.trim()).ok();
    match json.and_then(|json| serde_json::from_slice(&json).ok()) {
        Some(cursor) => Ok(Some(cursor)),
        None => {
            Err(Error::invalid("cursor", "cursor isn't one that this tool gave out")
                .with_hint("leave cursor out to start at the beginning"))
        }
    }
}

/// How many of `rows` fit into `budget` bytes of JSON; at least one.
pub(crate) fn fitting<T: Serialize>(rows: &[T], budget: usize) -> usize {
    let mut used = 0;
    for (index, row) in rows.iter().enumerate() {
        used += size(row) + 1;
        if used > budget {
            return index.max(1);
        }
    }
    rows.len()
}

/// Bytes of `value` as compact JSON.
pub(crate) fn size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Keeps the rows that belong on the page: at most `limit`, and of a page no larger than the default only what
/// fits a small answer. `rows` holds one more than `limit` where there is more. Returns whether there is more.
pub(crate) fn page<T: Serialize>(rows: &mut Vec<T>, limit: usize, default: usize) -> bool {
    let all = rows.len();
    rows.truncate(limit);
    if limit <= default {
        let fit = fitting(rows, ROWS);
        rows.truncate(fit);
    }
    rows.len() < all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_strangers_are_refused() {
        let text = encode(&(3, "x")).unwrap();
        assert_eq!(decode::<(i32, String)>(Some(&text)).unwrap(), Some((3, "x".into())));
        assert_eq!(decode::<(i32, String)>(None).unwrap(), None);
        assert_eq!(decode::<(i32, String)>(Some("!")).unwrap_err().field.as_deref(), Some("cursor"));
    }

    #[test]
    fn limits_have_bounds() {
        assert_eq!(limit(200).unwrap(), 200);
        for bad in [0, -1, 201] {
            assert_eq!(limit(bad).unwrap_err().field.as_deref(), Some("limit"));
        }
    }

    #[test]
    fn a_small_page_is_cut_to_size_and_a_large_one_is_not() {
        let rows = || vec!["x".repeat(997); 60];
        let mut small = rows();
        assert!(page(&mut small, 50, 50));
        assert_eq!(small.len(), 9);
        let mut large = rows();
        assert!(!page(&mut large, 200, 50));
        assert_eq!(large.len(), 60);
        let mut one = vec!["x".repeat(20_000)];
        assert!(!page(&mut one, 50, 50));
    }
}
