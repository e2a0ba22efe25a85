//! Serving until told to stop.

use axum::Router;
use axum::serve::ListenerExt;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves `router` on `listener` until `shutdown` is cancelled, then lets open requests finish for at most
/// `patience`. `shutdown` has to be the router's own: it ends the streams that would never finish.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken, patience: Duration) -> io::Result<()> {
    // Small event frames would wait for the peer's delayed acknowledgement.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY can't be set");
        }
    });
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let expired = async {
        shutdown.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    tokio::select! {
        ended = server => ended,
        () = expired => {
            tracing::warn!("requests that didn't end in time are dropped");
            Ok(())
        }
    }
}
