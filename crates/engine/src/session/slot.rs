//! Giving a slot back while a run waits, and taking the next free one.

use super::Msg;
use crate::Engine;
use serde_json::json;
use std::time::Duration;
use taskyard_domain::Result;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::RunId;
use taskyard_domain::run::{Run, Slot, State};
use taskyard_store::Tx;

/// Longest that an answer is held back for want of a slot; below the room that agents' clients leave over `wait_limit`.
const REGAIN_LIMIT: Duration = Duration::from_secs(20);

/// Stores a run whose slot changed and writes the event.
pub(crate) async fn store(tx: &mut Tx, run: &Run) -> Result<()> {
    tx.run_update(run).await?;
    let data = json!({ "state": run.state, "slot": run.slot, "wants_slot": run.wants_slot, "stalled": run.stalled });
    tx.event(NewEvent::new(run.workspace_id, Kind::RunChanged).task(run.task_id).run(run.id).session(run.session_id).data(data));
    Ok(())
}

impl Engine {
    /// Gives the run's slot back while it waits for other tasks. Nothing happens when it has none.
    pub(crate) async fn yield_slot(&self, run_id: RunId) -> Result<()> {
        self.give_back(run_id, |run| run.slot.is_some()).await
    }

    /// Gives the run's slot back while it waits for a person; nothing happens when the answer came meanwhile, for
    /// nobody would ask for the slot again.
    pub(crate) async fn yield_slot_to_person(&self, run_id: RunId) -> Result<()> {
        self.give_back(run_id, |run| run.slot.is_some() && run.state == State::Waiting).await
    }

    async fn give_back(&self, run_id: RunId, may: fn(&Run) -> bool) -> Result<()> {
        let given = self
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let Some(mut run) = tx.run_lock(run_id).await?.filter(|run| run.is_open() && may(run)) else { return Ok(false) };
                    run.slot = None;
                    run.waiting_since = run.waiting_since.or(Some(tx.now()));
                    tx.bookkeeping();
                    store(tx, &run).await?;
                    Ok(true)
                })
            })
            .await?;
        if given {
            self.sessions().tell(run_id, Msg::SlotGivenBack);
        }
        Ok(())
    }

    /// Waits until the run has a slot again, ahead of new tasks. Returns at once when it has one or has ended, and after
    /// [`REGAIN_LIMIT`] without one: the caller's client won't wait for ever, and the slot is still wanted.
    pub(crate) async fn regain_slot(&self, run_id: RunId) -> Result<()> {
        self.want_slot(run_id).await?;
        tokio::time::timeout(REGAIN_LIMIT, self.slot_is_there(run_id)).await.unwrap_or(Ok(()))
    }

    async fn slot_is_there(&self, run_id: RunId) -> Result<()> {
        let mut wake = self.store().subscribe_all();
        loop {
            let run = self.store().read(move |read| Box::pin(async move { read.run_fetch(run_id).await })).await?;
            if !run.is_some_and(|run| run.is_open() && run.slot.is_none()) {
                return Ok(());
            }
            tokio::select! {
                () = wake.changed() => {}
                () = self.shutdown().cancelled() => return Ok(()),
            }
        }
    }

    async fn want_slot(&self, run_id: RunId) -> Result<()> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let Some(mut run) = tx.run_lock(run_id).await?.filter(|run| run.is_open() && run.slot.is_none()) else { return Ok(()) };
                    run.wants_slot = true;
                    tx.bookkeeping();
                    store(tx, &run).await
                })
            })
            .await
    }

    /// Gives a waiting run a queue slot; its session goes on.
    pub(crate) async fn grant_slot(&self, run_id: RunId) -> Result<()> {
        let granted = self
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let Some(mut run) = tx.run_lock(run_id).await?.filter(|run| run.is_open() && run.slot.is_none()) else {
                        return Ok(false);
                    };
                    run.slot = Some(Slot::Queue);
                    run.wants_slot = false;
                    run.waiting_since = None;
                    tx.bookkeeping();
                    store(tx, &run).await?;
                    Ok(true)
                })
            })
            .await?;
        if granted {
            self.sessions().tell(run_id, Msg::SlotGranted);
        }
        Ok(())
    }
}
