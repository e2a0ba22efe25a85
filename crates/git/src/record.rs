//! Commit objects made without a checkout, signed as the repository asks, and the private refs that keep them.
//!
//! `refs/taskyard/merges/<id>` protects a result from garbage collection until whoever asked for it has landed it
//! or given up. Never moves a branch.

use crate::error::{Error, Result};
use crate::merge_tree::ObjectStore;
use crate::oid::Oid;
use crate::refs;
use crate::repo::Repo;
use crate::runner::{Call, Identity, Policy};
use taskyard_domain::repository::SignPolicy;

/// What a commit made for a person says.
#[derive(Debug, Clone)]
pub struct Author {
    /// Author and committer.
    pub who: Identity,
    /// Hooks and signatures.
    pub policy: Policy,
}

/// The private ref of the result `id`.
///
/// # Errors
/// [`Error::Unreadable`] when `id` can't be part of a ref's name.
pub fn merge_ref(id: &str) -> Result<String> {
    let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if !plain {
        return Err(Error::Unreadable { stage: "name a merge", what: format!("{id:?} is no plain identifier") });
    }
    Ok(format!("refs/taskyard/merges/{id}"))
}

/// Keeps `commit` under the private ref of `id`.
///
/// # Errors
/// Git's.
pub async fn protect(repo: &Repo, id: &str, commit: &Oid) -> Result<()> {
    let name = merge_ref(id)?;
    refs::past_dead_lock(repo, &name, repo.call_common("keep the result").arg("update-ref").arg(&name).arg(commit)).await
}

/// Gives up the private ref of `id`; fine when there is none.
///
/// # Errors
/// Git's.
pub async fn release(repo: &Repo, id: &str) -> Result<()> {
    let name = merge_ref(id)?;
    refs::past_dead_lock(repo, &name, repo.call_common("release the result").args(["update-ref", "-d"]).arg(&name)).await
}

/// The ids of the results that private refs keep.
///
/// # Errors
/// Git's.
pub async fn kept(repo: &Repo) -> Result<Vec<String>> {
    refs::names(repo, "refs/taskyard/merges").await
}

/// Whom git's configuration makes commits by in `repo`, when it says both name and address.
///
/// # Errors
/// Git's.
pub async fn configured(repo: &Repo) -> Result<Option<Identity>> {
    Ok(repo.settings().await?.who.clone())
}

/// Makes a commit of `tree`, signed when policy and configuration say so. No hooks.
pub(crate) async fn commit_tree(
    repo: &Repo,
    store: &ObjectStore,
    tree: &Oid,
    parents: &[&Oid],
    message: &str,
    author: &Author,
) -> Result<Oid> {
    let sign = signs(repo, author.policy).await?;
    let stage = "make a commit";
    let mut call = store.apply(repo.call_common(stage)).args(["-c", "i18n.commitEncoding=UTF-8", "commit-tree"]).by(&author.who);
    if sign {
        call = call.arg("-S").time_limit(repo.git().limits().signing);
    }
    call = parents.iter().fold(call, |call, parent| call.arg("-p").arg(parent));
    let made = call.args(["-F", "-"]).arg(tree).input(text(message)).oid().await;
    made.map_err(|error| if sign { signing(error) } else { error })
}

/// The message with one line end at its end.
pub(crate) fn text(message: &str) -> String {
    format!("{}\n", message.replace('\0', " ").trim_end())
}

/// Whether commits made here are to be signed.
pub(crate) async fn signs(repo: &Repo, policy: Policy) -> Result<bool> {
    if policy.sign == SignPolicy::Never {
        return Ok(false);
    }
    Ok(repo.settings().await?.sign)
}

/// Fails early, and in bounded time, where a signature is wanted but can't be made.
pub(crate) async fn probe_signing(repo: &Repo, store: &ObjectStore, tree: &Oid, author: &Author) -> Result<()> {
    if signs(repo, author.policy).await? {
        commit_tree(repo, store, tree, &[], "Can commits be signed?", author).await?;
    }
    Ok(())
}

/// What a call that signs failed of.
pub(crate) fn signing(error: Error) -> Error {
    match error {
        Error::TimedOut { limit, stderr, .. } => {
            let text = format!("no signature within {} s; is the signing program waiting for a person? {stderr}", limit.as_secs_f32());
            Error::SigningFailed { text: text.trim_end().into() }
        }
        Error::Failed { stderr, .. } if speaks_of_signing(&stderr) => Error::SigningFailed { text: stderr },
        other => other,
    }
}

fn speaks_of_signing(stderr: &str) -> bool {
    ["gpg", "sign", "user.signingkey", "secret key"].iter().any(|word| stderr.to_ascii_lowercase().contains(word))
}

/// Settings of the user's that would change what merge, commit and rebase do, set to plain.
pub(crate) fn plain(call: Call, sign: bool) -> Call {
    const PLAIN: &[&str] = &[
        "merge.ff=true",
        "merge.conflictStyle=merge",
        "merge.verifySignatures=false",
        "merge.autoStash=false",
        "merge.log=false",
        "merge.branchdesc=false",
        "rerere.enabled=false",
        "rerere.autoUpdate=false",
        "rebase.autoSquash=false",
        "rebase.autoStash=false",
        "rebase.updateRefs=false",
        "rebase.rebaseMerges=false",
        "rebase.backend=merge",
        "rebase.missingCommitsCheck=ignore",
        "rebase.abbreviateCommands=false",
        "rebase.stat=false",
        "commit.verbose=false",
        "commit.status=false",
        "commit.cleanup=whitespace",
        "i18n.commitEncoding=UTF-8",
        "format.signOff=false",
    ];
    let call = PLAIN.iter().fold(call, |call, pin| call.arg("-c").arg(pin));
    call.arg("-c").arg(format!("commit.gpgSign={sign}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_inside_the_private_namespace() {
        assert_eq!(merge_ref("01-a_b").unwrap(), "refs/taskyard/merges/01-a_b");
        for bad in ["", "../heads/main", "a b", "a/b", "a\n"] {
            assert!(merge_ref(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn messages_end_in_one_line_end() {
        assert_eq!(text("a\n\nb\n\n"), "a\n\nb\n");
    }
}
