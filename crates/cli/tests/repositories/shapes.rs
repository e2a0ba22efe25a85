//! The shapes of repositories, each with work that its shape makes hard.

use crate::flow::{Work, whole};
use crate::stage::{Source, project, yard};

#[tokio::test]
async fn a_crate_with_its_history() {
    let source = Source { name: "crate", main: "itertools" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    let work = Work {
        file: "CHANGELOG.md",
        line_end: "",
        committed: ["git mv src/lib.rs src/library.rs && sed -i 3d src/library.rs", "rm -r benches", "git checkout -q 0.10.0 -- src"],
        left: "echo 'pub fn more() {}' > \"src/$TASKYARD_TASK_ID.rs\"",
        files: 2,
    };
    whole(&yard, &project, "crate", &work).await;
}

#[tokio::test]
async fn an_npm_package_with_its_history() {
    let source = Source { name: "npm", main: "lodash" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    let work = Work {
        file: "lodash.js",
        line_end: "",
        committed: ["git rm -qr fp", "git checkout -q 3.10.1 -- .", "mkdir moved && git mv _*.js moved"],
        left: "rm -f add.js; echo 1 > \"$TASKYARD_TASK_ID.js\"",
        files: 2,
    };
    whole(&yard, &project, "npm", &work).await;
}

#[tokio::test]
async fn twenty_thousand_files() {
    let source = Source { name: "files", main: "icons" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    let work = Work {
        file: "README.md",
        line_end: "",
        committed: [
            "git ls-files -z '*.js' | head -zn 5000 | xargs -0 sed -i '1i // changed'",
            "mkdir moved && git mv $(git ls-files 'A*.js') moved",
            "git ls-files -z '*.d.ts' | head -zn 2000 | xargs -0 git rm -q",
        ],
        left: "for n in $(seq 500); do echo $n > \"$TASKYARD_TASK_ID-$n.txt\"; done",
        files: 1500,
    };
    whole(&yard, &project, "files", &work).await;
}

#[tokio::test]
async fn submodules_inside_submodules() {
    let source = Source { name: "submodules", main: "requests" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    let inner = project.path.join("vendor/urllib3/contrib/idna");
    let before = project.git_in(&inner, &["for-each-ref"]).await;
    // What the agent sees of the innermost one goes into a file of its own.
    let seen = "head -3 vendor/urllib3/contrib/idna/idna/core.py > \"$TASKYARD_TASK_ID.txt\"; \
        cat vendor/größe_und_maß/idna/package_data.py >> \"$TASKYARD_TASK_ID.txt\"";
    let work = Work {
        file: "requests/models.py",
        line_end: "",
        committed: [
            "git -C vendor/urllib3 checkout -q 1.26.0",
            "git -C vendor/größe_und_maß checkout -q 3.4",
            "git config -f .gitmodules submodule.vendor/urllib3.branch main",
        ],
        left: seen,
        files: 2,
    };
    whole(&yard, &project, "submodules", &work).await;
    let found = project.git(&["ls-files", ":(glob)????????-????-*.txt"]).await;
    for file in found.lines() {
        let text = project.read(file).unwrap();
        assert!(text.lines().count() > 3 && text.contains("__version__"), "{file}: {text}");
    }
    assert_eq!(project.git_in(&inner, &["for-each-ref"]).await, before);
    assert_eq!(project.git_in(&inner, &["status", "--porcelain"]).await, "");
}

/// Work on files of many megabytes.
fn binaries() -> Work {
    Work {
        file: "numpy/core/_methods.py",
        line_end: "",
        committed: [
            "git checkout -q 1.26.3 -- numpy/fft numpy/core/*.so numpy/core/include",
            "cat numpy/core/*.so > numpy/core/all.so && git rm -q numpy/core/_simd*.so",
            "git mv numpy.libs moved.libs",
        ],
        left: "head -c 3000000 /dev/urandom > \"$TASKYARD_TASK_ID.so\"",
        files: 2,
    }
}

#[tokio::test]
async fn large_binaries() {
    let source = Source { name: "binaries", main: "numpy" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    whole(&yard, &project, "binaries", &binaries()).await;
}

#[tokio::test]
async fn large_binaries_with_lfs() {
    let source = Source { name: "lfs", main: "numpy" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    whole(&yard, &project, "lfs", &binaries()).await;
    // The checkout has the content, the repository the pointers.
    let added = project.git(&["ls-files", ":(glob)*.so"]).await;
    assert_eq!(added.lines().count(), 3, "{added}");
    for file in added.lines() {
        assert_eq!(std::fs::metadata(project.path.join(file)).unwrap().len(), 3_000_000, "{file}");
        let pointer = project.git(&["cat-file", "blob", &format!("main:{file}")]).await;
        assert!(pointer.starts_with("version https://git-lfs") && pointer.contains("size 3000000"), "{pointer}");
    }
}

#[tokio::test]
async fn a_monorepo() {
    let source = Source { name: "monorepo", main: "monorepo" };
    let yard = yard(source).await;
    let project = project(&yard, source).await;
    let work = Work {
        file: "packages/parser/CHANGELOG.md",
        line_end: "",
        committed: [
            "git mv 'dokumente/alt => neu.txt' 'dokumente/Aufträge => é.txt' && echo more >> 'dokumente/Übersicht é x.md' && \
             echo secret >> secrets/key && ln -sfn ../packages/types links/parser",
            "printf 'echo more\\r\\n' >> bin/run.bat && sed -i '2s/.*/Zeile zwei\\r/' windows/crlf.txt && chmod -x bin/run.sh && \
             chmod +x bin/run.bat",
            "rm links/dangling && mkdir links/dangling && echo x > links/dangling/file && git mv -- -n -m && \
             printf 'x\\n' > dokumente/日本語.txt",
        ],
        left: "echo quoted > \"dokumente/\\\"$TASKYARD_TASK_ID\\\" tab\there\"; echo version >> VERSION",
        files: 4,
    };
    whole(&yard, &project, "monorepo", &work).await;
}
