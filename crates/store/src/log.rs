//! What is written beside the entities: events, audit entries, outbox effects, idempotency keys, transcripts,
//! settings and the state of MCP connections. Append-only where it is a log.

mod audit;
mod event;
mod idempotency;
mod mcp_session;
mod outbox;
mod settings;
mod transcript;

pub use idempotency::{IDEMPOTENCY_HOURS, Stored};
pub use outbox::OutboxRow;
