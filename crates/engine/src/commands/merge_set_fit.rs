//! Makes the answer of `preview_merge_set` small enough for every client, whatever its tasks.
//!
//! Takes away in steps, the least telling first, and says so: the commits of each row, then names beyond the first
//! few, then the rows of tasks that merge anyway, then whole rows from the end.

use super::paging::{fitting, size};
use super::preview_merge_set::PreviewMergeSetOutput;

/// Bytes that the answer may take.
const ROOM: usize = 9_200;
/// Names that are left of a list of files or tasks.
const FEW: usize = 2;
/// Bytes of a handle that names no task.
const HANDLE: usize = 60;
/// Bytes that a row's error may say.
const MESSAGE: usize = 200;

impl PreviewMergeSetOutput {
    /// Leaves out what there is no room for.
    pub(super) fn fit(&mut self) {
        let steps: [fn(&mut Self); 4] = [Self::drop_commits, Self::drop_names, Self::drop_clean, Self::drop_rows];
        for step in steps {
            if size(self) <= ROOM {
                return;
            }
            step(self);
        }
    }

    fn drop_commits(&mut self) {
        self.commits_left_out = true;
        for task in &mut self.tasks {
            (task.target, task.target_commit, task.task_commit) = (None, None, None);
        }
    }

    fn drop_names(&mut self) {
        for task in &mut self.tasks {
            task.conflict_files.truncate(FEW);
            if let Some(error) = &mut task.error {
                error.details = None;
                task.task_id.truncate(task.task_id.floor_char_boundary(HANDLE));
                error.message.truncate(error.message.floor_char_boundary(MESSAGE));
            }
        }
        for left in &mut self.left_out {
            left.files.truncate(FEW);
            left.conflicts_with.truncate(FEW);
        }
        let fit = fitting(&self.overlap, ROOM / 10);
        self.overlap_truncated |= fit < self.overlap.len();
        self.overlap.truncate(fit);
    }

    fn drop_clean(&mut self) {
        self.truncated = true;
        self.hint = Some("tasks that are only in order_ok are clean by themselves; preview fewer tasks at a time to see all of it".into());
        let merges = |id: &String| self.order_ok.contains(id);
        self.tasks.retain(|task| !(merges(&task.task_id) && task.conflict_files.is_empty()));
    }

    fn drop_rows(&mut self) {
        if size(&self.overlap) > ROOM / 10 {
            self.overlap.clear();
            self.overlap_truncated = true;
        }
        let room = ROOM.saturating_sub(size(&self.order_ok) + size(&self.overlap) + 400);
        self.left_out.truncate(fitting(&self.left_out, room / 2));
        self.tasks.truncate(fitting(&self.tasks, room.saturating_sub(size(&self.left_out))));
    }
}
