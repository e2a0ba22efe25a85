//! Starting the server: one per data folder, only on loopback, with its own environment and configuration.

use crate::support::{Server, Setup, Yard, work};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use taskyard_testkit::repo::Repo;

/// Starts a server that has to end at once; its exit code and its log.
async fn fails(setup: Setup) -> (Option<i32>, String) {
    let server = setup.unstarted();
    let exit = tokio::time::timeout(crate::support::PATIENCE, server.spawn().wait()).await.expect("the server runs");
    (exit.unwrap().code, server.log())
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_learns_who_holds_it() {
    let server = Server::start().await;
    let told = server.cli(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains(&server.pid().to_string()) && told.err.contains(server.url()), "{told:?}");
    assert_eq!(server.cli(&["queue"]).await.code, 0);
}

#[tokio::test]
async fn a_taken_port_names_its_holder() {
    let first = Server::start().await;
    let address = first.url().strip_prefix("http://").unwrap().to_owned();
    let (code, log) = fails(Setup::new().args(&["--listen", &address])).await;
    assert_eq!(code, Some(7), "{log}");
    assert!(log.contains(&address) && log.contains(&first.pid().to_string()), "{log}");
}

#[tokio::test]
async fn a_public_address_is_refused_before_anything_is_made() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, log) = fails(Setup::new().args(&["--listen", address])).await;
        assert_eq!(code, Some(7), "{address}: {log}");
        assert!(log.contains("other machines"), "{log}");
    }
    let (code, log) = fails(Setup::new().args(&["--listen", "nowhere"])).await;
    assert_eq!(code, Some(2), "{log}");
}

#[tokio::test]
async fn the_configuration_file_counts_and_its_mistakes_are_named() {
    let log = "calls.jsonl";
    let setup = Setup::new().args(&[]).config(&format!("listen = \"127.0.0.1:0\"\nmcp_log = \"{log}\"\nallowed_hosts = [\"yard.test\"]\n"));
    let server = setup.start().await;
    server.call("list_task_lists", json!({})).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let with_host =
        async |host: &str| client.get(format!("{}/healthz", server.url())).header("host", host).send().await.unwrap().status().as_u16();
    assert_eq!((with_host("yard.test").await, with_host("evil.test").await), (200, 403));
    let (code, log) = fails(Setup::new().config("lisen = \"127.0.0.1:0\"\n")).await;
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("lisen") && log.contains("config.toml"), "{log}");
}

#[tokio::test]
async fn what_the_server_writes_about_itself_is_its_owners_only() {
    let server = Server::start().await;
    let path = server.data().join("server.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        (&file["pid"], &file["url"], &file["version"]),
        (&json!(server.pid()), &json!(server.url()), &json!(env!("CARGO_PKG_VERSION")))
    );
}

/// Everything of a repository that somebody could have changed.
async fn picture(repo: &Repo) -> String {
    let mut picture = String::new();
    for args in [
        &["for-each-ref"][..],
        &["status", "--porcelain=v2"],
        &["config", "--list", "--local"],
        &["worktree", "list", "--porcelain"],
        &["ls-files", "--stage"],
        &["count-objects", "-v"],
    ] {
        picture += &repo.git(args).await.unwrap();
        picture += "\n";
    }
    picture
}

#[tokio::test]
async fn a_servers_own_git_variables_reach_no_git() {
    let other = Repo::new().await.unwrap();
    let before = picture(&other).await;
    let git = other.path().join(".git");
    let setup = Setup::new()
        .env("GIT_DIR", &git)
        .env("GIT_WORK_TREE", other.path())
        .env("GIT_INDEX_FILE", git.join("index"))
        .env("GIT_OBJECT_DIRECTORY", git.join("objects"))
        .env("GIT_COMMON_DIR", &git);
    let yard = Yard::with(setup).await;
    let by_agent = yard.queue("By the agent", work("a.txt", "a\n")).await;
    let by_server = yard.queue("By the server", json!([{ "write": { "path": "b.txt", "content": "b\n" } }])).await;
    for task in [&by_agent, &by_server] {
        yard.reviewable(task).await;
        yard.server.call("preview_merge", json!({ "task_id": task })).await;
        yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    }
    assert_eq!(yard.repo.git(&["ls-tree", "--name-only", "main"]).await.unwrap(), "README.md\na.txt\nb.txt");
    yard.server.call("revert_merge", json!({ "task_id": by_agent })).await;
    assert_eq!(picture(&other).await, before);
}

#[tokio::test]
async fn an_older_connection_of_a_client_goes_on_after_a_restart() {
    let mut server = Setup::new().start().await;
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mcp = server.mcp("", None).await;
    assert_eq!(server.stop().await, Some(0));
    server.launch_with(&["--listen", &address]).await;
    let lists = mcp.call("list_task_lists", json!({})).await.unwrap();
    assert!(lists["lists"].is_array(), "{lists}");
}
