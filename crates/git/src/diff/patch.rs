//! Patches of the files of a diff: one, a part of one, or several by one call.

use super::{Diff, FileChange, Side, Status};
use crate::error::{Error, Result};
use serde::Serialize;
use taskyard_process::Output;

/// How git writes a patch.
const PATCH: &[&str] = &["-p", "--src-prefix=a/", "--dst-prefix=b/"];

/// Bytes of files whose patches are fetched together.
const SMALL: usize = 64 << 10;

/// A file's patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Unified diff with header; bytes that aren't UTF-8 replaced, carriage returns kept.
    pub text: String,
    /// Whether it was cut, after a whole line.
    pub truncated: bool,
}

impl Diff {
    /// The patch of one file, at most about `max_bytes` of it, cut after a whole line. Empty, and marked as cut, only for
    /// a file that isn't committed and has changed back since it was listed.
    ///
    /// # Errors
    /// Git's; [`Error::Unreadable`] when git has nothing to show.
    pub async fn patch(&self, file: &FileChange, max_bytes: usize) -> Result<Patch> {
        let output = self.one(file, max_bytes).await?;
        let whole = if output.truncated { whole_lines(&output.stdout) } else { &output.stdout[..] };
        let truncated = output.truncated || output.stdout.is_empty();
        Ok(Patch { text: String::from_utf8_lossy(whole).into_owned(), truncated })
    }

    /// What git prints for one file, at most `max_bytes` of it.
    async fn one(&self, file: &FileChange, max_bytes: usize) -> Result<Output> {
        let stage = "show a patch";
        // The source of a copy may have changes of its own; the filter leaves them out. Of two copies of a file that is gone,
        // git calls one renamed, and each of them when it is asked for alone.
        let only = match file.status {
            Status::Renamed | Status::Copied => "--diff-filter=RC".to_owned(),
            status => format!("--diff-filter={}", status.letter()),
        };
        let call = self.sides(self.call(stage).args(PATCH).arg(only)).arg("--");
        let call = file.old_path.iter().fold(call, |call, old| call.arg(old.as_os_str())).arg(file.path.as_os_str());
        let output = call.output_cap(max_bytes.max(1)).output().await?;
        if !output.ok() {
            let stderr = output.stderr_tail();
            return Err(Error::Failed { stage, argv: format!("git diff -p -- {}", file.path), code: output.code, stderr });
        }
        if output.stdout.is_empty() && matches!(self.end, Side::Commit(_)) {
            return Err(Error::Unreadable { stage, what: format!("an empty patch for {}", file.path) });
        }
        Ok(output)
    }

    /// A part of the patch of one file, from byte `skip` of it on, at most `max_bytes`: whole lines where there are any. With
    /// it the byte where the next part starts. Parts read one after another are the whole patch.
    ///
    /// # Errors
    /// See [`Diff::patch`].
    pub async fn part(&self, file: &FileChange, skip: usize, max_bytes: usize) -> Result<(Patch, usize)> {
        let cap = skip.saturating_add(max_bytes.max(1));
        let output = self.one(file, cap).await?;
        let rest = output.stdout.get(skip..).unwrap_or_default();
        let cut = if output.truncated { whole_part(rest) } else { rest };
        let truncated = output.truncated || output.stdout.is_empty();
        Ok((Patch { text: String::from_utf8_lossy(cut).into_owned(), truncated }, skip + cut.len()))
    }

    /// The patches of several files, in their order, each as [`Diff::patch`] gives it; small ones in one call.
    ///
    /// # Errors
    /// See [`Diff::patch`].
    pub async fn patches(&self, files: &[FileChange], max_bytes: usize) -> Result<Vec<Patch>> {
        let small: Vec<&FileChange> = files.iter().filter(|file| is_small(file)).collect();
        let mut together = self.together(&small).await?.unwrap_or_default().into_iter();
        let mut patches = Vec::with_capacity(files.len());
        for file in files {
            let text = if is_small(file) { together.next() } else { None };
            let fits = text.filter(|text| text.len() <= max_bytes);
            patches.push(match fits {
                Some(text) => Patch { text, truncated: false },
                None => self.patch(file, max_bytes).await?,
            });
        }
        Ok(patches)
    }

    /// The whole patches of small files by one call; `None` when git's answer can't be told apart by file.
    async fn together(&self, files: &[&FileChange]) -> Result<Option<Vec<String>>> {
        if files.len() < 2 {
            return Ok(None);
        }
        let call = self.sides(self.call("show patches").args(PATCH).arg("--no-renames")).arg("--");
        let call = files.iter().fold(call, |call, file| call.arg(file.path.as_os_str()));
        let output = call.output_cap(files.len().saturating_mul(4 * SMALL)).output().await?;
        if !output.ok() || output.truncated {
            return Ok(None);
        }
        let texts = split_patches(&output.stdout);
        Ok((texts.len() == files.len()).then_some(texts))
    }
}

/// Whether the file's patch is small, and one of its own under its one name.
fn is_small(file: &FileChange) -> bool {
    let alone = matches!(file.status, Status::Added | Status::Modified | Status::Deleted | Status::ModeChanged);
    let lines = file.additions.unwrap_or(0).saturating_add(file.deletions.unwrap_or(0));
    alone && file.old_path.is_none() && !file.submodule && lines < 500 && file.size.is_some_and(|size| size < SMALL as u64)
}

/// One text for each file of a patch. Lines of a file's content begin with a sign or a space, never like a header.
fn split_patches(bytes: &[u8]) -> Vec<String> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"diff --git ") {
            texts.push(Vec::new());
        }
        if let Some(text) = texts.last_mut() {
            text.extend_from_slice(line);
        }
    }
    texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

/// Up to the last line end; all of it when there is none.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    bytes.iter().rposition(|b| *b == b'\n').map_or(bytes, |end| &bytes[..=end])
}

/// Up to the last line end; where a single line fills it all, up to the last character that is whole.
fn whole_part(bytes: &[u8]) -> &[u8] {
    if let Some(end) = bytes.iter().rposition(|b| *b == b'\n') {
        return &bytes[..=end];
    }
    match std::str::from_utf8(bytes) {
        // The end is in the middle of a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_told_apart_by_their_headers_only() {
        let (one, two) = ("diff --git a/x b/x\n@@ -1 +1 @@\n-diff --git a/y b/y\n+x\n", "diff --git a/y b/y\nold mode 100644\n");
        assert_eq!(split_patches(format!("{one}{two}").as_bytes()), [one, two]);
        assert!(split_patches(b"").is_empty());
    }

    #[test]
    fn a_cut_patch_ends_in_a_line_end() {
        assert_eq!(whole_lines(b"a\nb\nc"), b"a\nb\n");
        assert_eq!(whole_lines(b"abc"), b"abc");
        assert_eq!((whole_part(b"a\nb"), whole_part("aé".as_bytes())), (&b"a\n"[..], "aé".as_bytes()));
        assert_eq!((whole_part(&"aé".as_bytes()[..2]), whole_part(b"\xff\xc3")), (&b"a"[..], &b"\xff\xc3"[..]));
    }
}
