//! Takes the listening address; a taken one is reported with its holder.

use crate::fail::{Result, machine};
use std::net::SocketAddr;
use taskyard_domain::Error;
use tokio::net::TcpListener;

/// Binds `addr`.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(addr).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let holder = holder(addr.port()).map_or_else(|| "another process".into(), |(pid, name)| format!("{name} (process {pid})"));
            Err(Error::precondition(format!("{addr} is taken by {holder}"))
                .with_field("listen")
                .with_hint("stop it, or choose another address with --listen (port 0 takes a free one)"))
        }
        Err(error) => Err(machine(&format!("listening on {addr}"), error)),
    }
}

/// The process that listens on `port`, where the system lets us see it.
fn holder(port: u16) -> Option<(i32, String)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let inode = tables.iter().flat_map(|table| table.lines()).find_map(|line| listening_inode(line, port))?;
    let wanted = format!("socket:[{inode}]");
    for process in std::fs::read_dir("/proc").ok()?.filter_map(Result::ok) {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(fds) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds = fds.filter_map(Result::ok).any(|fd| std::fs::read_link(fd.path()).is_ok_and(|link| link.to_string_lossy() == wanted));
        if holds {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim().to_owned()));
        }
    }
    None
}

/// The socket's inode of a line of `/proc/net/tcp` in state LISTEN (0A) on `port`.
fn listening_inode(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let local = fields.get(1)?.rsplit(':').next()?;
    let listens = fields.get(3) == Some(&"0A") && u16::from_str_radix(local, 16) == Ok(port);
    listens.then(|| fields.get(9).copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_names_its_holder() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let error = bind(first.local_addr().unwrap()).await.unwrap_err();
        assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
    }
}
