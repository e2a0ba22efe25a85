//! What the user has set that decides how commits are made here: whom they are by, whether they are signed, where the
//! hooks are. Read with one call of git for all of it.

use crate::error::Result;
use crate::repo::Repo;
use crate::runner::{Identity, path_from, split_nul};
use std::path::PathBuf;
use taskyard_domain::repository::HookPolicy;

/// The keys, as git's list names them.
const KEYS: &str = r"^(user\.(name|email)|core\.hookspath|commit\.gpgsign)$";

/// Settings of one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whom commits are by, when both name and address are set.
    pub(crate) who: Option<Identity>,
    /// `commit.gpgSign`.
    pub(crate) sign: bool,
    /// `core.hooksPath`, as it is seen from the top of the checkout.
    pub(crate) hooks: Option<PathBuf>,
}

impl Settings {
    /// Reads them.
    pub(crate) async fn read(repo: &Repo) -> Result<Self> {
        // Without our pins, which set one of these very values.
        let ask = |stage| repo.call(stage).hooks(HookPolicy::Run).arg("config");
        let listed = ask("read the user's settings").args(["-z", "--get-regexp", KEYS]).accept(&[0, 1]).await?;
        let found = Found::read(&listed.stdout);
        let sign = match truth(found.sign.as_deref().unwrap_or(b"false")) {
            Some(sign) => sign,
            // An odd one is git's to read, or to refuse.
            None => ask("read the signing setting").args(["--type=bool", "--get", "commit.gpgSign"]).text().await? == "true",
        };
        let who = found.who();
        let hooks = match found.hooks {
            Some(path) if path.starts_with(b"~") || path.starts_with(b"%") || path.starts_with(b":") => {
                let whole = ask("find the hooks").args(["--type=path", "-z", "--get", "core.hooksPath"]).accept(&[0, 1]).await?;
                split_nul(&whole.stdout).into_iter().next()
            }
            plain => plain,
        };
        let hooks = hooks.filter(|path| !path.is_empty()).map(|path| path_from(&path));
        Ok(Self { who, sign, hooks })
    }
}

/// What the list holds; of a key that is there several times the last one, as git has it.
#[derive(Debug, Default)]
struct Found {
    name: Option<Vec<u8>>,
    email: Option<Vec<u8>>,
    sign: Option<Vec<u8>>,
    hooks: Option<Vec<u8>>,
}

impl Found {
    fn read(listed: &[u8]) -> Self {
        let mut found = Self::default();
        for entry in split_nul(listed) {
            let end = entry.iter().position(|b| *b == b'\n');
            let (key, value) = (&entry[..end.unwrap_or(entry.len())], end.map(|end| entry[end + 1..].to_vec()));
            match key {
                b"user.name" => found.name = value,
                b"user.email" => found.email = value,
                b"commit.gpgsign" => found.sign = Some(value.unwrap_or_else(|| b"true".to_vec())),
                b"core.hookspath" => found.hooks = value,
                _ => {}
            }
        }
        found
    }

    fn who(&self) -> Option<Identity> {
        let text = |value: Option<&[u8]>| {
            let text = String::from_utf8_lossy(value?).trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        Some(Identity { name: text(self.name.as_deref())?, email: text(self.email.as_deref())? })
    }
}

/// A plain truth value; `None` for one that git has to read.
fn truth(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"on" | b"1" => Some(true),
        b"false" | b"no" | b"off" | b"0" | b"" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_holds() {
        let found = Found::read(b"user.name\nA\0user.email\na@x\0user.name\n B \0commit.gpgsign\0core.hookspath\n/a\nb\0");
        assert_eq!(found.who(), Some(Identity { name: "B".into(), email: "a@x".into() }));
        assert_eq!((found.sign.as_deref(), found.hooks.as_deref()), (Some(&b"true"[..]), Some(&b"/a\nb"[..])));
        assert_eq!(Found::read(b"user.name\nA\0user.email\n\0").who(), None);
    }

    #[test]
    fn odd_truth_is_left_to_git() {
        assert_eq!(truth(b"Yes"), Some(true));
        assert_eq!(truth(b""), Some(false));
        assert_eq!(truth(b"2"), None);
    }
}
