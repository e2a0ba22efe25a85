//! taskyard-store: the only place that speaks SQL. SQLite and PostgreSQL behind one interface.
//!
//! It owns the rows, the event log, the outbox and the migrations, and holds no rules: what may change is
//! decided by `engine` and `domain`. A change, its events, its audit entries and its outbox effects are one
//! transaction ([`Store::write`]); a read sees one snapshot ([`Store::read`]).
//!
//! Closures given to `write` and `read` do database work only: on SQLite every other writer waits for them.
//! A closure that gets an error from a method must return one: after a failed statement nothing of the
//! transaction is stored, on either database.
//!
//! Transactions that lock several rows lock them in this order, each kind by rising id: workspace, agent,
//! task, session, run, worktree, merge, question. PostgreSQL ends one of two that don't with `UNAVAILABLE`.

mod conn;
mod entity;
mod error;
mod ledger;
mod lock;
mod log;
mod migrate;
mod postgres;
mod sqlite;
mod store;
mod tx;
mod value;
mod wake;
mod writer;

pub use entity::{BacklogFile, BacklogFilter, Claimable, QueuedTask, RunCursor, TaskCursor, TaskFilter, WorktreeFilter};
pub use error::{Driver, Error};
pub use futures::future::BoxFuture;
pub use lock::{DirLock, Holder, LOCK_FILE, lock_data_dir};
pub use log::{IDEMPOTENCY_HOURS, OutboxRow, Stored};
pub use migrate::{Migration, SCHEMA_VERSION};
pub use store::{Database, Options, Store};
pub use tx::{Read, Tx};
pub use wake::{Subscription, Wake};
