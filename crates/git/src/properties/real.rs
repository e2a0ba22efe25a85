//! Real git on names of any bytes: what was done to the files is what status, diff and copies of branches say.

use super::names::{branch, part};
use crate::diff::{self, Diff, End, Start};
use crate::file_path::FilePath;
use crate::oid::Oid;
use crate::status::{ChangeKind, status};
use crate::{Git, Repo};
use proptest::prelude::*;
use std::collections::BTreeMap;
use taskyard_domain::name::BranchName;
use taskyard_testkit::property::config;
use taskyard_testkit::repo::Repo as Lab;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/real.txt");

/// What happens to a file after it was committed, or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Kept,
    Changed,
    Deleted,
    Staged,
    New,
}

fn deeds() -> impl Strategy<Value = BTreeMap<Vec<u8>, Deed>> {
    let deed = prop::sample::select(vec![Deed::Kept, Deed::Changed, Deed::Deleted, Deed::Staged, Deed::New]);
    prop::collection::btree_map(part(), deed, 1..6)
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn check(deeds: &BTreeMap<Vec<u8>, Deed>) -> Result<(), TestCaseError> {
    let lab = Lab::new().await.unwrap();
    let root = lab.path();
    let file = |name: &[u8]| FilePath::new(name).within(&root);
    for name in deeds.iter().filter(|(_, deed)| **deed != Deed::New).map(|(name, _)| name) {
        std::fs::write(file(name), "one\n").unwrap();
    }
    lab.commit("files").await.unwrap();
    for (name, deed) in deeds {
        match deed {
            Deed::Kept => {}
            Deed::Deleted => std::fs::remove_file(file(name)).unwrap(),
            Deed::Changed | Deed::Staged | Deed::New => std::fs::write(file(name), "one\ntwo\n").unwrap(),
        }
    }
    let repo = Repo::open(&Git::new(lab.env().clone()), &root).await.unwrap();
    for (name, _) in deeds.iter().filter(|(_, deed)| **deed == Deed::Staged) {
        repo.call("stage").args(["add", "--"]).arg(FilePath::new(&name[..]).as_os_str()).run().await.unwrap();
    }
    let seen: BTreeMap<Vec<u8>, (ChangeKind, bool)> =
        status(&repo, None, &[]).await.unwrap().changes.into_iter().map(|c| (c.path.as_bytes().to_vec(), (c.kind, c.staged))).collect();
    let expected = deeds.iter().filter_map(|(name, deed)| {
        let kind = match deed {
            Deed::Kept => return None,
            Deed::Changed => (ChangeKind::Modified, false),
            Deed::Deleted => (ChangeKind::Deleted, false),
            Deed::Staged => (ChangeKind::Modified, true),
            Deed::New => (ChangeKind::Untracked, false),
        };
        Some((name.clone(), kind))
    });
    prop_assert_eq!(seen, expected.collect());
    check_diff(&lab, &repo, deeds).await
}

async fn check_diff(lab: &Lab, repo: &Repo, deeds: &BTreeMap<Vec<u8>, Deed>) -> Result<(), TestCaseError> {
    let base = Oid::parse(&lab.git(&["rev-parse", "HEAD"]).await.unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let diff = Diff::take(repo, scratch.path(), &Start::Commit(base), &End::Worktree { copied: &[] }).await.unwrap();
    for file in diff.files().await.unwrap() {
        let deed = deeds.get(file.path.as_bytes()).copied();
        let patch = diff.patch(&file, 1 << 20).await.unwrap().text;
        let fits = match deed {
            Some(Deed::Changed | Deed::Staged) => file.status == diff::Status::Modified && patch.contains("+two"),
            Some(Deed::New) => {
                matches!(file.status, diff::Status::Added | diff::Status::Renamed | diff::Status::Copied) && patch.contains("+two")
            }
            Some(Deed::Deleted) => file.status == diff::Status::Deleted && patch.contains("-one"),
            Some(Deed::Kept) | None => false,
        };
        prop_assert!(fits, "{:?} after {:?}: {}", file, deed, patch);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(6, KEPT))]

    #[test]
    fn files_of_any_name_are_seen_as_they_are(deeds in deeds()) {
        run(check(&deeds))?;
    }

    #[test]
    fn branch_names_are_judged_as_git_judges_them(
        names in prop::collection::vec(prop_oneof![
            branch(),
            "[a-z@{}./ ~^:?*\\[\\\\-]{0,8}",
            "[a-z]{1,3}(\\.lock|\\.|/|//|\\.\\.|@\\{|/\\.)[a-z]{0,3}",
            prop::sample::select(vec!["@", "HEAD", "-", "refs/heads/a", "a\u{7f}", "a\tb", "é", "a.lock/b", "a/HEAD", "\u{2028}", "-a", "a/-b"]).prop_map(str::to_owned),
        ], 12),
    ) {
        run(async {
            let lab = Lab::new().await.unwrap();
            for name in names.iter().filter(|name| !name.is_empty()) {
                // `--branch` expands `@{-1}` and its like, which name no branch by themselves; HEAD it takes, branches don't.
                let format = lab.git(&["check-ref-format", &format!("refs/heads/{name}")]).await.is_ok();
                let git = format && !name.starts_with('-') && name != "HEAD" && name != "@";
                prop_assert_eq!(BranchName::parse(name).is_ok(), git, "{:?}", name);
            }
            Ok(())
        })?;
    }

    #[test]
    fn branches_of_any_name_are_listed(names in prop::collection::btree_set("[a-z][a-z0-9é-]{0,5}", 1..4), whole in any::<bool>()) {
        run(async {
            let lab = Lab::new().await.unwrap();
            let mut names: Vec<String> = names.into_iter().filter(|name| name != "main" && name != "refs").collect();
            if whole {
                names.push("refs/heads/x".into());
            }
            for name in &names {
                lab.git(&["update-ref", &format!("refs/heads/{name}"), "HEAD"]).await.unwrap();
            }
            let repo = Repo::open(&Git::new(lab.env().clone()), &lab.path()).await.unwrap();
            let mut listed: Vec<String> = repo.branches().await.unwrap().into_iter().map(|branch| branch.name).collect();
            names.push("main".into());
            names.sort();
            listed.sort();
            prop_assert_eq!(&listed, &names);
            let tree = lab.path().with_file_name("tree");
            lab.git(&["worktree", "add", "-q", tree.to_str().unwrap(), &format!("refs/heads/{}", names[0])]).await.ok();
            for tree in crate::worktree::list(&repo).await.unwrap() {
                prop_assert!(tree.branch.is_none_or(|branch| names.contains(&branch)));
            }
            Ok(())
        })?;
    }
}
