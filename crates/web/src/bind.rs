//! Where the server may listen.

use std::net::SocketAddr;
use taskyard_domain::{Error, Result};

/// Refuses an address that other machines reach: a caller without a token is the operator, so until access
/// keys exist only loopback will do.
///
/// # Errors
/// `FAILED_PRECONDITION` for anything but a loopback address.
pub fn check_bind(addr: SocketAddr) -> Result<()> {
    let ip = addr.ip();
    if ip.to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Error::precondition(format!("{ip} can be reached from other machines, and Taskyard has no access keys yet"))
        .with_field("listen")
        .with_hint("listen on 127.0.0.1 and reach it through an SSH tunnel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_will_do() {
        for good in ["127.0.0.1:4517", "127.8.8.8:0", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(check_bind(good.parse().unwrap()).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:4517", "[::]:4517", "192.168.1.2:1", "[::ffff:10.0.0.1]:1"] {
            let error = check_bind(bad.parse().unwrap()).unwrap_err();
            assert_eq!((error.class, error.hint.is_some()), (taskyard_domain::Class::FailedPrecondition, true), "{bad}");
        }
    }
}
