//! What the store promises, checked on SQLite and on PostgreSQL alike.
//!
//! A case is one async function; [`on_both!`] makes a test of it for each database. Without a PostgreSQL at
//! hand that half is skipped with a word on standard error; `scripts/test-postgres.sh run` brings one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod events;
mod logs;
mod pages;
mod roundtrip;
mod rows;
mod transactions;

/// One test per database from each case.
#[macro_export]
macro_rules! on_both {
    ($($(#[$doc:meta])* async fn $name:ident($harness:ident) $body:block)*) => {$(
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn case($harness: &$crate::support::Harness) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let harness = $crate::support::Harness::sqlite().await;
                case(&harness).await;
                harness.finish().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let Some(harness) = $crate::support::Harness::postgres().await else { return };
                case(&harness).await;
                harness.finish().await;
            }
        }
    )*};
}
