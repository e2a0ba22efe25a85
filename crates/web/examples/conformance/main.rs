//! A server for the official MCP conformance suite: the product's router, transport and guard with a handler that
//! has the tools, prompts and resources which the suite calls for.
//!
//! Only `scripts/conformance.sh` runs it. `conformance FILE` listens on a free loopback port and writes its URL to
//! `FILE`; SIGTERM ends it. Owns nothing that outlives it, and no part of it is in the `taskyard` binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program says by panicking what is wrong")]

mod asking;
mod content;
mod fixture;
mod shelf;
mod tools;

use async_trait::async_trait;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use taskyard_domain::{Error, Result};
use taskyard_mcp::transport::{SessionStore, Timing};
use taskyard_mcp::{Backend, CallContext, Dispatcher, Identity};
use taskyard_web::guard::Guard;
use taskyard_web::{App, Readiness, router_around, serve};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The router wants a backend for the command line's calls, which nobody makes here.
struct Nothing;

#[async_trait]
impl Backend for Nothing {
    async fn identify(&self, _token: Option<&str>) -> Result<Identity> {
        Ok(Identity::Person)
    }
    async fn call(&self, tool: &str, _arguments: Map<String, Value>, _context: &CallContext) -> Result<Value> {
        Err(Error::not_found("tool", tool))
    }
    async fn operate(&self, operation: &str, _arguments: Map<String, Value>, _context: &CallContext) -> Result<Value> {
        Err(Error::not_found("operation", operation))
    }
    async fn suffix(&self) -> String {
        String::new()
    }
    async fn suffix_after(&self, _known: &str) -> String {
        std::future::pending().await
    }
}

/// Protocol sessions in memory.
#[derive(Default)]
struct Table(Mutex<HashMap<String, Value>>);

#[async_trait]
impl SessionStore for Table {
    async fn load(&self, id: &str) -> Result<Option<Value>> {
        Ok(self.0.lock().unwrap().get(id).cloned())
    }
    async fn store(&self, id: &str, state: Value) -> Result<()> {
        self.0.lock().unwrap().insert(id.to_owned(), state);
        Ok(())
    }
    async fn delete(&self, id: &str) -> Result<()> {
        self.0.lock().unwrap().remove(id);
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let file = std::env::args_os().nth(1).expect("conformance FILE: where to write the URL");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let readiness = Readiness::default();
    readiness.set();
    let app = App {
        dispatcher: Dispatcher::new(Arc::new(Nothing)),
        sessions: Arc::new(Table::default()),
        readiness,
        guard: Guard::default(),
        timing: Timing::default(),
        shutdown: shutdown.clone(),
    };
    let router = router_around(fixture::Fixture::new(shutdown.clone()), app);
    let server = tokio::spawn(serve(listener, router, shutdown.clone(), Duration::from_secs(2)));
    std::fs::write(&file, url).expect("writing the URL");
    let mut term = signal(SignalKind::terminate()).expect("listening for SIGTERM");
    term.recv().await;
    shutdown.cancel();
    server.await.unwrap().expect("serving");
}
