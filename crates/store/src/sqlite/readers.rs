//! The connections that read: each reading closure runs as a whole on a thread that may wait for the disk, with a
//! connection of its own.

use super::open_reader;
use crate::conn::{Conn, Link};
use crate::error::Error;
use crate::tx::{Env, Read};
use futures::future::BoxFuture;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use taskyard_domain::{Error as Domain, Result};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// Readers at once; more wait.
const READERS: u32 = 4;

/// The connections that read.
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// Those that nobody uses; opened when first needed.
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<Connection, Error> {
        let known = self.idle().pop();
        known.map_or_else(|| open_reader(&self.path), Ok)
    }

    /// Ends the snapshot and keeps the connection. What goes wrong here changes nothing that was read.
    fn give_back(&self, conn: Connection) {
        match conn.execute_batch("ROLLBACK") {
            Ok(()) => self.idle().push(conn),
            Err(error) => tracing::debug!(%error, "a finished read could not be ended properly; its connection is given up"),
        }
    }
}

/// Opens the readers; the writer has been opened before.
pub(crate) fn open_readers(path: PathBuf) -> Result<Readers, Error> {
    let first = open_reader(&path)?;
    let places = Arc::new(Semaphore::new(READERS as usize));
    Ok(Readers { shared: Arc::new(Shared { path, idle: Mutex::new(vec![first]), places }) })
}

impl Readers {
    /// Runs `f` on one consistent snapshot.
    pub(crate) async fn read<T, F>(&self, env: Env, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Read) -> BoxFuture<'a, Result<T>> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let place = Arc::clone(&shared.places).acquire_owned().await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            // Given up last, when the connection has been given back.
            let _place = place;
            let conn = match shared.take() {
                Ok(conn) => conn,
                Err(error) => {
                    let _ = reply.send(Err(error.into()));
                    return;
                }
            };
            let mut read = Read::new(Conn::new(Link::Sqlite(conn)), env);
            let answer = runtime.block_on(async {
                read.conn.exec("BEGIN DEFERRED", Vec::new()).await?;
                f(&mut read).await
            });
            // Nobody has to wait for the snapshot to be given back.
            let _ = reply.send(answer);
            if let Link::Sqlite(conn) = read.conn.link {
                shared.give_back(conn);
            }
        });
        answer.await.unwrap_or_else(|_| Err(Domain::internal("a read broke off: its command panicked, or the server is stopping")))
    }

    /// Waits for those who read, then closes every connection.
    pub(crate) async fn close(&self) {
        let _all = self.shared.places.acquire_many(READERS).await;
        self.shared.places.close();
        self.shared.idle().clear();
    }
}
