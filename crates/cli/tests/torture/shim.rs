//! A git in front of git: it lets the next call of one command fail or die, before or after the work is done.
//!
//! Lies in the server's search path only; the user's git is the real one. A call is chosen by a file that the shim
//! takes away as it fails, so each arming hits exactly one call.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It says that it can't and does nothing.
    FailsBefore,
    /// It does its work and says that it couldn't.
    FailsAfter,
    /// It dies before it does anything.
    DiesBefore,
    /// It dies when its work is done.
    DiesAfter,
}

/// All ways.
pub const WAYS: &[Wrong] = &[Wrong::FailsBefore, Wrong::FailsAfter, Wrong::DiesBefore, Wrong::DiesAfter];
/// The commands that change something or that a decision hangs on.
pub const COMMANDS: &[&str] = &[
    "worktree",
    "update-ref",
    "read-tree",
    "merge-tree",
    "commit-tree",
    "commit",
    "rev-parse",
    "status",
    "checkout-index",
    "update-index",
    "for-each-ref",
    "merge-base",
    "rev-list",
    "write-tree",
    "add",
    "merge",
    "rebase",
    "revert",
    "diff",
    "symbolic-ref",
    "cat-file",
    "hash-object",
    "branch",
    "diff-tree",
    "ls-files",
    "reset",
    "checkout",
];

impl Wrong {
    fn word(self) -> &'static str {
        match self {
            Self::FailsBefore => "fails-before",
            Self::FailsAfter => "fails-after",
            Self::DiesBefore => "dies-before",
            Self::DiesAfter => "dies-after",
        }
    }
}

/// Puts the shim into `folder`, in front of the git at `real`.
pub fn install(folder: &Path, real: &Path) {
    // Nothing is started for the calls that go well: they are most of them.
    let script = format!(
        "#!/bin/sh\nreal={real}\n[ -e {folder}/armed ] || exec \"$real\" \"$@\"\n\
         command=\nskip=\nfor word in \"$@\"; do\nif [ -n \"$skip\" ]; then skip=; continue; fi\n\
         case $word in -c|-C) skip=1;; -*) ;; *) command=$word; break;; esac\ndone\n\
         [ -e \"{folder}/next-$command\" ] && mv \"{folder}/next-$command\" \"{folder}/taken-$$\" 2>/dev/null || exec \"$real\" \"$@\"\n\
         way=$(cat \"{folder}/taken-$$\")\nrm -f \"{folder}/taken-$$\"\necho \"$way $*\" >> {folder}/log\n\
         case $way in *-after) \"$real\" \"$@\";; esac\n\
         case $way in dies-*) kill -KILL $$;; esac\n\
         echo 'fatal: unable to do that: no luck today' >&2\nexit 128\n",
        real = real.display(),
        folder = folder.display(),
    );
    let path = folder.join("git");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The next call of `command` goes wrong in this way.
pub fn arm(folder: &Path, command: &str, way: Wrong) {
    // Written aside first: a shim that takes it has to find the word in it.
    let aside = folder.join("being-armed");
    std::fs::write(&aside, way.word()).unwrap();
    std::fs::rename(aside, folder.join(format!("next-{command}"))).unwrap();
    std::fs::write(folder.join("armed"), "").unwrap();
}

/// Nothing goes wrong any more; how many calls did.
pub fn disarm(folder: &Path) -> usize {
    let _ = std::fs::remove_file(folder.join("armed"));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("next-") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    std::fs::read_to_string(folder.join("log")).unwrap_or_default().lines().count()
}
