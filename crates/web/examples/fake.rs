//! scratch
#[path = "../tests/support/mod.rs"]
mod support;
#[tokio::main]
async fn main() {
    let mut server = support::Server::start().await;
    println!("{}", server.addr);
    let release = server.script.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            release.release.notify_waiters();
        }
    });
    loop {
        println!("{:?}", server.trace().await);
    }
}
