//! Names of files inside a repository: bytes as git stores them, text only for showing.

use serde::{Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file's path from the top of its tree, as the bytes git stores, with `/` between the parts.
///
/// Shown and serialised as text with bytes that aren't UTF-8 replaced; only the bytes go back to git.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(Vec<u8>);

impl FilePath {
    /// The path of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Git's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For the operating system.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Where it is in the tree whose top is `top`.
    pub fn within(&self, top: &Path) -> PathBuf {
        top.join(Path::new(self.as_os_str()))
    }

    /// Whether one of the two is the other or a folder above it, so that both can't be files of one tree.
    pub fn collides_with(&self, other: &Self) -> bool {
        let above = |a: &[u8], b: &[u8]| b.len() > a.len() && b.starts_with(a) && b[a.len()] == b'/';
        let (a, b) = (self.0.strip_suffix(b"/").unwrap_or(&self.0), other.0.strip_suffix(b"/").unwrap_or(&other.0));
        a == b || above(a, b) || above(b, a)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for FilePath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The paths as text, for errors.
pub(crate) fn shown<'a>(paths: impl IntoIterator<Item = &'a FilePath>) -> Vec<String> {
    paths.into_iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_collides_with_itself_and_with_folders_of_its_name() {
        let path = FilePath::from("a/b");
        for (other, collides) in [("a/b", true), ("a", true), ("a/b/c", true), ("a/b/", true), ("a/bc", false), ("b", false)] {
            assert_eq!(path.collides_with(&FilePath::from(other)), collides, "{other}");
            assert_eq!(FilePath::from(other).collides_with(&path), collides, "{other}");
        }
    }
}
