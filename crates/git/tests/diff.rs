//! Diffs: every kind of change with its names, counts and a patch that isn't empty, from a worktree as it is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::Yard;
use pretty_assertions::assert_eq;
use std::os::unix::fs::{PermissionsExt, symlink};
use support::{files, odd_names, write};
use taskyard_domain::merge::Strategy;
use taskyard_git::Repo;
use taskyard_git::diff::{Diff, End, FileChange, Start, Status};

const WORKTREE: End<'static> = End::Worktree { copied: &[] };

async fn of_worktree(yard: &Yard) -> Diff {
    let repo = yard.lab.open(&yard.task).await;
    Diff::take(&repo, &yard.scratch, &Start::MergeBase(yard.target().await), &WORKTREE).await.unwrap()
}

async fn patch(diff: &Diff, file: &FileChange) -> String {
    diff.patch(file, 1 << 20).await.unwrap().text
}

fn named<'a>(files: &'a [FileChange], name: &str) -> &'a FileChange {
    files.iter().find(|f| f.path.to_string() == name).unwrap_or_else(|| panic!("{name} is missing: {files:?}"))
}

/// A repository in which a task has changed files in every way there is, half committed, half not.
async fn every_kind() -> Yard {
    let lab = support::Lab::new();
    let main = lab.repo("r").await;
    let long: String = (0..30).map(|n| format!("line {n}\n")).collect();
    for name in ["Aufträge/é x.md", "old.md", "copied from.md", "mode.sh", "type.txt", "gone.txt", "crlf.txt"] {
        write(&main, name, &format!("{name}\n{long}"));
    }
    lab.git_in(&main, &["config", "core.autocrlf", "false"]).await;
    lab.commit(&main, "more").await;
    let yard = Yard::around(lab, main).await;
    write(&yard.task, "Aufträge/é x.md", &format!("Aufträge/é x.md\n{long}more\n"));
    std::fs::rename(yard.task.join("old.md"), yard.task.join("new.md")).unwrap();
    write(&yard.task, "new.md", &format!("old.md\n{long}and more\n"));
    yard.lab.commit(&yard.task, "committed").await;
    write(&yard.task, "copied from.md", &format!("copied from.md\n{long}changed\n"));
    write(&yard.task, "copy.md", &format!("copied from.md\n{long}"));
    std::fs::set_permissions(yard.task.join("mode.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_file(yard.task.join("type.txt")).unwrap();
    symlink("a.txt", yard.task.join("type.txt")).unwrap();
    std::fs::remove_file(yard.task.join("gone.txt")).unwrap();
    write(&yard.task, "crlf.txt", &format!("crlf.txt\r\n{long}"));
    std::fs::write(yard.task.join("data.bin"), [0, 1, 2, 255]).unwrap();
    symlink("nowhere", yard.task.join("link")).unwrap();
    write(&yard.task, "empty.txt", "");
    for name in odd_names().into_iter().filter(|name| !name.starts_with("Aufträge")) {
        write(&yard.task, name, "odd\n");
    }
    yard
}

/// E1
#[tokio::test]
async fn every_kind_of_change_is_named_counted_and_has_a_patch() {
    let yard = every_kind().await;
    let before = (yard.snap().await, files(&yard.main.join(".git/objects")));
    let diff = of_worktree(&yard).await;
    let found = diff.files().await.unwrap();
    let status = |name: &str| named(&found, name).status;
    for (name, wanted) in [
        ("Aufträge/é x.md", Status::Modified),
        ("new.md", Status::Renamed),
        ("copy.md", Status::Copied),
        ("copied from.md", Status::Modified),
        ("mode.sh", Status::ModeChanged),
        ("type.txt", Status::TypeChanged),
        ("gone.txt", Status::Deleted),
        ("crlf.txt", Status::Modified),
        ("data.bin", Status::Added),
        ("link", Status::Added),
        ("empty.txt", Status::Added),
        ("a => b", Status::Added),
        ("tab\there", Status::Added),
        ("a\"b", Status::Added),
    ] {
        assert_eq!(status(name), wanted, "{name}");
    }
    assert_eq!(found.len(), 11 + odd_names().len() - 1);
    assert_eq!(named(&found, "new.md").old_path.as_ref().unwrap().to_string(), "old.md");
    assert_eq!(named(&found, "copy.md").old_path.as_ref().unwrap().to_string(), "copied from.md");
    let mode = named(&found, "mode.sh");
    assert_eq!((mode.old_mode.as_deref(), mode.new_mode.as_deref(), mode.additions), (Some("100644"), Some("100755"), Some(0)));
    let data = named(&found, "data.bin");
    assert_eq!((data.binary, data.additions, data.size), (true, None, Some(4)));
    assert!(named(&found, "link").symlink && named(&found, "type.txt").symlink);
    assert_eq!(named(&found, "Aufträge/é x.md").additions, Some(1));
    for file in &found {
        assert!(!patch(&diff, file).await.is_empty(), "{file:?}");
    }
    assert!(patch(&diff, named(&found, "Aufträge/é x.md")).await.contains("\n+more\n"));
    let renamed = patch(&diff, named(&found, "new.md")).await;
    assert!(renamed.contains("rename from old.md\nrename to new.md") && renamed.contains("\n+and more\n"), "{renamed}");
    let copied = patch(&diff, named(&found, "copy.md")).await;
    assert!(copied.contains("copy from") && copied.matches("diff --git").count() == 1, "{copied}");
    assert!(patch(&diff, named(&found, "crlf.txt")).await.contains("\n-crlf.txt\n+crlf.txt\r\n"));
    assert!(patch(&diff, named(&found, "data.bin")).await.contains("Binary files"));
    assert!(patch(&diff, named(&found, "mode.sh")).await.contains("old mode 100644\nnew mode 100755"));
    assert!(patch(&diff, named(&found, "gone.txt")).await.contains("deleted file"));
    drop(diff);
    assert_eq!((yard.snap().await, files(&yard.main.join(".git/objects"))), before);
}

/// C8
#[tokio::test]
async fn a_base_that_moved_on_does_not_show_up() {
    let yard = Yard::new().await;
    yard.work("b.txt", "b\n").await;
    yard.others("c.txt", "c\n").await;
    yard.others("d.txt", "d\n").await;
    let diff = of_worktree(&yard).await;
    let names: Vec<_> = diff.files().await.unwrap().iter().map(|f| f.path.to_string()).collect();
    assert_eq!(names, ["b.txt"]);
    assert_eq!((diff.ahead, diff.behind, diff.uncommitted), (1, 2, false));
    let page = diff.page(0, 10, None).await.unwrap();
    assert_eq!((page.behind, page.total_files, page.total_additions), (2, 1, 1));
}

#[tokio::test]
async fn landed_work_is_shown_from_its_recorded_base() {
    let yard = Yard::new().await;
    let tip = yard.work("b.txt", "b\n").await;
    let made = yard.merge(Strategy::Merge).await;
    let start = Start::Commit(made.merge_base.unwrap());
    let diff = Diff::take(&yard.repo, &yard.scratch, &start, &End::Commit(tip)).await.unwrap();
    assert_eq!(diff.files().await.unwrap().len(), 1);
}

#[tokio::test]
async fn ignored_files_stay_out_and_a_conflict_in_the_tree_is_shown_as_it_is() {
    let yard = Yard::new().await;
    write(&yard.task, ".gitignore", "secret\n");
    write(&yard.task, "secret", "x\n");
    yard.work("a.txt", "task\n").await;
    yard.others("a.txt", "main\n").await;
    assert!(!yard.lab.try_git(&yard.task, &["merge", "main"]).await.ok());
    let before = yard.snap().await;
    let diff = of_worktree(&yard).await;
    let found = diff.files().await.unwrap();
    assert_eq!(found.iter().map(|f| f.path.to_string()).collect::<Vec<_>>(), [".gitignore", "a.txt"]);
    assert!(patch(&diff, named(&found, "a.txt")).await.contains("+<<<<<<<"));
    assert!(diff.uncommitted);
    drop(diff);
    assert_eq!(yard.snap().await, before);
}

#[tokio::test]
async fn copied_in_files_are_no_change() {
    let yard = Yard::new().await;
    write(&yard.main, ".env", "X=1\n");
    let task: Repo = yard.lab.open(&yard.task).await;
    let report = taskyard_git::copy::copy_files(&yard.repo, &task, &[".env".into()]).await.unwrap();
    write(&yard.task, "b.txt", "b\n");
    let end = End::Worktree { copied: &report.copied };
    let diff = Diff::take(&task, &yard.scratch, &Start::MergeBase(yard.target().await), &end).await.unwrap();
    let names: Vec<_> = diff.files().await.unwrap().iter().map(|f| f.path.to_string()).collect();
    assert_eq!(names, ["b.txt"]);
}

/// E4
#[tokio::test]
async fn big_files_are_cut_and_many_files_come_in_pages() {
    let yard = Yard::new().await;
    write(&yard.task, "big.lock", &(0..200_000).map(|n| format!("entry {n}\n")).collect::<String>());
    for n in 0..300 {
        write(&yard.task, format!("many/{n:03}.txt"), "x\n");
    }
    let diff = of_worktree(&yard).await;
    let page = diff.page(0, 100, Some(4096)).await.unwrap();
    assert_eq!((page.files.len(), page.total_files, page.next), (100, 301, Some(100)));
    let big = page.files[0].patch.as_ref().unwrap();
    assert!(big.truncated && big.text.len() <= 4096 && big.text.ends_with('\n'));
    assert_eq!(page.files[0].change.additions, Some(200_000));
    let whole = diff.patch(&page.files[0].change, 64 << 20).await.unwrap();
    assert!(!whole.truncated && whole.text.ends_with("+entry 199999\n"));
    let last = diff.page(300, 100, None).await.unwrap();
    assert_eq!((last.files.len(), last.next), (1, None));
    assert_eq!(diff.page(9999, 100, None).await.unwrap().next, None);
}

#[tokio::test]
async fn the_users_diff_settings_do_not_bend_a_patch() {
    let yard = Yard::new().await;
    for (key, value) in [
        ("diff.noprefix", "true"),
        ("diff.external", "/bin/false"),
        ("color.ui", "always"),
        ("diff.renames", "false"),
        ("core.quotePath", "true"),
    ] {
        yard.lab.config(key, value).await;
    }
    yard.lab.git_in(&yard.task, &["mv", "a.txt", "é.txt"]).await;
    let diff = of_worktree(&yard).await;
    let found = diff.files().await.unwrap();
    assert_eq!(found[0].status, Status::Renamed);
    assert!(patch(&diff, &found[0]).await.starts_with("diff --git a/a.txt b/é.txt\n"));
}
