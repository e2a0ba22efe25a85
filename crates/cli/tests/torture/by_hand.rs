//! What the user does by hand in the worktrees of tasks: good things that have to be kept, and bad ones that have to
//! be lived with.

use crate::base::Base;
use crate::dice::Dice;
use crate::stage::Stage;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Something that the user does in a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Adds a file.
    Adds,
    /// Commits a file.
    Commits,
    /// Deletes the folder.
    Deletes,
    /// Removes the link to the git folder.
    Unlinks,
    /// Leaves an index lock behind.
    Locks,
}

/// All of them, the harmless ones more often.
pub const DEEDS: &[Deed] = &[Deed::Adds, Deed::Adds, Deed::Commits, Deed::Commits, Deed::Deletes, Deed::Unlinks, Deed::Locks];

/// Does it in one of the worktrees, if there is any.
pub async fn perform(stage: &Stage, dice: &mut Dice, deed: Deed) {
    let Ok(mut base) = Base::open(&stage.data()).await else { return };
    let trees = base.texts("SELECT task_id, path FROM worktree WHERE has_folder = 1 ORDER BY created_at").await;
    if trees.is_empty() {
        return;
    }
    let [task, path]: [String; 2] = dice.pick(&trees).clone().try_into().unwrap();
    let (path, number) = (PathBuf::from(path), dice.next());
    let name = format!("by-hand-{number:x}.txt");
    match deed {
        Deed::Adds => {
            if std::fs::write(path.join(&name), format!("{number}\n")).is_ok()
                && let Ok(hash) = stage.git(&path, &["hash-object", &name]).await
            {
                prove(stage, &format!("file {task} {hash} {name}"));
            }
        }
        Deed::Commits => commit(stage, &task, &path, &name, number).await,
        Deed::Deletes => {
            stage.ledger.open().tasks.entry(task).or_default().folder_deleted = true;
            let _ = std::fs::remove_dir_all(&path);
        }
        Deed::Unlinks => {
            stage.ledger.open().tasks.entry(task).or_default().folder_damaged = true;
            let _ = std::fs::remove_file(path.join(".git"));
        }
        Deed::Locks => {
            if let Ok(git) = stage.git(&path, &["rev-parse", "--absolute-git-dir"]).await {
                let _ = std::fs::write(Path::new(&git).join("index.lock"), "");
            }
        }
    }
}

async fn commit(stage: &Stage, task: &str, path: &Path, name: &str, number: u64) {
    // Only where this is still a worktree of its own: elsewhere git would commit to whatever lies above.
    if !path.join(".git").is_file() || std::fs::write(path.join(name), format!("{number}\n")).is_err() {
        return;
    }
    if stage.git(path, &["add", name]).await.is_ok()
        && stage.git(path, &["commit", "-q", "-m", "By hand", "--", name]).await.is_ok()
        && let Ok(commit) = stage.git(path, &["log", "-1", "--format=%H", "--", name]).await
    {
        prove(stage, &format!("commit {task} {commit} {name}"));
    }
}

fn prove(stage: &Stage, line: &str) {
    let mut file = std::fs::File::options().create(true).append(true).open(stage.proofs()).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
