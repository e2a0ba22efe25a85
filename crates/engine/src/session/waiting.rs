//! What a run waits for: a person's answers, and a slot to pass them on in.

use std::collections::VecDeque;
use taskyard_agents::{Answer, Command, Handle};
use tokio::time::Instant;

/// Open permission requests and the answers that wait for a slot.
#[derive(Default)]
pub(super) struct Waiting {
    pub open: Vec<String>,
    pub held: VecDeque<(String, Answer)>,
    /// When the slot goes to whoever waits.
    pub yield_at: Option<Instant>,
    /// The silence that was told of.
    pub told_stalled: Option<Instant>,
    /// The run has given its slot back: its silence is ours.
    pub without_slot: bool,
}

impl Waiting {
    pub fn asked(&mut self, request_id: String, yield_at: Instant) {
        self.open.push(request_id);
        self.yield_at.get_or_insert(yield_at);
    }

    pub fn answered(&mut self, request_id: String, answer: Answer) {
        self.withdrawn(&request_id);
        self.held.push_back((request_id, answer));
    }

    pub fn withdrawn(&mut self, request_id: &str) {
        self.open.retain(|open| open != request_id);
        if self.open.is_empty() {
            self.yield_at = None;
        }
    }

    pub fn release(&mut self, handle: &Handle) {
        for (request_id, answer) in self.held.drain(..) {
            let _ = handle.commands.send(Command::Permission { request_id, answer });
        }
    }
}
