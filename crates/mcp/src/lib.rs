//! The MCP face: tools as data, validation, protocol and transports.
//!
//! Translates and delegates: holds no rule about tasks, speaks to the engine through
//! [`backend::Backend`] only, and stores nothing itself but what the protocol needs (open connections).

mod announcing;
pub mod arguments;
pub mod backend;
pub mod call_log;
pub mod dispatch;
pub mod engine_backend;
pub mod result;
pub mod schema;
pub mod server;
pub mod tool;
pub mod tools;
pub mod toolset;
pub mod transport;

pub use backend::{Backend, CallContext, Identity};
pub use call_log::CallLog;
pub use dispatch::Dispatcher;
pub use engine_backend::{EngineBackend, EngineSessions};
