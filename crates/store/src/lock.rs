//! The exclusive lock on the data folder: one server per folder, and whoever comes second learns who holds it.
//!
//! The operating system owns the lock and drops it with the process, so that a crash leaves none behind.

use crate::error::Error;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The file that carries the lock, in the data folder.
pub const LOCK_FILE: &str = "taskyard.lock";

/// Who holds a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Where it listens, once it does.
    pub url: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
}

/// The held lock; dropping it lets go.
#[derive(Debug)]
pub struct DirLock {
    file: File,
    path: PathBuf,
}

impl DirLock {
    /// Writes down who holds the lock, for instance once the address is known.
    ///
    /// # Errors
    /// When the lock file can't be written.
    pub fn describe(&mut self, holder: &Holder) -> Result<(), Error> {
        let failed = |source| Error::File { doing: "writing the lock file", path: self.path.clone(), source };
        let text = serde_json::to_string(holder).map_err(|e| failed(e.into()))?;
        self.file.set_len(0).map_err(failed)?;
        self.file.rewind().map_err(failed)?;
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.flush().map_err(failed)
    }
}

/// Takes the exclusive lock on `dir`, making the folder where it is missing.
///
/// # Errors
/// [`Error::Locked`] naming the holder when somebody else has it; [`Error::File`] when the folder or the lock
/// file can't be used.
pub fn lock_data_dir(dir: &Path, holder: &Holder) -> Result<DirLock, Error> {
    let path = dir.join(LOCK_FILE);
    std::fs::create_dir_all(dir).map_err(|source| Error::File { doing: "making the data folder", path: dir.into(), source })?;
    let failed = |source| Error::File { doing: "opening the lock file", path: path.clone(), source };
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            let mut lock = DirLock { file, path };
            lock.describe(holder)?;
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // A holder that is just starting hasn't written its name yet: the lock counts all the same.
            let holder = file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
            Err(Error::Locked { dir: dir.into(), holder })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> Holder {
        Holder { pid, url: None, started_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn the_second_one_learns_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut lock = lock_data_dir(&data, &holder(17)).unwrap();
        let text = lock_data_dir(&data, &holder(18)).unwrap_err().to_string();
        assert!(text.contains("process 17") && text.contains(&*data.to_string_lossy()), "{text}");
        lock.describe(&Holder { url: Some("http://127.0.0.1:4517".into()), ..holder(17) }).unwrap();
        let error = lock_data_dir(&data, &holder(18)).unwrap_err();
        assert!(error.to_string().contains("http://127.0.0.1:4517"), "{error}");
        assert_eq!(taskyard_domain::Error::from(error).class, taskyard_domain::Class::Unavailable);
        drop(lock);
        lock_data_dir(&data, &holder(18)).unwrap();
    }

    #[test]
    fn a_nameless_holder_holds_it_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join(LOCK_FILE)).unwrap();
        file.lock().unwrap();
        let error = lock_data_dir(dir.path(), &holder(1)).unwrap_err();
        assert!(matches!(error, Error::Locked { holder: None, .. }), "{error}");
    }

    #[test]
    fn one_of_many_who_race_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let locks: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|pid| {
                    scope.spawn({
                        let dir = dir.path();
                        move || lock_data_dir(dir, &holder(pid))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
    }
}
