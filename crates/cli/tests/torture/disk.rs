//! A small disk for a part of the stage, to be filled and freed. Needs the right to mount; without it there is none,
//! and the figures say so.

use std::io::Write;
use std::path::{Path, PathBuf};
use taskyard_process::{Command, Environment, run};

/// What lies on the small disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Small {
    /// The data folder: database, worktrees, logs.
    Data,
    /// The first repository.
    Project,
}

/// A mounted disk of 48 MB.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one at `folder`; `None` where that isn't allowed.
    pub async fn mount(folder: &Path) -> Option<Self> {
        let mount = Command::new("mount", folder, environment()).args(["-t", "tmpfs", "-o", "size=48m", "taskyard-torture"]).arg(folder);
        run(mount).await.ok()?.ok().then(|| Self { folder: folder.to_owned() })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let Ok(mut file) = std::fs::File::create(self.ballast()) else { return };
        let mut size = 1 << 20;
        let block = vec![0; size];
        while size > 0 {
            if file.write_all(&block[..size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Gives the room back.
    pub fn free(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }

    /// Unmounts it; with `keep` its content stays in the folder.
    pub async fn unmount(self, keep: bool) {
        let aside = self.folder.with_extension("kept");
        let sh = "if [ \"$3\" = keep ]; then cp -a \"$1\" \"$2\"; fi; umount -l \"$1\"; if [ \"$3\" = keep ]; then rmdir \"$1\" && mv \"$2\" \"$1\"; fi";
        let command = Command::new("sh", "/", environment()).args(["-c", sh, "sh"]);
        let _ = run(command.arg(&self.folder).arg(aside).arg(if keep { "keep" } else { "drop" })).await;
    }
}

fn environment() -> Environment {
    Environment::default().with("PATH", std::env::var_os("PATH").unwrap_or_default())
}
