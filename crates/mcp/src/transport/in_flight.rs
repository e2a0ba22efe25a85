//! Which requests are under way, by session and request id.
//!
//! An id names one request of a session. A second one with the same id would take the first one's answer, and one
//! of the two callers would wait for ever; so it is refused at the door. The same table knows whom a client's
//! cancelling means.

use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

type Key = (String, String);

/// The requests under way. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, CancellationToken>>>);

impl InFlight {
    fn open(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks request `id` of `session` as under way until the returned mark is dropped; `None` when it is already.
    pub(super) fn enter(&self, session: &str, id: &Value) -> Option<Mark> {
        let key = (session.to_owned(), id.to_string());
        let cancelled = CancellationToken::new();
        match self.open().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(cancelled.clone()),
        };
        Some(Mark { all: self.clone(), key, cancelled })
    }

    /// Calls off request `id` of `session`, if it is under way.
    pub(super) fn cancel(&self, session: &str, id: &Value) {
        if let Some(cancelled) = self.open().get(&(session.to_owned(), id.to_string())) {
            cancelled.cancel();
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Mark {
    all: InFlight,
    key: Key,
    cancelled: CancellationToken,
}

impl Mark {
    /// Fires when the client calls the request off.
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }
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

    #[test]
    fn cancelling_reaches_the_one_that_is_meant() {
        let all = InFlight::default();
        let (number, text) = (all.enter("a", &7.into()).unwrap(), all.enter("a", &"7".into()).unwrap());
        all.cancel("a", &"7".into());
        all.cancel("b", &7.into());
        assert!(text.cancelled().is_cancelled() && !number.cancelled().is_cancelled());
    }
}
