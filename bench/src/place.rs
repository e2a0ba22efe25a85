//! Where a run happens: the programs it measures, and a folder on the disk they are measured on.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use tempfile::TempDir;

/// Programs and folders of a run.
#[derive(Debug, Clone)]
pub struct Place {
    /// The release build of Taskyard.
    pub program: PathBuf,
    /// Where temporary folders are made.
    root: PathBuf,
    /// Where the peers are installed; without it they aren't measured.
    pub peers: Option<PathBuf>,
    /// Divides all counts, for a quick look. Figures of such a run mean little.
    pub quick: usize,
}

impl Place {
    /// Beside the driver's own program: `target/release/taskyard`, `target/bench/`.
    ///
    /// # Errors
    /// When the program isn't built.
    pub fn find(peers: Option<PathBuf>, quick: bool) -> Result<Self> {
        let own = std::env::current_exe()?;
        let program = own.with_file_name("taskyard");
        if !program.is_file() {
            bail!("{} is missing: `make release` builds it", program.display());
        }
        let target = own.parent().and_then(|release| release.parent()).context("the driver is in no target folder")?;
        let root = target.join("bench");
        std::fs::create_dir_all(&root)?;
        Ok(Self { program, root, peers, quick: if quick { 10 } else { 1 } })
    }

    /// A temporary folder, removed when dropped.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn folder(&self, name: &str) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&self.root)?)
    }

    /// A count, smaller in a quick run.
    pub fn count(&self, full: usize) -> usize {
        (full / self.quick).max(2)
    }
}
