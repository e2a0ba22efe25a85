//! Live sessions: one actor with a mailbox per session that has an open run.
//!
//! The actor owns the agent's process for as long as the run is open: it prepares the ground, starts the
//! agent, gives it the prompt, records what it says, asks a person where the policy says so, and ends the
//! run with a judgement by facts. It ends with its run. Everything that can wake it is a [`Msg`], an event
//! of the agent, or one of its own deadlines.

mod actor;
pub(crate) mod asking;
mod base;
mod ending;
mod ground;
mod launch;
mod opening;
mod prompt;
mod recording;
mod slot;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use ending::{Ending, close_run};
pub(crate) use ground::note;
#[cfg(test)]
pub(crate) use ground::{Site, Stood};
pub(crate) use launch::marker;
pub(crate) use opening::Opening;

use crate::Engine;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use taskyard_agents::Answer;
use taskyard_domain::Result;
use taskyard_domain::id::RunId;
use tokio::sync::mpsc;

/// What the rest of the engine tells a live session.
#[derive(Debug)]
pub(crate) enum Msg {
    /// A person called the run off.
    Cancel,
    /// A person answered a permission request.
    Answer {
        /// The driver's id of the request.
        request_id: String,
        /// The decision.
        answer: Answer,
    },
    /// The run has a slot again.
    SlotGranted,
    /// The run has given its slot back until it goes on.
    SlotGivenBack,
    /// The server shuts down.
    Stop,
}

/// The mailboxes of live sessions, by open run.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    mailboxes: Mutex<HashMap<RunId, mpsc::UnboundedSender<Msg>>>,
}

impl Sessions {
    /// A mailbox for `run`; `None` when it has one already.
    fn open(&self, run: RunId) -> Option<mpsc::UnboundedReceiver<Msg>> {
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if mailboxes.contains_key(&run) {
            return None;
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        mailboxes.insert(run, sender);
        Some(receiver)
    }

    fn close(&self, run: RunId) {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }

    /// Tells the live session of `run`; false when there is none.
    pub(crate) fn tell(&self, run: RunId, msg: Msg) -> bool {
        let mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        mailboxes.get(&run).is_some_and(|mailbox| mailbox.send(msg).is_ok())
    }

    /// Whether `run` has a live session.
    pub(crate) fn is_live(&self, run: RunId) -> bool {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&run)
    }

    fn all(&self) -> Vec<RunId> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

/// Closes a run's mailbox however its actor ends, so that the reconciler can see to a run that was left open.
struct Alive {
    engine: Engine,
    run_id: RunId,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.engine.sessions().close(self.run_id);
    }
}

impl Engine {
    /// Effect: brings a run that was opened to life. Does nothing for one that has ended or lives.
    pub(crate) async fn start_run(&self, run_id: RunId) -> Result<()> {
        let run = self.store().read(move |read| Box::pin(async move { read.run_fetch(run_id).await })).await?;
        if !run.is_some_and(|run| run.is_open()) {
            return Ok(());
        }
        if let Some(inbox) = self.sessions().open(run_id) {
            let alive = Alive { engine: self.clone(), run_id };
            // A server that began to stop may have told the sessions before this one was there.
            if self.shutdown().is_cancelled() {
                self.sessions().tell(run_id, Msg::Stop);
            }
            self.spawn(async move {
                actor::live(alive.engine.clone(), run_id, inbox).await;
                drop(alive);
            });
        }
        Ok(())
    }

    /// Effect: ends a run that was called off, whether it lives or not.
    pub(crate) async fn stop_run(&self, run_id: RunId) -> Result<()> {
        if self.sessions().tell(run_id, Msg::Cancel) {
            return Ok(());
        }
        self.end_dead_run(run_id).await
    }

    /// Tells every live session that the server shuts down. The actors end their runs as interrupted.
    pub(crate) async fn stop_sessions(&self) {
        for run in self.sessions().all() {
            self.sessions().tell(run, Msg::Stop);
        }
    }
}
