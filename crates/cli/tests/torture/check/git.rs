//! The repositories: nothing of anybody's is lost, the target is exactly what was merged and committed, nothing of
//! Taskyard's lies about.

use crate::base::Base;
use crate::stage::{EDITED, Project, Stage, TARGET, UNTRACKED};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files and folders of git's that say that an operation is in progress.
const IN_PROGRESS: &[&str] =
    &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer", "AUTO_MERGE"];

/// A merge or revert that landed.
struct Landed {
    id: String,
    task: String,
    before: String,
    after: String,
    tip: String,
    base: String,
    stays: bool,
}

/// A worktree's row.
struct Tree {
    task: String,
    path: String,
    branch: String,
    has_folder: bool,
}

/// What the database says about one repository.
struct Rows {
    landed: Vec<Landed>,
    trees: Vec<Tree>,
    open: Vec<(String, String)>,
    snapshots: BTreeSet<String>,
    tips: BTreeMap<String, BTreeSet<String>>,
}

/// What is wrong.
pub async fn check(stage: &Stage) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut reachable = BTreeSet::new();
    for n in 0..stage.projects.len() {
        let project = &stage.projects[n];
        let rows = rows(stage, project).await;
        let mut found = Vec::new();
        if let Err(error) = stage.git(&project.path, &["fsck", "--no-dangling", "--no-progress"]).await {
            found.push(error);
        }
        found.extend(leftovers(&project.path.join(".git"), &rows.open));
        found.extend(refs(stage, project, &rows).await);
        found.extend(worktrees(stage, project, &rows).await);
        found.extend(checkout(stage, project).await);
        found.extend(target(stage, n, &rows).await);
        wrong.extend(found.into_iter().map(|text| format!("project {n}: {text}")));
        let objects = stage.git(&project.path, &["rev-list", "--all", "--objects", "--no-object-names"]).await.unwrap_or_default();
        reachable.extend(objects.lines().map(str::to_owned));
    }
    wrong.extend(scratch(stage).await);
    wrong.extend(proofs(stage, &reachable).await);
    wrong
}

async fn rows(stage: &Stage, project: &Project) -> Rows {
    let mut base = Base::open(&stage.data()).await.unwrap();
    let here = format!("IN (SELECT id FROM repository WHERE local_path = '{}')", project.path.display());
    let merges = "SELECT m.id, m.task_id, m.target_before, coalesce(m.target_after, ''), m.tip, coalesce(m.merge_base, ''), m.kind, m.state, \
                  coalesce(m.merge_worktree_path, '') FROM merge_record m JOIN worktree w ON w.id = m.worktree_id WHERE w.repository_id ";
    let mut rows = Rows { landed: Vec::new(), trees: Vec::new(), open: Vec::new(), snapshots: BTreeSet::new(), tips: BTreeMap::new() };
    for row in base.texts(&format!("{merges}{here} ORDER BY m.landed_at")).await {
        let [id, task, before, after, tip, merge_base, kind, state, path]: [String; 9] = row.try_into().unwrap();
        if state == "open" {
            rows.open.push((id.clone(), path));
        }
        if matches!(state.as_str(), "landed" | "reverted") {
            rows.tips.entry(task.clone()).or_default().insert(tip.clone());
            rows.landed.push(Landed { id, task, before, after, tip, base: merge_base, stays: kind == "merge" && state == "landed" });
        }
    }
    let trees = "SELECT task_id, path, branch, CAST(has_folder AS TEXT) FROM worktree WHERE repository_id ";
    for row in base.texts(&format!("{trees}{here}")).await {
        let [task, path, branch, has_folder]: [String; 4] = row.try_into().unwrap();
        rows.trees.push(Tree { task, path, branch, has_folder: has_folder == "1" });
    }
    rows.snapshots = base.column(&format!("SELECT ref_name FROM snapshot WHERE repository_id {here}")).await.into_iter().collect();
    rows
}

/// Locks and operations in progress, anywhere in the git folder but in the private folders of open merges.
fn leftovers(git: &Path, open: &[(String, String)]) -> Vec<String> {
    let is_open = |folder: &Path| {
        let link = std::fs::read_to_string(folder.join("gitdir")).unwrap_or_default();
        open.iter().any(|(_, path)| Path::new(link.trim_end()).parent() == Some(Path::new(path)))
    };
    let mut wrong = Vec::new();
    let mut folders = vec![git.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            // An agent that was killed while it committed leaves its index, HEAD and branch locked; its next turn clears that.
            let of_tree = folder.parent().is_some_and(|parent| parent == git.join("worktrees"))
                && (name == "index.lock" || name == "HEAD.lock" || name.starts_with("next-index-"));
            let agents_own = of_tree || folder == git.join("refs/heads/taskyard");
            if IN_PROGRESS.contains(&name.as_str()) || (name.ends_with(".lock") && !agents_own) {
                wrong.push(format!("left over: {}", path.display()));
            } else if path.is_dir() && name != "objects" && !is_open(&path) {
                folders.push(path);
            }
        }
    }
    wrong
}

/// Every ref is the user's or one that Taskyard lists.
async fn refs(stage: &Stage, project: &Project, rows: &Rows) -> Vec<String> {
    let list = stage.git(&project.path, &["for-each-ref", "--format=%(refname) %(objectname)"]).await;
    let list = match list {
        Ok(list) => list,
        Err(error) => return vec![error],
    };
    let known = |name: &str, oid: &str| {
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            return branch == TARGET || branch == "elsewhere" || rows.trees.iter().any(|tree| tree.branch == branch);
        }
        if let Some(kept) = name.strip_prefix("refs/taskyard/tasks/") {
            let task = kept.split('/').next().unwrap_or_default();
            return rows.tips.get(task).is_some_and(|tips| tips.contains(oid));
        }
        match name.strip_prefix("refs/taskyard/merges/") {
            Some(id) => rows.open.iter().any(|(open, _)| open == id),
            None => rows.snapshots.contains(name),
        }
    };
    let unknown = list.lines().filter_map(|line| line.split_once(' ')).filter(|(name, oid)| !known(name, oid));
    let mut wrong: Vec<String> = unknown.map(|(name, _)| format!("a ref that nobody lists: {name}")).collect();
    let names: BTreeSet<&str> = list.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect();
    wrong.extend(rows.snapshots.iter().filter(|name| !names.contains(name.as_str())).map(|name| format!("the snapshot {name} is gone")));
    wrong
}

/// Git's list of worktrees is that of the database.
async fn worktrees(stage: &Stage, project: &Project, rows: &Rows) -> Vec<String> {
    let list = match stage.git(&project.path, &["worktree", "list", "--porcelain"]).await {
        Ok(list) => list,
        Err(error) => return vec![error],
    };
    let registered: BTreeSet<String> = list.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect();
    let touched = |tree: &&Tree| {
        let book = stage.ledger.open();
        book.tasks.get(&tree.task).is_some_and(|told| told.folder_deleted || told.folder_damaged)
    };
    let spared: BTreeSet<&str> = rows.trees.iter().filter(touched).map(|tree| tree.path.as_str()).collect();
    let mut expected: BTreeSet<String> = rows.trees.iter().filter(|tree| tree.has_folder).map(|tree| tree.path.clone()).collect();
    expected.extend(rows.open.iter().map(|(_, path)| path.clone()));
    let mut wrong = Vec::new();
    for path in registered.symmetric_difference(&expected).filter(|path| !spared.contains(path.as_str())) {
        let what = if expected.contains(path) { "isn't registered with git" } else { "is registered with git and nobody's" };
        wrong.push(format!("the worktree {path} {what}"));
    }
    // A path may have been an earlier worktree's too.
    let paths: BTreeSet<&str> = rows.trees.iter().map(|tree| tree.path.as_str()).filter(|path| !spared.contains(path)).collect();
    for path in paths {
        if expected.contains(path) != Path::new(path).exists() {
            wrong.push(format!("the folder {path} is there: {}; the database says {}", !expected.contains(path), expected.contains(path)));
        }
    }
    wrong
}

/// The user's checkout is as the user left it.
async fn checkout(stage: &Stage, project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    let status = stage.git(&project.path, &["status", "--porcelain"]).await.unwrap_or_else(|error| error);
    let expected = format!(" M {EDITED}\n?? {UNTRACKED}");
    if status != expected {
        wrong.push(format!("the user's checkout shows {status:?} instead of {expected:?}"));
    }
    for (name, text) in [(EDITED, "edited by the user\n"), (UNTRACKED, "noted by the user\n")] {
        let found = std::fs::read_to_string(project.path.join(name)).unwrap_or_default();
        if found != text {
            wrong.push(format!("the user's {name} holds {found:?}"));
        }
    }
    let head = stage.git(&project.path, &["symbolic-ref", "HEAD"]).await.unwrap_or_else(|error| error);
    if head != format!("refs/heads/{TARGET}") {
        wrong.push(format!("the user's checkout is on {head}"));
    }
    wrong
}

/// From the target's tip back to the start every step is one landed record or one commit of the user's; none is missing.
async fn target(stage: &Stage, n: usize, rows: &Rows) -> Vec<String> {
    let project = &stage.projects[n];
    let told = stage.ledger.open().repositories.get(&n).cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    let mut at = stage.git(&project.path, &["rev-parse", TARGET]).await.unwrap_or_default();
    let mut seen = BTreeSet::new();
    while at != project.start {
        if !seen.insert(at.clone()) {
            wrong.push(format!("the target's history runs in a circle at {at}"));
            break;
        }
        if told.commits.contains(&at) {
            at = stage.git(&project.path, &["rev-parse", &format!("{at}^1")]).await.unwrap_or_default();
        } else if let Some(record) = rows.landed.iter().find(|record| record.after == at) {
            at.clone_from(&record.before);
        } else {
            wrong.push(format!("the target holds {at}, which is neither a landed merge's nor the user's"));
            break;
        }
    }
    if !told.moved_back && wrong.is_empty() {
        let missing = rows.landed.iter().filter(|record| !seen.contains(&record.after));
        wrong.extend(missing.map(|record| format!("the target lacks the landed {} ({})", record.id, record.after)));
        wrong.extend(
            told.commits.iter().filter(|commit| !seen.contains(*commit)).map(|commit| format!("the target lacks the user's {commit}")),
        );
    }
    wrong.extend(content(stage, project, rows, &seen).await);
    wrong
}

/// The files that a merged task added are in the target, unless a revert took them out.
async fn content(stage: &Stage, project: &Project, rows: &Rows, seen: &BTreeSet<String>) -> Vec<String> {
    let there = stage.git(&project.path, &["ls-tree", "-r", "--name-only", TARGET]).await.unwrap_or_default();
    let there: BTreeSet<&str> = there.lines().collect();
    let mut wrong = Vec::new();
    for record in rows.landed.iter().filter(|record| record.stays && seen.contains(&record.after) && !record.base.is_empty()) {
        let diff = stage.git(&project.path, &["diff", "--name-only", "--diff-filter=A", &record.base, &record.tip]).await;
        for file in diff.unwrap_or_default().lines().filter(|file| !there.contains(file)) {
            wrong.push(format!("{file} of the merged task {} isn't in the target", record.task));
        }
    }
    wrong
}

/// Taskyard's private space holds nothing but open merges.
async fn scratch(stage: &Stage) -> Vec<String> {
    let mut base = Base::open(&stage.data()).await.unwrap();
    let open = base.column("SELECT coalesce(merge_worktree_path, '') FROM merge_record WHERE state = 'open'").await;
    let mut wrong = Vec::new();
    for repository in std::fs::read_dir(stage.data().join("scratch")).into_iter().flatten().flatten() {
        for entry in std::fs::read_dir(repository.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !open.iter().any(|known| Path::new(known).starts_with(&path)) {
                wrong.push(format!("scratch space is left: {}", path.display()));
            }
        }
    }
    wrong
}

/// Everything that an agent proved is reachable from a ref, or lies in a worktree.
async fn proofs(stage: &Stage, reachable: &BTreeSet<String>) -> Vec<String> {
    let text = std::fs::read_to_string(stage.proofs()).unwrap_or_default();
    let files = files(&stage.data().join("worktrees"));
    let mut wrong = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("prompt ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, task, id, file] = words.as_slice() else {
            wrong.push(format!("a proof that can't be read: {line:?}"));
            continue;
        };
        if reachable.contains(*id) {
            continue;
        }
        let deleted = stage.ledger.open().tasks.get(*task).is_some_and(|told| told.folder_deleted);
        let path = files.get(*file).filter(|_| *kind == "file");
        let held = match path {
            Some(path) => stage.git(stage.folder(), &["hash-object", &path.to_string_lossy()]).await.is_ok_and(|hash| hash == *id),
            None => false,
        };
        if !(held || deleted && *kind == "file") {
            wrong.push(format!("lost: {line}"));
        }
    }
    wrong
}

fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
            }
        }
    }
    found
}
