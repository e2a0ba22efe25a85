//! Making and furnishing worktrees from repositories of every kind: what the run of a task stands on.

use crate::project::{Project, committed, message, put, repository, write};
use crate::support::{Setup, Yard, eventually};
use futures::future::join_all;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a1_a_foreign_folder_in_the_way_is_left_alone() {
    let yard = Yard::new().await;
    let task = yard.task("One", committed("b.txt", "b\n")).await;
    let short = yard.get(&task).await["short_id"].as_str().unwrap().to_lowercase();
    let taken = yard.server.data().join("worktrees/repo").join(format!("{short}-one"));
    put(&taken.join("mine"), "mine");
    yard.server.call("update_task_status", json!({ "task_id": task, "status": "queued" })).await;
    yard.reviewable(&task).await;
    assert_ne!(yard.worktree(&task).await, taken);
    let left: Vec<_> = std::fs::read_dir(&taken).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left, std::fs::read_to_string(taken.join("mine")).unwrap()), (vec!["mine".into()], "mine".to_owned()));
}

#[tokio::test]
async fn a2_a_branch_named_like_the_prefix_is_no_obstacle() {
    let yard = Yard::new().await;
    let blocked = Project::new(&yard, "blocked").await;
    blocked.git(&["branch", "taskyard"]).await;
    let (other, task) = (Project::own(&yard).await, blocked.work("One", committed("b.txt", "b\n")).await);
    let branch = yard.get(&task).await["worktree"]["branch"].as_str().unwrap().to_owned();
    assert!(!branch.starts_with("taskyard/"), "{branch}");
    assert_eq!(blocked.trees().await.len(), 2);
    let second = other.work("Two", committed("b.txt", "b\n")).await;
    for (project, task) in [(&blocked, &task), (&other, &second)] {
        assert_eq!(project.approve(task).await["merged"], true);
        assert_eq!(project.read("b.txt").as_deref(), Some("b\n"));
    }
    assert!(!blocked.git(&["rev-parse", "--verify", "refs/heads/taskyard"]).await.is_empty());
}

#[tokio::test]
async fn a3_a_repository_without_a_commit_is_refused_with_the_way_out() {
    let yard = Yard::new().await;
    let path = yard.repo.outside().join("empty");
    std::fs::create_dir(&path).unwrap();
    yard.repo.git_in(&path, &["init", "-q"]).await.unwrap();
    put(&path.join("f"), "x");
    let list = json!({ "name": "Empty", "local_path": path });
    let error = yard.server.refused("create_list", list.clone(), "FAILED_PRECONDITION").await;
    assert!(message(&error).contains("has no commit yet"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("commit"), "{error}");
    yard.repo.git_in(&path, &["commit", "--allow-empty", "-qm", "First"]).await.unwrap();
    yard.server.call("create_list", list).await;
}

#[tokio::test]
async fn a4_without_a_base_nothing_is_guessed() {
    let yard = Yard::new().await;
    let path = repository(&yard, "detached").await;
    for args in [&["checkout", "-q", "--detach"][..], &["branch", "-D", "main"]] {
        yard.repo.git_in(&path, args).await.unwrap();
    }
    let project = Project::at(&yard, path).await;
    let before = project.picture().await;
    let task = project.queue("One", committed("b.txt", "b\n")).await;
    let failed = yard.wait_status(&task, "failed").await;
    let why = failed["failure"].as_str().unwrap();
    assert!(why.contains("detached") && why.contains("name a base or check out a branch"), "{why}");
    assert_eq!(project.picture().await, before);
    // The second way out; the work then goes where it came from.
    project.git(&["checkout", "-q", "-b", "trunk"]).await;
    yard.server.call("run_task_now", json!({ "task_id": task })).await;
    yard.reviewable(&task).await;
    assert_eq!(project.approve(&task).await["merge"]["target"], "trunk");
}

#[tokio::test]
async fn a7_a_linked_worktree_can_be_the_project() {
    let yard = Yard::new().await;
    let main = Project::new(&yard, "main-tree").await;
    let linked = yard.repo.outside().join("wdev");
    main.git(&["branch", "dev"]).await;
    main.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "dev"]).await;
    let project = Project::at(&yard, linked.clone()).await;
    yard.server.call("set_list_config", json!({ "list_id": project.list, "target_branch": "dev" })).await;
    let task = project.work("One", json!([write("a.txt", "theirs\n"), write("b.txt", "b\n"), { "commit": "work" }])).await;
    project.write("a.txt", "dirty\n");
    let before = project.picture().await;
    let error = project.refused(&task, "FAILED_PRECONDITION").await;
    assert!(message(&error).contains(linked.to_str().unwrap()) && message(&error).contains("a.txt"), "{error}");
    assert_eq!(project.picture().await, before);
    project.write("a.txt", "a\n");
    let merged = project.approve(&task).await;
    assert_eq!(
        (&merged["merge"]["target"], project.git(&["rev-parse", "dev"]).await),
        (&json!("dev"), merged["merge"]["commit"].as_str().unwrap().to_owned())
    );
    assert_eq!(project.git(&["status", "--porcelain"]).await, "");
    assert_eq!((project.read("a.txt").as_deref(), project.read("b.txt").as_deref()), (Some("theirs\n"), Some("b\n")));
    assert_eq!(main.git(&["log", "--oneline", "main"]).await.lines().count(), 1);
}

#[tokio::test]
async fn a8_submodules_are_filled_and_cleaned_up() {
    let setup = Setup::new();
    let yard = Yard::with(setup).await;
    for folder in [yard.server.folder(), yard.repo.outside()] {
        let mut config = std::fs::read_to_string(folder.join("gitconfig")).unwrap();
        config += "[protocol \"file\"]\n\tallow = always\n";
        std::fs::write(folder.join("gitconfig"), config).unwrap();
    }
    repository(&yard, "sub").await;
    let project = Project::new(&yard, "with-sub").await;
    project.git(&["submodule", "--quiet", "add", "../sub", "sub"]).await;
    project.commit("Add sub").await;
    let before = (project.git_in(&project.path.join("sub"), &["for-each-ref"]).await, project.read("sub/a.txt"));
    let task = project.work("One", json!([{ "shell": "cp sub/a.txt copied.txt" }, { "commit": "work" }])).await;
    let folder = yard.worktree(&task).await;
    assert_eq!(std::fs::read_to_string(folder.join("copied.txt")).unwrap(), "a\n");
    let cleaned = yard.server.call("cleanup_task_worktree", json!({ "task_id": task })).await;
    assert_eq!((&cleaned["removed"], folder.exists(), project.trees().await.len()), (&json!(true), false, 1));
    assert_eq!((project.git_in(&project.path.join("sub"), &["for-each-ref"]).await, project.read("sub/a.txt")), before);
    // The agent points the submodule elsewhere. Nobody fetches from there, not even for a folder that is put back.
    let elsewhere = repository(&yard, "elsewhere").await;
    put(&elsewhere.join("secret.txt"), "secret\n");
    let secret = crate::project::commit_all(&yard, &elsewhere, "Secret").await;
    let url = format!("git config -f .gitmodules submodule.sub.url '{}'", elsewhere.display());
    let point = format!("git update-index --cacheinfo 160000,{secret},sub");
    project
        .go_on(
            &task,
            json!([{ "shell": url }, { "shell": "git add .gitmodules" }, { "shell": point }, { "shell": "git commit -qm elsewhere; git submodule deinit -q -f sub" }]),
        )
        .await;
    std::fs::remove_dir_all(yard.worktree(&task).await).unwrap();
    project.go_on(&task, json!([{ "shell": "ls sub > listing.txt" }, { "shell": "git add listing.txt; git commit -qm listing" }])).await;
    assert!(yard.log(&task).await.contains("submodules are not initialised"), "{}", yard.log(&task).await);
    assert_eq!(std::fs::read_to_string(yard.worktree(&task).await.join("listing.txt")).unwrap(), "");
    assert_eq!(project.approve(&task).await["merged"], true);
    for repo in [&project.path, &project.path.join("sub")] {
        yard.repo.git_in(repo, &["cat-file", "-e", &secret]).await.expect_err("somebody fetched it");
    }
}

#[tokio::test]
async fn a11_eight_starts_at_once_and_a_held_lock() {
    let yard = Yard::new().await;
    yard.server.set("configured_slots", 8).await;
    let origin = repository(&yard, "origin").await;
    let clone = yard.repo.outside().join("clone");
    yard.repo.git_in(yard.repo.outside(), &["clone", "-q", origin.to_str().unwrap(), clone.to_str().unwrap()]).await.unwrap();
    let project = Project::at(&yard, clone).await;
    // Somebody else's git holds the configuration while all eight start.
    let lock = project.path.join(".git/config.lock");
    std::fs::write(&lock, "").unwrap();
    let tasks = join_all((0..8).map(|n| {
        let steps = json!([write(&format!("f{n}.txt"), "x\n"), { "commit": "work" }, { "signal": yard.gate(&format!("up{n}")) }, { "wait_file": yard.gate("go") }]);
        let project = &project;
        async move { project.queue(&format!("Task {n}"), steps).await }
    }))
    .await;
    let held = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    tokio::time::sleep_until(held).await;
    std::fs::remove_file(&lock).unwrap();
    for n in 0..8 {
        yard.reached(&format!("up{n}")).await;
    }
    let trees = project.trees().await;
    assert_eq!(trees.iter().collect::<std::collections::BTreeSet<_>>().len(), 9, "{trees:?}");
    yard.open("go");
    for task in &tasks {
        yard.reviewable(task).await;
    }
    let branches = project.git(&["for-each-ref", "--format=%(refname)", "refs/heads/taskyard"]).await;
    assert_eq!(branches.lines().count(), 8, "{branches}");
    let merged = join_all(tasks.iter().map(|task| project.approve(task))).await;
    assert!(merged.iter().all(|answer| answer["merged"] == true), "{merged:?}");
    for n in 0..8 {
        assert_eq!(project.read(&format!("f{n}.txt")).as_deref(), Some("x\n"));
    }
    assert_eq!(project.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a12_a_run_without_isolation_fails_before_its_first_turn() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let inside = project.path.join("trees");
    yard.server.set("worktree_root", inside.to_str().unwrap()).await;
    let steps = json!([write("evil.txt", "x\n"), { "commit": "evil" }]);
    for script in [
        "rm -rf \"$TASKYARD_WORKTREE\"; mkdir -p \"$TASKYARD_WORKTREE\"",
        "mv \"$TASKYARD_WORKTREE\" \"$TASKYARD_WORKTREE.away\"; ln -s \"$(dirname \"$TASKYARD_WORKTREE\")/../..\" \"$TASKYARD_WORKTREE\"",
        "git checkout -q --detach",
    ] {
        project.set(json!({ "setup_script": script })).await;
        let before = (project.git(&["log", "--all", "--format=%s"]).await, project.git(&["rev-parse", "HEAD"]).await);
        let task = project.queue("Evil", steps.clone()).await;
        let failed = yard.wait_status(&task, "failed").await;
        assert!(failed["failure"].as_str().unwrap().contains("is not isolated"), "{failed}");
        assert_eq!((failed["latest_run"]["turns"].as_i64(), &failed["last_outcome"]), (Some(0), &json!("failed")));
        assert_eq!((project.git(&["log", "--all", "--format=%s"]).await, project.git(&["rev-parse", "HEAD"]).await), before);
        assert_eq!((project.read("evil.txt"), project.git(&["diff", "HEAD"]).await), (None, String::new()));
    }
}

#[tokio::test]
async fn a13_odd_names_of_folders_and_files_go_through_the_whole_job() {
    let yard = Yard::new().await;
    let path = repository(&yard, "mein repo é 'x'").await;
    for file in ["Aufträge/é x.md", "old.md", "-n"] {
        put(&path.join(file), "one\ntwo\nthree\nfour\n");
    }
    crate::project::commit_all(&yard, &path, "Odd").await;
    let project = Project::at(&yard, path).await;
    let odd = ["-n", "Aufträge/é x.md", "a\"b", "new\nline", "new.md", "tab\there => x"];
    let steps = json!([
        write(odd[0], "n\n"), write(odd[1], "2\n"), write(odd[2], "q\n"), { "rename": { "from": "old.md", "to": odd[4] } },
        { "append": { "path": odd[4], "content": "five\n" } }, write(odd[3], "l\n"), write(odd[5], "t\n"),
    ]);
    let task = project.work("Ünï 'q' \"d\" -- $(x)", steps).await;
    let core = yard.server.mcp("mode=core", None).await;
    let diff = core.call("get_task_diff", json!({ "task_id": task })).await.unwrap();
    let mut names: Vec<&str> = diff["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, odd);
    let renamed = diff["files"].as_array().unwrap().iter().find(|file| file["path"] == "new.md").unwrap();
    assert_eq!((&renamed["status"], &renamed["old_path"]), (&json!("renamed"), &json!("old.md")));
    for name in odd {
        let one = core.call("get_task_diff", json!({ "task_id": task, "path": name })).await.unwrap();
        assert_eq!(one["files"].as_array().unwrap().len(), 1, "{name:?}: {one}");
        assert!(one["files"][0]["patch"].as_str().unwrap().contains("\n+"), "{name:?}: {one}");
    }
    assert_eq!(core.call("preview_merge", json!({ "task_id": task })).await.unwrap()["result"], "clean");
    project.approve(&task).await;
    for name in odd {
        assert!(project.read(name).is_some(), "{name:?}");
    }
    assert_eq!((project.read("old.md"), project.git(&["status", "--porcelain"]).await), (None, String::new()));
    project.tidied(&task).await;
    yard.server.call("revert_merge", json!({ "task_id": task })).await;
    assert_eq!((project.read("old.md").is_some(), project.read(odd[3])), (true, None));
}

#[tokio::test]
async fn a14_copied_files_are_there_for_the_setup_script_and_never_in_the_work() {
    let yard = Yard::new().await;
    let project = Project::new(&yard, "configured").await;
    project.write(".gitignore", ".env\n.env.local\nlink\n");
    project.write("conf", "committed\n");
    project.commit("Configuration").await;
    project.write("conf", "changed here\n");
    project.write(".env", "SECRET=1\n");
    project.write("sub/.env.local", "LOCAL=2\n");
    std::fs::set_permissions(project.path.join(".env"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let outside = yard.repo.outside().join("outside");
    put(&outside, "not yours\n");
    std::os::unix::fs::symlink(&outside, project.path.join("link")).unwrap();
    let patterns = [".env", "sub/.env.local", "missing*", "conf", "link"];
    let script = "cat .env sub/.env.local conf; stat -c 'mode %a' .env";
    project.set(json!({ "copy_files": patterns, "setup_script": script })).await;
    let task = project.work("One", json!([write("b.txt", "b\n"), { "shell": "git add -A" }])).await;
    let log = yard.log(&task).await;
    for expected in ["SECRET=1\nLOCAL=2\ncommitted\nmode 600", "nothing matches missing*", "conf was not copied", "link was not copied"] {
        assert!(log.contains(expected), "{expected:?} in {log}");
    }
    let diff = yard.server.call("get_task_diff", json!({ "task_id": task })).await;
    let names: Vec<&str> = diff["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["b.txt"]);
    let folder = yard.worktree(&task).await;
    assert_eq!(project.git_in(&folder, &["show", "--format=", "--name-only", "HEAD"]).await, "b.txt");
    assert!(!folder.join("link").exists());
    project.approve(&task).await;
    project.tidied(&task).await;
    assert_eq!((project.read("conf").as_deref(), project.read(".env").as_deref()), (Some("changed here\n"), Some("SECRET=1\n")));
}

#[tokio::test]
async fn b6_a_link_to_shared_packages_is_neither_committed_nor_followed() {
    let yard = Yard::new().await;
    let project = Project::new(&yard, "packages").await;
    project.write(".gitignore", "node_modules/\n");
    project.commit("Ignore packages").await;
    let shared = yard.repo.outside().join("shared");
    put(&shared.join("deep/file"), "keep");
    let link = format!("ln -s '{}' node_modules", shared.display());
    let task = project.work("One", json!([{ "shell": link }, write("b.txt", "b\n")])).await;
    assert!(yard.log(&task).await.contains("node_modules was left out of the commit: it is a link"));
    let diff = yard.server.call("get_task_diff", json!({ "task_id": task })).await;
    assert_eq!((diff["total_files"].as_i64(), &diff["files"][0]["path"]), (Some(1), &json!("b.txt")), "{diff}");
    project.approve(&task).await;
    project.tidied(&task).await;
    assert_eq!(project.git(&["ls-files"]).await, ".gitignore\na.txt\nb.txt");
    assert_eq!(std::fs::read_to_string(shared.join("deep/file")).unwrap(), "keep");
    eventually("the folder to be gone", async || (!yard.worktree(&task).await.exists()).then_some(())).await;
}

#[tokio::test]
async fn a_worktree_that_is_put_back_is_furnished_again() {
    let yard = Yard::new().await;
    let project = Project::new(&yard, "furnished").await;
    project.write(".gitignore", ".env\npackages\n");
    project.commit("Ignore").await;
    project.write(".env", "SECRET=1\n");
    project.set(json!({ "copy_files": [".env"], "setup_script": "cp .env packages; echo set up" })).await;
    let task = project.work("One", committed("b.txt", "b\n")).await;
    let look = |name: &str| json!([{ "shell": format!("cat .env packages > {name}") }, { "commit": "seen" }]);
    // In the same folder nothing is done twice.
    project.go_on(&task, look("first.txt")).await;
    assert!(!yard.log(&task).await.contains("set up"));
    let folder = yard.worktree(&task).await;
    yard.server.call("cleanup_task_worktree", json!({ "task_id": task })).await;
    assert!(!folder.exists());
    project.go_on(&task, look("cleaned.txt")).await;
    std::fs::remove_dir_all(yard.worktree(&task).await).unwrap();
    project.go_on(&task, look("lost.txt")).await;
    project.approve(&task).await;
    project.tidied(&task).await;
    yard.server.call("revert_merge", json!({ "task_id": task })).await;
    project.go_on(&task, look("reverted.txt")).await;
    assert!(yard.log(&task).await.contains("set up"));
    project.approve(&task).await;
    for name in ["first.txt", "cleaned.txt", "lost.txt", "reverted.txt"] {
        assert_eq!(project.read(name).as_deref(), Some("SECRET=1\nSECRET=1\n"), "{name}");
    }
    assert_eq!(project.git(&["status", "--porcelain"]).await, "");
}
