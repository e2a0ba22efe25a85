//! Each listing that is read, written as git writes it and read back.

use super::names::{branch, disorder, oid, part, path};
use crate::diff::{self, read_listing};
use crate::file_path::FilePath;
use crate::merge_tree::read_merged;
use crate::oid::Oid;
use crate::repo::{Branch, read_branches};
use crate::runner::split_nul;
use crate::status::{ChangeKind, change};
use crate::worktree::{Registered, read_list};
use crate::{Error, snapshot};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use taskyard_testkit::property::config;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/listings.txt");
const MODES: [&str; 4] = ["100644", "100755", "120000", "160000"];

fn status_record(xy: &str, path: &[u8], oid: &Oid, unmerged: bool) -> Vec<u8> {
    let head = if unmerged {
        format!("u {xy} N... 100644 100644 100644 100644 {oid} {oid} {oid} ")
    } else {
        format!("1 {xy} N... 100644 100644 100644 {oid} {oid} ")
    };
    [head.as_bytes(), path].concat()
}

/// One file of a diff.
#[derive(Debug, Clone)]
struct File {
    path: Vec<u8>,
    old: Option<Vec<u8>>,
    status: char,
    modes: (usize, usize),
    oids: (Oid, Oid),
    counts: Option<(u32, u32)>,
}

fn file() -> impl Strategy<Value = File> {
    let status = prop::sample::select(vec!['A', 'D', 'M', 'R', 'C', 'T']);
    (path(), path(), status, (0usize..4, 0usize..4), (oid(), oid()), prop::option::of((any::<u32>(), any::<u32>()))).prop_map(
        |(path, old, status, modes, oids, counts)| {
            let old = matches!(status, 'R' | 'C').then_some(old);
            File { path, old, status, modes, oids, counts }
        },
    )
}

/// What `git diff-tree --raw --numstat -z` prints of `files`.
fn printed(files: &[File]) -> Vec<u8> {
    let (mut raw, mut counts) = (Vec::new(), Vec::new());
    for file in files {
        let (none, zeros) = ("000000", file.oids.0.null());
        let (from, to) = match file.status {
            'A' => ((none, &zeros), (MODES[file.modes.1], &file.oids.1)),
            'D' => ((MODES[file.modes.0], &file.oids.0), (none, &zeros)),
            _ => ((MODES[file.modes.0], &file.oids.0), (MODES[file.modes.1], &file.oids.1)),
        };
        let score = if file.old.is_some() { "090" } else { "" };
        raw.extend(format!(":{} {} {} {} {}{score}\0", from.0, to.0, from.1, to.1, file.status).into_bytes());
        for name in file.old.iter().chain([&file.path]) {
            raw.extend_from_slice(name);
            raw.push(0);
        }
        let count = file.counts.map_or_else(|| "-\t-\t".to_owned(), |(added, deleted)| format!("{added}\t{deleted}\t"));
        counts.extend(count.into_bytes());
        if file.old.is_some() {
            counts.push(0);
        }
        for name in file.old.iter().chain([&file.path]) {
            counts.extend_from_slice(name);
            counts.push(0);
        }
    }
    [raw, counts].concat()
}

fn place() -> impl Strategy<Value = PathBuf> {
    part().prop_map(|name| PathBuf::from(OsString::from_vec([b"/w/".to_vec(), name].concat())))
}

fn registered() -> impl Strategy<Value = Registered> {
    let reason = || prop::option::of("[a-z ]{0,8}(\nworktree [a-z]{1,4})?".prop_map(|text| text));
    (place(), prop::option::of(oid()), prop::option::of(branch()), prop::bool::weighted(0.1), reason(), reason())
        .prop_map(|(path, head, branch, bare, locked, prunable)| Registered { path, head, branch, bare, locked, prunable })
}

/// What `git worktree list --porcelain -z` prints.
fn worktrees(trees: &[Registered]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |words: &[&[u8]]| {
        out.extend(words.concat());
        out.push(0);
    };
    for tree in trees {
        line(&[b"worktree ", tree.path.as_os_str().as_encoded_bytes()]);
        if tree.bare {
            line(&[b"bare"]);
        }
        if let Some(head) = &tree.head {
            line(&[b"HEAD ", head.as_str().as_bytes()]);
        }
        match &tree.branch {
            Some(branch) => line(&[b"branch refs/heads/", branch.as_bytes()]),
            None => line(&[b"detached"]),
        }
        for (key, reason) in [(&b"locked"[..], &tree.locked), (b"prunable", &tree.prunable)] {
            match reason.as_deref() {
                Some("") => line(&[key]),
                Some(reason) => line(&[key, b" ", reason.as_bytes()]),
                None => {}
            }
        }
        line(&[]);
    }
    out
}

fn record(fields: &[&[u8]]) -> Vec<u8> {
    let mut out: Vec<u8> = fields.iter().flat_map(|field| [field, &b"\0"[..]].concat()).collect();
    out.push(b'\n');
    out
}

proptest! {
    #![proptest_config(config(256, KEPT))]

    #[test]
    fn a_status_is_read_back(
        names in prop::collection::vec(path(), 0..8), oid in oid(),
        kinds in prop::collection::vec(0usize..8, 8),
    ) {
        let known = [
            (".M", ChangeKind::Modified, false), ("M.", ChangeKind::Modified, true), ("MM", ChangeKind::Modified, true),
            ("A.", ChangeKind::Added, true), (".D", ChangeKind::Deleted, false), ("D.", ChangeKind::Deleted, true),
            ("UU", ChangeKind::Unmerged, true), ("??", ChangeKind::Untracked, false),
        ];
        let (mut output, mut expected) = (Vec::new(), Vec::new());
        for (name, kind) in names.iter().zip(kinds) {
            let (xy, kind, staged) = known[kind];
            let record = if xy == "??" { [b"? ", &name[..]].concat() } else { status_record(xy, name, &oid, xy == "UU") };
            output.extend(record);
            output.push(0);
            expected.push((FilePath::new(name.clone()), kind, staged));
        }
        let read = split_nul(&output).iter().filter_map(|record| change(record, Path::new("/nowhere"))).map(|c| (c.path, c.kind, c.staged)).collect::<Vec<_>>();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_diff_is_read_back(files in prop::collection::vec(file(), 0..8)) {
        // Git lists each path once.
        let files: BTreeMap<Vec<u8>, File> = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let files: Vec<File> = files.into_values().collect();
        let read = read_listing(&printed(&files)).unwrap();
        prop_assert_eq!(read.len(), files.len());
        for (read, file) in read.iter().zip(&files) {
            prop_assert_eq!(read.path.as_bytes(), &file.path[..]);
            prop_assert_eq!(read.old_path.as_ref().map(FilePath::as_bytes), file.old.as_deref());
            prop_assert_eq!((read.additions, read.deletions), (file.counts.map(|c| c.0.into()), file.counts.map(|c| c.1.into())));
            prop_assert_eq!(read.binary, file.counts.is_none());
            prop_assert_eq!(read.old_mode.as_deref(), (file.status != 'A').then_some(MODES[file.modes.0]));
            prop_assert_eq!(read.new_mode.as_deref(), (file.status != 'D').then_some(MODES[file.modes.1]));
            prop_assert_eq!(read.status == diff::Status::Renamed, file.status == 'R');
        }
    }

    #[test]
    fn worktrees_are_read_back(trees in prop::collection::vec(registered(), 0..5)) {
        let trees: Vec<Registered> = trees.into_iter().map(|tree| Registered { head: tree.head.filter(|oid| !oid.is_null()), ..tree }).collect();
        prop_assert_eq!(read_list(&worktrees(&trees)), trees);
    }

    #[test]
    fn branches_are_read_back(branches in prop::collection::vec((branch(), oid(), prop::option::of(place())), 0..6)) {
        let branches: Vec<Branch> = branches.into_iter().map(|(name, oid, checked_out_at)| Branch { name, oid, checked_out_at }).collect();
        let printed: Vec<u8> = branches.iter().flat_map(|branch| {
            let tree = branch.checked_out_at.as_ref().map(|path| path.as_os_str().as_encoded_bytes()).unwrap_or_default();
            record(&[format!("refs/heads/{}", branch.name).as_bytes(), branch.oid.as_str().as_bytes(), tree])
        }).collect();
        prop_assert_eq!(read_branches(&printed), branches);
    }

    #[test]
    fn snapshots_are_read_back(
        snapshots in prop::collection::vec(("[a-z0-9-]{1,12}", oid(), prop::option::of(oid()), prop::option::of(branch()), 0i64..9_999_999_999), 0..5)
    ) {
        let printed: Vec<u8> = snapshots.iter().flat_map(|(id, oid, head, branch, made_at)| {
            let head = head.as_ref().map(|oid| format!("Taskyard-Head: {oid}\n")).unwrap_or_default();
            let branch = branch.as_ref().map(|branch| format!("Taskyard-Branch: {branch}\n")).unwrap_or_default();
            let message = format!("What was unsaved\n\nTwo\nlines.\n\n{head}{branch}");
            record(&[format!("refs/taskyard/snapshots/{id}").as_bytes(), oid.as_str().as_bytes(), made_at.to_string().as_bytes(), message.as_bytes()])
        }).collect();
        let read: Vec<_> = snapshot::read_list(&printed).into_iter().map(|s| (s.id, s.oid, s.head, s.branch, s.made_at)).collect();
        prop_assert_eq!(read, snapshots);
    }

    #[test]
    fn a_merge_is_read_back(tree in oid(), files in prop::collection::btree_map(path(), (1u8..4, any::<bool>()), 0..6), note in path()) {
        let mut printed = format!("{tree}\0").into_bytes();
        for (path, (stages, _)) in &files {
            for stage in 1..=*stages {
                printed.extend([format!("100644 {tree} {stage}\t").as_bytes(), &path[..], b"\0"].concat());
            }
        }
        printed.push(0);
        for (path, (_, twice)) in &files {
            let messages: &[&str] = if *twice { &["CONFLICT (contents)", "CONFLICT (binary)"] } else { &["CONFLICT (contents)"] };
            for kind in messages {
                printed.extend([b"2\0", &path[..], b"\0", &note[..], b"\0", kind.as_bytes(), b"\0", kind.as_bytes(), b": Merge conflict\n\0"].concat());
            }
            printed.extend([b"1\0", &path[..], b"\0Auto-merging\0Auto-merging\n\0"].concat());
        }
        let fields = split_nul(&printed);
        let read = read_merged(&mut fields.iter().map(Vec::as_slice), "test").unwrap();
        let paths: Vec<&[u8]> = read.files.iter().map(|file| file.path.as_bytes()).collect();
        prop_assert_eq!(paths, files.keys().map(Vec::as_slice).collect::<Vec<_>>());
        for file in &read.files {
            prop_assert!(file.kinds.iter().any(|kind| kind == "contents"), "{:?}", file);
            prop_assert_eq!(file.kinds.iter().any(|kind| kind == "binary"), files[file.path.as_bytes()].1 || file.path.as_bytes() == &note[..] && files.values().any(|f| f.1));
        }
    }

    #[test]
    fn what_isnt_gits_is_refused_or_left_out(bytes in disorder()) {
        let records = split_nul(&bytes);
        let _ = records.iter().filter_map(|record| change(record, Path::new("/nowhere"))).count();
        prop_assert!(read_list(&bytes).len() <= records.len());
        prop_assert!(read_branches(&bytes).len() <= records.len());
        prop_assert!(snapshot::read_list(&bytes).len() <= records.len());
        for result in [read_listing(&bytes).map(|_| ()), read_merged(&mut records.iter().map(Vec::as_slice), "test").map(|_| ())] {
            prop_assert!(matches!(result, Ok(()) | Err(Error::Unreadable { .. })), "{:?}", result);
        }
    }

    #[test]
    fn objects_are_named_in_full_or_not_at_all(text in "[0-9a-fA-F]{38,66}|.{0,70}") {
        match Oid::parse(&text) {
            Some(oid) => prop_assert!(oid.as_str() == text.trim() && matches!(oid.as_str().len(), 40 | 64) && oid.as_str().starts_with(oid.short())),
            None => prop_assert!(!matches!(text.trim().len(), 40 | 64) || text.trim().bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f'))),
        }
    }

    #[test]
    fn paths_collide_in_both_directions(a in path(), b in path()) {
        let (one, other) = (FilePath::new(a.clone()), FilePath::new(b.clone()));
        let above = |a: &[u8], b: &[u8]| b.starts_with(&[a, b"/"].concat());
        prop_assert_eq!(one.collides_with(&other), a == b || above(&a, &b) || above(&b, &a));
        prop_assert_eq!(one.collides_with(&other), other.collides_with(&one));
    }
}
