//! The binary `taskyard`: reads the command line, runs one command, shows the answer, exits by error class.

mod args;
mod bridge;
mod client;
mod config;
mod demo;
mod discover;
mod doctor;
mod fail;
mod listener;
mod logging;
mod run;
mod serve;
mod show;
mod terminal;
mod words;

use clap::Parser;
use std::process::ExitCode;

/// JSON in and out is many small allocations on many threads; the C library's took an eighth of the server's processor time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let json = cli.global.json;
    let task = cli.command.task().map(str::to_owned);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail::show(&fail::machine("starting", error), json, None),
    };
    if matches!(cli.command, args::Command::ScriptedAgent) {
        return runtime.block_on(taskyard_testkit::scripted::main());
    }
    let done = runtime.block_on(run::run(cli));
    // A read of standard input that is still blocked must not hold the exit up.
    runtime.shutdown_background();
    match done {
        Ok(verdict) => verdict.into(),
        Err(error) => fail::show(&error, json, task.as_deref()),
    }
}
