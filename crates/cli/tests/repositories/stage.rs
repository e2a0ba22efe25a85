//! A server whose project is a clone of one of the repositories that `scripts/real-repositories.sh` has built.

use crate::project::Project;
use crate::support::{Setup, Yard};
use std::path::{Path, PathBuf};

/// Names the folder that the script printed.
const FOLDER: &str = "TASKYARD_REAL_REPOSITORIES";

/// Git's settings besides, for the server as for plain git: submodules come from folders; the filters that the
/// repositories' attributes name.
const CONFIG: &str = r#"
[protocol "file"]
	allow = always
[filter "rot13"]
	clean = tr A-Za-z N-ZA-Mn-za-m
	smudge = tr A-Za-z N-ZA-Mn-za-m
	required = true
"#;

/// Which of the built repositories.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The script's name for it.
    pub name: &'static str,
    /// The folder of the repository below that.
    pub main: &'static str,
}

impl Source {
    /// The folder that holds it and what belongs to it.
    pub fn folder(self) -> PathBuf {
        let root = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} isn't set: run `make test-repositories`"));
        let folder = PathBuf::from(root).join(self.name);
        assert!(folder.is_dir(), "{} is missing: run `make test-repositories`", folder.display());
        folder
    }

    fn settings(self) -> String {
        let program = self.folder().join("bin/git-lfs");
        if !program.is_file() {
            return CONFIG.into();
        }
        // By name, as everybody has it: git-lfs also calls itself so.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there = std::env::split_paths(&path).any(|folder| folder == program.parent().unwrap());
        assert!(there, "{} isn't in PATH: run `make test-repositories`", program.display());
        format!(
            "{CONFIG}[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\
             \tprocess = git-lfs filter-process\n\trequired = true\n"
        )
    }
}

/// A server with nothing in it that knows the filters.
pub async fn yard(source: Source) -> Yard {
    let setup = Setup::new();
    append(&setup.folder().join("gitconfig"), &source.settings());
    let yard = Yard::with(setup).await;
    append(&yard.repo.outside().join("gitconfig"), &source.settings());
    yard
}

/// The user's clone of the repository, with a list for it.
pub async fn project<'y>(yard: &'y Yard, source: Source) -> Project<'y> {
    let path = yard.repo.outside().join(source.main);
    let from = source.folder().join(source.main);
    let clone = ["clone", "-q", "--recurse-submodules", from.to_str().unwrap(), path.to_str().unwrap()];
    yard.repo.git_in(yard.repo.outside(), &clone).await.unwrap();
    let project = Project::at(yard, path).await;
    assert_eq!(project.git(&["status", "--porcelain"]).await, "", "a fresh clone is clean");
    project
}

fn append(file: &Path, text: &str) {
    let mut all = std::fs::read_to_string(file).unwrap();
    all += text;
    std::fs::write(file, all).unwrap();
}
