//! The scripted agent as a program of its own, for tests.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    taskyard_testkit::scripted::main().await
}
