//! The invariants, held against the database, git, the processes and the ledger. Each check says what is wrong in
//! words that name the thing; an empty list is a clean round.

mod git;
mod promises;
mod tables;

use crate::stage::Stage;

/// Everything that is wrong with a stage at rest whose server has stopped.
pub async fn all(stage: &Stage) -> Vec<String> {
    let mut wrong = tables::check(stage).await;
    wrong.extend(promises::check(stage).await);
    wrong.extend(git::check(stage).await);
    let left = stage.processes();
    let words = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    wrong.extend(left.iter().map(|pid| format!("process {pid} is left: {}", words(pid))));
    wrong
}

/// What is wrong with the processes of a stage at rest whose server runs: nothing but it may.
pub async fn only_the_server_runs(stage: &Stage) -> Vec<String> {
    let server = stage.pid().await;
    let words = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    // What is ending right now may end.
    let began = std::time::Instant::now();
    loop {
        let left: Vec<i32> = stage.processes().into_iter().filter(|pid| Some(*pid) != server).collect();
        if left.is_empty() {
            return Vec::new();
        }
        if began.elapsed() > std::time::Duration::from_secs(5) {
            return left.iter().map(|pid| format!("process {pid} runs though no task does: {}", words(pid))).collect();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
