//! The log of calls that `--mcp-log` asks for: one JSON line per call, argument names but no values.

use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use taskyard_domain::Clock;

/// A file that takes one line per call.
pub struct CallLog {
    file: Mutex<File>,
    clock: Arc<dyn Clock>,
}

/// One call.
#[derive(Debug, Serialize)]
pub(crate) struct Entry<'a> {
    /// The tool or operation.
    pub call: &'a str,
    /// The start of the connection's id.
    pub connection: &'a str,
    /// How long it took.
    pub milliseconds: u64,
    /// `ok` or the error's code.
    pub outcome: &'a str,
    /// The names of the arguments as typed, sorted.
    pub arguments: &'a [String],
}

impl CallLog {
    /// Appends to the file at `path`, making it when it isn't there.
    ///
    /// # Errors
    /// When the file can't be opened for appending.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Self { file: Mutex::new(file), clock })
    }

    /// Writes a line; a full disk costs the line, not the call.
    pub(crate) fn write(&self, entry: &Entry<'_>) {
        #[derive(Serialize)]
        struct Line<'a> {
            time: String,
            #[serde(flatten)]
            entry: &'a Entry<'a>,
        }
        let line = Line { time: self.clock.now().to_string(), entry };
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        bytes.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&bytes) {
            tracing::warn!(%error, "the call log can't be written");
        }
    }
}
