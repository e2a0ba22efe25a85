//! `get_task_diff`: what a task changed, file by file, in pages that every client can take.

use super::paging;
use crate::merge::{Bench, Place, origin};
use crate::{Caller, Engine, fold};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use taskyard_domain::merge::{Kind, MergeRecord, State as MergeState};
use taskyard_domain::worktree::State;
use taskyard_domain::{Class, Error, Result};
use taskyard_git::diff::{Diff, End, FileChange, Start};
use taskyard_git::{FilePath, Oid, history};

/// `max_bytes` by default, and the most it can be.
const DEFAULT: i64 = 10_000;
const MOST: i64 = 262_144;
/// What an answer holds besides its files, bytes.
const ENVELOPE: usize = 900;
/// Most files of one page, with their patches and without.
const FILES: usize = 500;
const LISTED: usize = 5000;
/// How many patches are fetched at once, at first and at most.
const FEW: usize = 8;
const MANY: usize = 64;

/// Which changes, and how much of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskDiff {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
    /// Only this file, or the files of this folder.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether patches are left out.
    #[serde(default)]
    pub stat_only: bool,
    /// About how large the answer may be.
    #[serde(default = "default_bytes")]
    pub max_bytes: i64,
    /// Where to go on.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn default_bytes() -> i64 {
    DEFAULT
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    /// Its name; of a deleted file, the one it had.
    pub path: String,
    /// The other name of a rename or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// `added`, `modified`, `deleted`, `renamed`, `copied`, `mode_changed` or `type_changed`.
    pub status: String,
    /// Lines added; null for binary files.
    pub additions: Option<u64>,
    /// Lines deleted; null for binary files.
    pub deletions: Option<u64>,
    /// Whether git treats it as binary.
    #[serde(default, skip_serializing_if = "is_false")]
    pub binary: bool,
    /// Mode before, where it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_mode: Option<String>,
    /// Mode after, where it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<String>,
    /// Whether it is, or was, a symbolic link.
    #[serde(default, skip_serializing_if = "is_false")]
    pub symlink: bool,
    /// Whether it is, or was, a submodule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub submodule: bool,
    /// Bytes.
    pub size: Option<u64>,
    /// Its patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Whether the patch was cut: with `path` set to this file alone, `next_cursor` gives the rest, part by part.
    #[serde(default, skip_serializing_if = "is_false")]
    pub patch_truncated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A page of a task's changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskDiffOutput {
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The worktree.
    pub worktree_id: String,
    /// Its state.
    pub worktree_state: String,
    /// The branch it goes to.
    pub target: Option<String>,
    /// The commit the diff starts from.
    pub base_commit: String,
    /// The branch's commit: what `expected_head` can insist on.
    pub tip_commit: String,
    /// Commits that the branch has and the target hasn't.
    pub ahead: usize,
    /// Commits that the target has and the branch hasn't; they are not part of the diff.
    pub behind: usize,
    /// Whether it includes changes that aren't committed.
    pub uncommitted: bool,
    /// How many files differ in all, after `path`.
    pub total_files: usize,
    /// Lines added in all.
    pub total_additions: u64,
    /// Lines deleted in all.
    pub total_deletions: u64,
    /// The files of this page, by name.
    pub files: Vec<DiffFile>,
    /// Whether a patch was cut or there are more files.
    pub truncated: bool,
    /// For the next page.
    pub next_cursor: Option<String>,
}

/// A diff with what it is compared to.
struct Taken {
    diff: Diff,
    target: Option<String>,
    ahead: usize,
    behind: usize,
}

impl Engine {
    /// A page of a task's changes from the merge base, uncommitted ones of a worktree included. Of a worktree that was put
    /// away, what its branch has, if anything.
    ///
    /// # Errors
    /// `NOT_FOUND` without a worktree; `INVALID_ARGUMENT` for a cursor of a state that has passed;
    /// `FAILED_PRECONDITION` when branch or repository are missing.
    pub async fn get_task_diff(&self, caller: &Caller, input: GetTaskDiff) -> Result<GetTaskDiffOutput> {
        if !(1..=MOST).contains(&input.max_bytes) {
            return Err(Error::invalid("max_bytes", format!("max_bytes is {}; it can be 1 to {MOST}", input.max_bytes)));
        }
        let place = match self.find_place(caller, &input.task_id, input.worktree_id.as_deref()).await? {
            (_, Some(place)) => place,
            // Put away, with nothing to merge or by a person: what it was is still known.
            (task, None) => match self.place_put_away(&task).await? {
                Some(place) => place,
                None => self.place(caller, &input.task_id, None).await?,
            },
        };
        let bench = self.bench(&place.repository).await?;
        let taken = take(&bench, &place).await?;
        let files = self.listed(&taken.diff, input.path.as_deref()).await?;
        let (from, skip) = start(&input, &taken.diff)?;
        let budget = usize::try_from(input.max_bytes).unwrap_or_default().saturating_sub(ENVELOPE).max(300);
        let (page, next) = match &files[..] {
            // The one file that was asked for comes whole, in as many parts as it takes.
            [file] if !input.stat_only && from == 0 => part(&taken.diff, file, skip, budget).await?,
            _ => {
                let page = page(&taken.diff, &files, from, budget, input.stat_only).await?;
                let next = (from + page.len(), 0);
                (page, next)
            }
        };
        let more = next.0 < files.len();
        let sum = |count: fn(&FileChange) -> Option<u64>| files.iter().filter_map(count).sum();
        Ok(GetTaskDiffOutput {
            task_id: place.task().id.to_string(),
            short_id: place.task().short_id.to_string(),
            worktree_id: place.worktree.id.to_string(),
            worktree_state: place.worktree.state.to_string(),
            target: taken.target,
            base_commit: taken.diff.base.to_string(),
            tip_commit: taken.diff.tip.to_string(),
            ahead: taken.ahead,
            behind: taken.behind,
            uncommitted: taken.diff.uncommitted,
            total_files: files.len(),
            total_additions: sum(|file| file.additions),
            total_deletions: sum(|file| file.deletions),
            truncated: more || page.iter().any(|file| file.patch_truncated),
            files: page,
            next_cursor: if more { Some(paging::encode(&(next.0, taken.diff.tip.as_str(), next.1))?) } else { None },
        })
    }
}

impl Engine {
    /// The files of a diff that are `path` or inside it. A listing between commits is made once for all pages.
    async fn listed(&self, diff: &Diff, path: Option<&str>) -> Result<Vec<FileChange>> {
        let path = path.map(|path| path.trim_end_matches('/')).filter(|path| !path.is_empty() && *path != ".");
        let known = self.listings().get(diff);
        if let (Some(path), None) = (path, &known)
            && let Some(files) = diff.files_below(&FilePath::from(path)).await.map_err(fold::git)?
            && !files.is_empty()
        {
            return Ok(files);
        }
        let all = match known {
            Some(all) => all,
            None => {
                let all = Arc::new(diff.files().await.map_err(fold::git)?);
                self.listings().keep(diff, &all);
                all
            }
        };
        Ok(all.iter().filter(|file| path.is_none_or(|path| is_below(file, path))).cloned().collect())
    }
}

/// Where a page starts: at which file, and how far into its patch.
fn start(input: &GetTaskDiff, diff: &Diff) -> Result<(usize, usize)> {
    let cursor = paging::decode::<(usize, String, usize)>(input.cursor.as_deref())?;
    let Some((from, tip, skip)) = cursor else { return Ok((0, 0)) };
    if tip == diff.tip.as_str() {
        return Ok((from, skip));
    }
    Err(Error::invalid("cursor", "cursor is of an earlier state: the branch has moved since").with_hint("leave cursor out to start again"))
}

/// Takes the diff: of the worktree as it is, or of the commits where the folder is gone or the work is merged.
async fn take(bench: &Bench, place: &Place) -> Result<Taken> {
    let last = place.records.iter().rev().find(|r| r.worktree_id == place.worktree.id && r.kind == Kind::Merge && was_landed(r));
    let copied = crate::facts::copied(&place.worktree);
    let is_open = matches!(place.worktree.state, State::Active | State::Kept);
    let tree = if is_open { place.tree(bench).await? } else { None };
    let tip = match last.filter(|_| place.worktree.state == State::Merged) {
        Some(merged) => recorded(&merged.tip)?,
        // A branch without work of its own goes with its worktree.
        None if place.worktree.state == State::Discarded => match place.tip(bench).await {
            Err(error) if error.class == Class::FailedPrecondition => recorded(&place.worktree.base_commit)?,
            tip => tip?,
        },
        None => place.tip(bench).await?,
    };
    let target = place.target(bench, None).await.ok();
    let start = match (origin(bench, &place.records, place.worktree.id).await?, &target) {
        // Merged work is in the target: only the records know where it started.
        (Some(start), _) => Start::Commit(start),
        (None, Some(target)) => Start::MergeBase(target.tip.clone()),
        (None, None) => Start::MergeBase(recorded(&place.worktree.base_commit)?),
    };
    let (repo, end) = match &tree {
        Some(tree) => (tree, End::Worktree { copied: &copied }),
        None => (&bench.repo, End::Commit(tip)),
    };
    let diff = Diff::take(repo, &bench.scratch, &start, &end).await.map_err(fold::git)?;
    let (ahead, behind) = match &target {
        Some(target) => history::ahead_behind(&bench.repo, &diff.tip, &target.tip).await.map_err(fold::git)?,
        None => (diff.ahead, diff.behind),
    };
    Ok(Taken { diff, target: target.map(|target| target.branch), ahead, behind })
}

fn was_landed(record: &MergeRecord) -> bool {
    matches!(record.state, MergeState::Landed | MergeState::Reverted)
}

fn recorded(text: &str) -> Result<Oid> {
    Oid::parse(text).ok_or_else(|| Error::internal(format!("a record holds {text:?}, which is no commit id")))
}

/// Whether a file, by either of its names, is `path` or inside it.
fn is_below(file: &FileChange, path: &str) -> bool {
    let fits = |name: String| name == path || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    fits(file.path.to_string()) || file.old_path.as_ref().is_some_and(|old| fits(old.to_string()))
}

/// The files from number `from` on that fit into `budget` bytes; at least one where there is one.
async fn page(diff: &Diff, files: &[FileChange], from: usize, budget: usize, stat_only: bool) -> Result<Vec<DiffFile>> {
    let mut page = Vec::new();
    let mut used = 0;
    let some = files.iter().skip(from).take(if stat_only { LISTED } else { FILES });
    let (mut patches, mut fetched, mut chunk) = (VecDeque::new(), from, FEW);
    for file in some {
        let mut row = shown(file);
        if !stat_only && patches.is_empty() {
            let next = &files[fetched..files.len().min(fetched + chunk)];
            patches.extend(diff.patches(next, budget).await.map_err(fold::git)?);
            (fetched, chunk) = (fetched + next.len(), MANY.min(chunk * 2));
        }
        if let Some(patch) = patches.pop_front() {
            row.patch_truncated = patch.truncated;
            row.patch = Some(patch.text);
        }
        if used + paging::size(&row) > budget {
            if !page.is_empty() {
                break;
            }
            shrink(&mut row, budget);
        }
        used += paging::size(&row) + 1;
        page.push(row);
    }
    Ok(page)
}

/// The one file with as much of its patch, from byte `skip` on, as fits into `budget` bytes; and where the rest starts.
async fn part(diff: &Diff, file: &FileChange, skip: usize, budget: usize) -> Result<(Vec<DiffFile>, (usize, usize))> {
    const LEAST: usize = 64;
    let mut room = budget;
    loop {
        let (patch, end) = diff.part(file, skip, room).await.map_err(fold::git)?;
        let mut row = shown(file);
        row.patch_truncated = patch.truncated;
        row.patch = Some(patch.text);
        let size = paging::size(&row);
        if size <= budget || room <= LEAST {
            // Without any progress there is nothing to go on to.
            let more = patch.truncated && end > skip;
            return Ok((vec![row], if more { (0, end) } else { (1, 0) }));
        }
        // Characters that take several in JSON.
        room = (room.saturating_mul(budget) / size * 9 / 10).clamp(LEAST, room - 1);
    }
}

/// Cuts the patch after a whole line, so that the row fits.
fn shrink(row: &mut DiffFile, budget: usize) {
    while let Some(patch) = row.patch.take() {
        let size = paging::size(&*row) + paging::size(&patch);
        if size <= budget || patch.is_empty() {
            row.patch = Some(patch);
            return;
        }
        let keep = (patch.len() * budget / size).min(patch.len() - 1) * 9 / 10;
        let text = crate::view::cut(&patch, keep);
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        row.patch = Some(whole.to_owned());
        row.patch_truncated = true;
    }
}

fn shown(file: &FileChange) -> DiffFile {
    let changed = file.old_mode != file.new_mode;
    let status = serde_json::to_value(file.status).ok().and_then(|v| v.as_str().map(str::to_owned));
    DiffFile {
        path: file.path.to_string(),
        old_path: file.old_path.as_ref().map(ToString::to_string),
        status: status.unwrap_or_default(),
        additions: file.additions,
        deletions: file.deletions,
        binary: file.binary,
        old_mode: file.old_mode.clone().filter(|_| changed),
        new_mode: file.new_mode.clone().filter(|_| changed),
        symlink: file.symlink,
        submodule: file.submodule,
        size: file.size,
        patch: None,
        patch_truncated: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(patch: &str) -> DiffFile {
        DiffFile {
            path: "a".into(),
            old_path: None,
            status: "modified".into(),
            additions: Some(1),
            deletions: None,
            binary: false,
            old_mode: None,
            new_mode: None,
            symlink: false,
            submodule: false,
            size: None,
            patch: Some(patch.into()),
            patch_truncated: false,
        }
    }

    #[test]
    fn a_patch_is_cut_after_a_line_until_its_row_fits() {
        let mut long = row(&"+\"quoted\"\n".repeat(500));
        shrink(&mut long, 1000);
        let patch = long.patch.clone().unwrap();
        assert!(paging::size(&long) <= 1000 && long.patch_truncated);
        assert!(patch.ends_with('\n') && patch.len() > 300, "{}", patch.len());
        let mut short = row("+a\n");
        shrink(&mut short, 1000);
        assert_eq!(short, row("+a\n"));
        let mut one_line = row(&"x".repeat(5000));
        shrink(&mut one_line, 1000);
        assert_eq!(one_line.patch.as_deref(), Some(""));
    }
}
