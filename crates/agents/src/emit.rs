//! The way of events from a driver to the engine: a bounded channel that folds text together when the
//! reader lags.
//!
//! Order is kept. While the reader keeps up every delta passes as it came; when it lags, adjacent
//! deltas of one message become one. When even that is full, sending waits, which slows the agent.

use crate::contract::Event;
use std::collections::VecDeque;
use taskyard_domain::transcript::Item;
use tokio::sync::mpsc;

/// Events the engine can be behind.
const CHANNEL: usize = 256;
/// Events held back besides, with their texts folded.
const BACKLOG: usize = 64;
/// Longest text that folding makes.
const FOLDED_TEXT: usize = 64 << 10;

/// The driver's end.
#[derive(Debug, Clone)]
pub struct Emitter {
    tx: mpsc::Sender<Event>,
}

impl Emitter {
    /// A new way; the receiver is [`crate::Handle::events`]. Must be called inside a Tokio runtime.
    pub fn new() -> (Self, mpsc::Receiver<Event>) {
        let (tx, incoming) = mpsc::channel(1);
        let (out, events) = mpsc::channel(CHANNEL);
        tokio::spawn(forward(incoming, out));
        (Self { tx }, events)
    }

    /// Sends an event; waits while the reader is far behind. `false` when nobody reads any more.
    pub async fn send(&self, event: Event) -> bool {
        self.tx.send(event).await.is_ok()
    }

    /// Sends a transcript item.
    pub async fn item(&self, item: Item) -> bool {
        self.send(Event::Item(item)).await
    }

    /// Sends a notice; `level` is `info`, `warning` or `error`.
    pub async fn notice(&self, level: &str, text: impl Into<String>) -> bool {
        self.item(Item::Notice { level: level.into(), text: text.into() }).await
    }

    /// Waits until nobody reads the events any more.
    pub async fn closed(&self) {
        self.tx.closed().await;
    }
}

async fn forward(mut incoming: mpsc::Receiver<Event>, out: mpsc::Sender<Event>) {
    let mut backlog: VecDeque<Event> = VecDeque::new();
    let mut open = true;
    while open || !backlog.is_empty() {
        tokio::select! {
            biased;
            permit = out.reserve(), if !backlog.is_empty() => match (permit, backlog.pop_front()) {
                (Ok(permit), Some(event)) => permit.send(event),
                _ => return,
            },
            event = incoming.recv(), if open && backlog.len() < BACKLOG => match event {
                Some(event) => fold(&mut backlog, event),
                None => open = false,
            },
            () = out.closed() => return,
        }
    }
}

fn fold(backlog: &mut VecDeque<Event>, event: Event) {
    match (backlog.back_mut(), &event) {
        (Some(Event::Item(Item::Text { message_id, text })), Event::Item(Item::Text { message_id: same, text: more }))
        | (Some(Event::Item(Item::Thought { message_id, text })), Event::Item(Item::Thought { message_id: same, text: more }))
            if message_id == same && text.len() + more.len() <= FOLDED_TEXT =>
        {
            text.push_str(more)
        }
        _ => backlog.push_back(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str, text: &str) -> Item {
        Item::Text { message_id: id.into(), text: text.into() }
    }

    #[tokio::test]
    async fn a_lagging_reader_gets_fewer_events_and_every_character() {
        let (emitter, mut events) = Emitter::new();
        for _ in 0..5000 {
            assert!(emitter.item(text("a", "x")).await);
        }
        assert!(emitter.item(text("b", "y")).await);
        drop(emitter);
        let (mut count, mut all) = (0, String::new());
        while let Some(Event::Item(Item::Text { text, .. })) = events.recv().await {
            count += 1;
            all.push_str(&text);
        }
        assert_eq!(all, "x".repeat(5000) + "y");
        assert!(count <= CHANNEL + 3, "{count} events");
    }

    #[tokio::test]
    async fn sending_fails_when_nobody_reads() {
        let (emitter, events) = Emitter::new();
        drop(events);
        emitter.closed().await;
        assert!(!emitter.item(text("a", "x")).await);
    }
}
