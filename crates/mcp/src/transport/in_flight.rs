//! Which requests are under way, by session and request id.
//!
//! An id names one request of a session. A second one with the same id would take the first one's answer, and one
//! of the two callers would wait for ever; so it is refused at the door.

use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Key = (String, String);

/// The requests under way. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<Key>>>);

impl InFlight {
    fn open(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks request `id` of `session` as under way until the returned mark is dropped; `None` when it is already.
    pub(super) fn enter(&self, session: &str, id: &Value) -> Option<Mark> {
        let key = (session.to_owned(), id.to_string());
        self.open().insert(key.clone()).then(|| Mark { all: self.clone(), key })
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Mark {
    all: InFlight,
    key: Key,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.all.open().remove(&self.key);
    }
}

/// What the second one is told.
pub(super) fn refusal(id: &Value) -> String {
    format!("request {id} of this session is still under way: every request needs an id of its own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_until_its_request_ends() {
        let all = InFlight::default();
        let first = all.enter("a", &7.into()).unwrap();
        assert!(all.enter("a", &7.into()).is_none());
        assert!(all.enter("a", &"7".into()).is_some() && all.enter("b", &7.into()).is_some());
        drop(first);
        assert!(all.enter("a", &7.into()).is_some());
        assert!(all.open().is_empty());
    }
}
