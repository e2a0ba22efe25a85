//! What merging several branches one after another would come to, and who is in whose way.
//!
//! The branches go onto the target in the order given, in memory; one that conflicts is left out and the sequence
//! goes on. Usually one git process per branch, everything else is asked for all of them at once. Touches no ref, index or
//! worktree; with [`Objects::Discard`] not even the repository's objects.

use crate::error::Result;
use crate::file_path::FilePath;
use crate::graph::Graph;
use crate::history;
use crate::merge_tree::{ConflictFile, Merged, ObjectStore, merge_tree, merge_trees};
use crate::oid::Oid;
use crate::record::{Author, commit_tree};
use crate::repo::Repo;
use crate::runner::{Identity, Policy};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use taskyard_domain::repository::{HookPolicy, SignPolicy};

/// What becomes of the objects of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// They vanish: the result's names are good for comparing only.
    Discard,
    /// They stay in the repository until git collects them: the combined commit can be checked out and verified.
    Keep,
}

/// Who is in the way of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opponent {
    /// The target itself.
    Target,
    /// The branch with this index.
    Branch(usize),
}

/// A branch that doesn't merge after those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its index.
    pub index: usize,
    /// The files in conflict.
    pub files: Vec<ConflictFile>,
    /// The target, and those earlier branches that touch a conflicting path and conflict with this one pairwise. When
    /// only several together are in the way, those that touch a conflicting path.
    pub conflicts_with: Vec<Opponent>,
}

/// One branch by itself against the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Single {
    /// Its index.
    pub index: usize,
    /// Its commit.
    pub tip: Oid,
    /// Whether it merges into the target without conflicts.
    pub clean: bool,
    /// The files in conflict with the target.
    pub files: Vec<ConflictFile>,
    /// How many files of the target it would change.
    pub changed_files: usize,
    /// How many commits it has that the target hasn't.
    pub ahead: usize,
    /// How many commits the target has that it hasn't.
    pub behind: usize,
}

/// The truth about a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetPreview {
    /// The commit merged into.
    pub target: Oid,
    /// Each branch by itself.
    pub each: Vec<Single>,
    /// The branches that merge, in order.
    pub order_ok: Vec<usize>,
    /// Those that don't.
    pub left_out: Vec<LeftOut>,
    /// Files that more than one branch changes.
    pub overlap: Vec<Overlap>,
    /// A commit with the target and all of `order_ok` as parents; the target when there are none.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
}

/// A file that several branches change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The file.
    pub path: FilePath,
    /// The branches.
    pub branches: Vec<usize>,
}

/// Merges `tips` one after another onto `target`, in memory. `scratch` is a folder of ours.
///
/// # Errors
/// [`crate::Error::UnrelatedHistories`] and git's own: all tips must be commits that share history with the target, so look at
/// each with [`crate::preview::preview`] first when that isn't certain.
pub async fn preview_set(repo: &Repo, scratch: &Path, objects: Objects, target: &Oid, tips: &[Oid]) -> Result<SetPreview> {
    let store = match objects {
        Objects::Discard => ObjectStore::temporary(repo, scratch)?,
        Objects::Keep => ObjectStore::Repository,
    };
    let pairs: Vec<(&Oid, &Oid)> = tips.iter().map(|tip| (target, tip)).collect();
    let alone = merge_trees(repo, &store, target, &pairs).await?;
    let changed = changes(repo, &store, target, &alone).await?;
    let all: Vec<&Oid> = std::iter::once(target).chain(tips).collect();
    let graph = Graph::read(repo, &all).await?;
    let Chain { order_ok, stuck, commit, tree } = chain(repo, &store, target, tips, &graph).await?;
    let known = Known { target, tips, alone: &alone, changed: &changed, order_ok: &order_ok };
    let left_out = opponents(repo, &store, &known, stuck).await?;
    let of_target = graph.reach(target.as_str());
    let distance = |tip: &Oid| {
        let of_tip = graph.reach(tip.as_str());
        (of_tip.difference(&of_target).count(), of_target.difference(&of_tip).count())
    };
    let distances: Vec<(usize, usize)> = tips.iter().map(distance).collect();
    let overlap = overlaps(&changed);
    let each = alone.into_iter().enumerate().map(|(index, merged)| Single {
        index,
        tip: tips[index].clone(),
        clean: merged.clean,
        files: merged.files,
        changed_files: changed[index].len(),
        ahead: distances[index].0,
        behind: distances[index].1,
    });
    Ok(SetPreview { target: target.clone(), each: each.collect(), order_ok, left_out, overlap, commit, tree })
}

/// Which of `tips` share no history with the target, by index. Usually one call of git.
///
/// # Errors
/// Git's.
pub async fn unrelated(repo: &Repo, target: &Oid, tips: &[Oid]) -> Result<Vec<usize>> {
    let call = repo.call_common("find the merge base").args(["merge-base", "--octopus"]).arg(target).args(tips);
    if call.accept(&[0, 1]).await?.ok() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (index, tip) in tips.iter().enumerate() {
        if history::merge_base(repo, target, tip).await?.is_none() {
            found.push(index);
        }
    }
    Ok(found)
}

/// What is known when opponents are looked for.
struct Known<'a> {
    target: &'a Oid,
    tips: &'a [Oid],
    alone: &'a [Merged],
    changed: &'a [BTreeSet<FilePath>],
    order_ok: &'a [usize],
}

type Stuck = Vec<(usize, Merged)>;

/// What the sequence came to.
struct Chain {
    order_ok: Vec<usize>,
    stuck: Stuck,
    commit: Oid,
    tree: Oid,
}

/// The sequence. Each step merges trees by the one merge base the histories have, which takes a single process; where
/// there may be several, the steps so far become a commit and git finds the bases itself.
async fn chain(repo: &Repo, store: &ObjectStore, target: &Oid, tips: &[Oid], graph: &Graph) -> Result<Chain> {
    let who = Identity { name: "Taskyard".into(), email: "taskyard@localhost".into() };
    let author = Author { who, policy: Policy { hooks: HookPolicy::Skip, sign: SignPolicy::Never } };
    let combined = async |tree: &Oid, parents: &[&Oid]| match parents {
        [only] => Ok((*only).clone()),
        several => commit_tree(repo, store, tree, several, "Trial", &author).await,
    };
    let (mut order_ok, mut stuck, mut tree) = (Vec::new(), Vec::new(), history::tree_of(repo, target).await?);
    let (mut parents, mut inside) = (vec![target], graph.reach(target.as_str()));
    for (index, tip) in tips.iter().enumerate() {
        let of_tip = graph.reach(tip.as_str());
        let merged = match graph.only_base(&inside, &of_tip) {
            Some(base) => merge_tree(repo, store, Some(&base), &tree, tip).await?,
            None => merge_tree(repo, store, None, &combined(&tree, &parents).await?, tip).await?,
        };
        if merged.clean {
            tree = merged.tree;
            inside.extend(of_tip);
            parents.push(tip);
            order_ok.push(index);
        } else {
            stuck.push((index, merged));
        }
    }
    Ok(Chain { order_ok, stuck, commit: combined(&tree, &parents).await?, tree })
}

/// For each branch, the files of the target that it changes; both names of a rename.
async fn changes(repo: &Repo, store: &ObjectStore, target: &Oid, alone: &[Merged]) -> Result<Vec<BTreeSet<FilePath>>> {
    let stage = "list changed files";
    let base = history::tree_of(repo, target).await?;
    // A line may come only once, or its answer couldn't be told from the next one's: the same tree is asked for once.
    let trees: BTreeSet<&Oid> = alone.iter().map(|merged| &merged.tree).filter(|tree| **tree != base).collect();
    let lines: String = trees.iter().map(|tree| format!("{base} {tree}\n")).collect();
    let call = repo.call_common(stage).args(["diff-tree", "--stdin", "-r", "-z", "--no-renames", "--name-only"]);
    let output = store.apply(call).input(lines).run().await?;
    let mut by_tree: BTreeMap<Oid, BTreeSet<FilePath>> = BTreeMap::new();
    let mut current = None;
    for field in output.stdout.split(|b| *b == 0) {
        // The line comes back, ended by a line feed even with `-z`, before the first name of its files.
        let (header, name) = split_header(field, &base);
        if let Some(tree) = header {
            current = Some(by_tree.entry(tree).or_default());
        }
        if let (Some(files), false) = (current.as_mut(), name.is_empty()) {
            files.insert(FilePath::new(name));
        }
    }
    let with_conflicts = |merged: &Merged| {
        let mut files = by_tree.get(&merged.tree).cloned().unwrap_or_default();
        files.extend(merged.paths());
        files
    };
    Ok(alone.iter().map(with_conflicts).collect())
}

/// Takes `<base> <tree>\n` off the front of a field.
fn split_header<'a>(field: &'a [u8], base: &Oid) -> (Option<Oid>, &'a [u8]) {
    let header = field.strip_prefix(base.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
    let length = base.as_str().len();
    let Some((tree, rest)) = header.filter(|rest| rest.len() > length).map(|rest| rest.split_at(length)) else {
        return (None, field);
    };
    match (Oid::parse(&String::from_utf8_lossy(tree)), rest.strip_prefix(b"\n")) {
        (Some(tree), Some(name)) => (Some(tree), name),
        _ => (None, field),
    }
}

/// For each branch left out, who is in its way.
async fn opponents(repo: &Repo, store: &ObjectStore, known: &Known<'_>, stuck: Stuck) -> Result<Vec<LeftOut>> {
    let mut asked: Vec<(usize, usize)> = Vec::new();
    for (index, merged) in &stuck {
        let near = |file: &FilePath| known.changed[*index].contains(file) || merged.files.iter().any(|f| f.path.collides_with(file));
        let earlier = known.order_ok.iter().copied().filter(|other| other < index);
        asked.extend(earlier.filter(|other| known.changed[*other].iter().any(near)).map(|other| (*index, other)));
    }
    let pairs: Vec<(&Oid, &Oid)> = asked.iter().map(|(index, other)| (&known.tips[*other], &known.tips[*index])).collect();
    let answers = merge_trees(repo, store, known.target, &pairs).await?;
    let mut left_out = Vec::new();
    for (index, merged) in stuck {
        let touches = |path: &FilePath| merged.files.iter().any(|f| f.path.collides_with(path));
        let mine = || asked.iter().zip(&answers).filter(|((about, _), _)| *about == index);
        let pairwise = mine().filter(|(_, answer)| !answer.clean && answer.files.iter().any(|f| touches(&f.path)));
        let mut conflicts_with: Vec<Opponent> = pairwise.map(|((_, other), _)| Opponent::Branch(*other)).collect();
        if !known.alone[index].clean {
            conflicts_with.insert(0, Opponent::Target);
        }
        if conflicts_with.is_empty() {
            let near = mine().filter(|((_, other), _)| known.changed[*other].iter().any(touches));
            conflicts_with = near.map(|((_, other), _)| Opponent::Branch(*other)).collect();
        }
        left_out.push(LeftOut { index, files: merged.files, conflicts_with });
    }
    Ok(left_out)
}

/// The files that more than one branch changes.
fn overlaps(changed: &[BTreeSet<FilePath>]) -> Vec<Overlap> {
    let mut by_file: BTreeMap<&FilePath, Vec<usize>> = BTreeMap::new();
    for (index, files) in changed.iter().enumerate() {
        for file in files {
            by_file.entry(file).or_default().push(index);
        }
    }
    let several = by_file.into_iter().filter(|(_, branches)| branches.len() > 1);
    several.map(|(path, branches)| Overlap { path: path.clone(), branches }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_before_the_first_name_is_taken_off() {
        let base = Oid::parse(&"1".repeat(40)).unwrap();
        let tree = "2".repeat(40);
        let field = format!("{base} {tree}\nname");
        assert_eq!(split_header(field.as_bytes(), &base), (Oid::parse(&tree), &b"name"[..]));
        assert_eq!(split_header(b"name", &base), (None, &b"name"[..]));
    }

    #[test]
    fn files_of_one_branch_only_do_not_overlap() {
        let set = |names: &[&str]| names.iter().map(|n| FilePath::from(*n)).collect::<BTreeSet<_>>();
        let found = overlaps(&[set(&["a", "b"]), set(&["b"]), set(&["c"])]);
        assert_eq!(found, [Overlap { path: "b".into(), branches: vec![0, 1] }]);
    }
}
