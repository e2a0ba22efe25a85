//! Facts about a repository that decide what a worktree of it will lack: submodules, filters, large files.
//!
//! Reads only.

use crate::contents::Contents;
use crate::error::Result;
use crate::repo::Repo;
use crate::runner::split_nul;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use taskyard_domain::repository::HookPolicy;
use taskyard_process::Environment;

/// What a repository is like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Whether there is anything to start from.
    pub has_commits: bool,
    /// Whether the last commit has submodules.
    pub submodules: bool,
    /// Filters that attributes of the last commit name.
    pub filters: Vec<Filter>,
    /// What a person should know before the first task, in sentences.
    pub notes: Vec<String>,
}

/// A filter that some files of the repository go through when they are checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Filter {
    /// Its name, `lfs` for instance.
    pub name: String,
    /// Whether git's configuration says how to run it.
    pub configured: bool,
    /// Whether files can't be checked out without it.
    pub required: bool,
    /// The program it needs and that isn't there.
    pub missing_program: Option<String>,
}

impl Filter {
    /// What that means for a worktree, if anything.
    fn note(&self) -> Option<String> {
        let name = &self.name;
        let effect = if name == "lfs" { "large files stay pointers" } else { "files stay as they are stored" };
        match (&self.missing_program, self.configured, self.required) {
            (Some(program), _, true) => {
                Some(format!("the filter {name} needs the program {program}, which isn't installed: files can't be checked out"))
            }
            (Some(program), _, false) => Some(format!("the filter {name} needs the program {program}, which isn't installed: {effect}")),
            (None, false, _) => Some(format!("the filter {name} is used but not set up in git's configuration: {effect}")),
            (None, true, _) => None,
        }
    }
}

/// Looks at the last commit of `repo`.
///
/// # Errors
/// Git's.
pub async fn facts(repo: &Repo) -> Result<Facts> {
    match repo.resolve("HEAD").await? {
        Some(head) => facts_of(repo, &Contents::of_commit(repo, &head).await?).await,
        None => facts_of(repo, &Contents::default()).await,
    }
}

/// The same for a repository whose last commit is known to hold `contents`.
///
/// # Errors
/// Git's.
pub async fn facts_of(repo: &Repo, contents: &Contents) -> Result<Facts> {
    let has_commits = repo.has_commits().await?;
    let submodules = !contents.gitlinks.is_empty();
    let mut facts = Facts { has_commits, submodules, filters: Vec::new(), notes: Vec::new() };
    if !has_commits {
        facts.notes.push("the repository has no commit yet: make a first commit".into());
    }
    if contents.has_attributes {
        for name in filter_names(repo).await? {
            facts.filters.push(filter(repo, name).await?);
        }
    }
    facts.notes.extend(facts.filters.iter().filter_map(Filter::note));
    Ok(facts)
}

/// Names of the filters in the attributes of the last commit.
async fn filter_names(repo: &Repo) -> Result<BTreeSet<String>> {
    let places = [":(top).gitattributes", ":(top,glob)**/.gitattributes"];
    let call = repo.call_common("look for filters").pathspec_magic().args(["grep", "-h", "-I", "-z", "-e", "filter=", "HEAD", "--"]);
    let found = call.args(places).accept(&[0, 1]).await?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let names = lines.flat_map(str::split_whitespace).filter_map(|word| word.strip_prefix("filter="));
    Ok(names.map(|name| name.trim_end_matches('\0').to_owned()).filter(|name| !name.is_empty()).collect())
}

async fn filter(repo: &Repo, name: String) -> Result<Filter> {
    let value = async |key: &str| {
        let key = format!("filter.{name}.{key}");
        let call = repo.call_common("read a filter's settings").hooks(HookPolicy::Run).args(["config", "-z", "--get", &key]);
        let found = split_nul(&call.accept(&[0, 1]).await?.stdout);
        crate::Result::Ok(found.first().map(|value| String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty()))
    };
    let command = match value("process").await? {
        Some(command) => Some(command),
        None => value("smudge").await?,
    };
    let required = value("required").await?.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1"));
    let program = command.as_deref().and_then(|command| command.split_whitespace().next()).map(str::to_owned);
    let missing_program = program.filter(|program| !installed(program, repo.git().environment()));
    Ok(Filter { name, configured: command.is_some(), required, missing_program })
}

fn installed(program: &str, environment: &Environment) -> bool {
    if program.contains('/') || program.contains(['\'', '"', '$', '~']) {
        // Quoted or computed names are the shell's business; only plain ones can be judged here.
        return !program.starts_with('/') || Path::new(program).exists();
    }
    environment.find(program).is_some()
}
