//! Where the scripted agent's program is, for tests of any crate.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use taskyard_process::{Command, Environment, run};

const NAME: &str = "taskyard-scripted-agent";

/// The program, built first when it is missing or older than its source.
///
/// # Errors
/// A sentence on why there is none.
pub async fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/PROFILE/deps/test-HASH or target/PROFILE/program.
    let folder = own.ancestors().skip(1).find(|folder| folder.file_name().is_some_and(|name| name != "deps"));
    let folder = folder.ok_or_else(|| format!("{} is in no target folder", own.display()))?;
    let program = folder.join(NAME);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let built = std::fs::metadata(&program).and_then(|file| file.modified()).ok();
    if built.is_some_and(|built| newest(&source).is_some_and(|changed| changed <= built)) {
        return Ok(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let env = Environment::from_vars(std::env::vars_os());
    let mut build = Command::new(cargo, env!("CARGO_MANIFEST_DIR"), env).args(["build", "--quiet", "--bin", NAME]);
    if folder.file_name().is_some_and(|name| name == "release") {
        build = build.arg("--release");
    }
    let output = run(build).await.map_err(|error| error.to_string())?;
    if output.ok() { Ok(program) } else { Err(format!("{NAME} can't be built: {}", output.stderr_tail())) }
}

/// When something in `folder` was changed last.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let time = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest(&entry.path()),
        _ => entry.metadata().and_then(|file| file.modified()).ok(),
    };
    entries.filter_map(time).max()
}
