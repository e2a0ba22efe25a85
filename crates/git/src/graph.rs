//! The part of the history in which several commits differ, read once and asked many times.
//!
//! Pure once it is read. Holds every commit that one of the commits has and not all of them have in common.

use crate::error::Result;
use crate::oid::Oid;
use crate::repo::Repo;
use std::collections::{HashMap, HashSet};

/// Commits by name; a set belongs to the graph it came from.
pub(crate) type Commits = HashSet<String>;

/// Commits with their parents, down to what all have in common.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    parents: HashMap<String, Vec<String>>,
    /// A best common ancestor of all; it and what is below it is left out.
    common: Option<Oid>,
}

impl Graph {
    /// Reads what `commits` have beyond what all of them have in common.
    pub(crate) async fn read(repo: &Repo, commits: &[&Oid]) -> Result<Self> {
        let stage = "read the history";
        let common = repo.call_common(stage).args(["merge-base", "--octopus"]).args(commits).accept(&[0, 1]).await?;
        let common = Oid::parse(&String::from_utf8_lossy(&common.stdout));
        let mut lines: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
        lines.extend(common.iter().map(|oid| format!("^{oid}\n")));
        let text = repo.call_common(stage).args(["rev-list", "--parents", "--stdin"]).input(lines).text().await?;
        let entry = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            words.next().map(|commit| (commit, words.collect()))
        };
        Ok(Self { parents: text.lines().filter_map(entry).collect(), common })
    }

    /// The commits of the graph that `from` contains.
    pub(crate) fn reach(&self, from: &str) -> Commits {
        let mut seen = Commits::new();
        let mut next = vec![from];
        while let Some(commit) = next.pop() {
            let Some(above) = self.parents.get(commit) else { continue };
            if seen.insert(commit.to_owned()) {
                next.extend(above.iter().map(String::as_str));
            }
        }
        seen
    }

    /// The merge base of a side with these commits and one with those, when there certainly is exactly one.
    pub(crate) fn only_base(&self, ours: &Commits, theirs: &Commits) -> Option<Oid> {
        let common = self.common.as_ref()?;
        let shared: HashSet<&String> = ours.intersection(theirs).collect();
        if shared.is_empty() {
            return Some(common.clone());
        }
        let below: HashSet<&String> = shared.iter().filter_map(|commit| self.parents.get(*commit)).flatten().collect();
        let mut heads = shared.iter().filter(|commit| !below.contains(**commit));
        let (head, None) = (heads.next()?, heads.next()) else { return None };
        // Otherwise the common one would be a second merge base beside it.
        let on_top = shared.iter().filter_map(|commit| self.parents.get(*commit)).flatten().any(|parent| parent == common.as_str());
        on_top.then(|| Oid::parse(head)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(digit: char) -> Oid {
        Oid::parse(&digit.to_string().repeat(40)).unwrap()
    }

    /// `edges` are a commit and its parents, one digit each; `0` is what all have in common.
    fn graph(edges: &[&str]) -> Graph {
        let name = |digit: char| oid(digit).to_string();
        let entry = |edge: &&str| (name(edge.chars().next().unwrap()), edge.chars().skip(1).map(name).collect());
        Graph { parents: edges.iter().map(entry).collect(), common: Some(oid('0')) }
    }

    fn base(graph: &Graph, ours: char, theirs: char) -> Option<Oid> {
        graph.only_base(&graph.reach(oid(ours).as_str()), &graph.reach(oid(theirs).as_str()))
    }

    #[test]
    fn the_base_is_what_all_have_in_common_or_the_one_commit_shared_last() {
        let forked = graph(&["10", "20", "31", "41"]);
        assert_eq!(base(&forked, '1', '2'), Some(oid('0')));
        assert_eq!(base(&forked, '3', '4'), Some(oid('1')));
    }

    #[test]
    fn where_there_may_be_several_bases_none_is_named() {
        let crossed = graph(&["10", "20", "312", "421"]);
        assert_eq!(base(&crossed, '3', '4'), None);
        let beside = graph(&["15", "2", "310", "410"]);
        assert_eq!(base(&beside, '3', '4'), None, "the shared commit doesn't contain the common one");
    }
}
