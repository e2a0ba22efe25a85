//! Line framing on bytes: newline-separated frames with a cap, decoded only after they were cut out.
//!
//! A line longer than the cap costs that line and nothing else; memory stays below the cap plus one
//! chunk whatever comes in. Invalid UTF-8 is replaced, never fatal. Knows nothing of any protocol and
//! does no input or output.

use std::collections::VecDeque;
use taskyard_domain::transcript::Item;

/// One piece of an agent's standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line without its line ending; empty lines are left out.
    Line(String),
    /// A line longer than the cap was dropped.
    Oversized {
        /// Its length without the line ending.
        bytes: u64,
    },
    /// A log of this agent can't be written any more; reported once per log.
    LogFailed {
        /// Which one and the operating system's reason.
        message: String,
    },
}

impl Frame {
    /// What a reader of the transcript should know about a frame that isn't a line.
    pub fn notice(&self) -> Option<Item> {
        let text = match self {
            Self::Line(_) => return None,
            Self::Oversized { bytes } => format!("A line of {bytes} bytes from the agent was dropped: it is longer than Taskyard reads"),
            Self::LogFailed { message } => message.clone(),
        };
        Some(Item::Notice { level: "warning".into(), text })
    }
}

/// Cuts a stream of bytes into [`Frame`]s.
#[derive(Debug)]
pub struct Framer {
    cap: usize,
    line: Vec<u8>,
    /// Bytes already thrown away of a line that is too long.
    dropped: u64,
    ready: VecDeque<Frame>,
}

impl Framer {
    /// Lines of at most `cap` bytes pass.
    pub fn new(cap: usize) -> Self {
        Self { cap, line: Vec::new(), dropped: 0, ready: VecDeque::new() }
    }

    /// Takes in the next bytes; the frames they complete are then in [`Framer::pop`].
    pub fn push(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|b| *b == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.extend(part);
            if parts.peek().is_some() {
                self.end_line();
            }
        }
    }

    /// The stream is over: what is left without a line ending is a frame too.
    pub fn finish(&mut self) {
        self.end_line();
    }

    /// The next complete frame.
    pub fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Puts a frame that didn't come from the stream in line.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A frame that comes next, whatever is ready.
    pub(crate) fn insert(&mut self, frame: Frame) {
        self.ready.push_back(frame);
    }

    fn extend(&mut self, part: &[u8]) {
        if self.dropped > 0 || self.line.len() + part.len() > self.cap {
            self.dropped += (self.line.len() + part.len()) as u64;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        if self.dropped > 0 {
            self.ready.push_back(Frame::Oversized { bytes: self.dropped });
            self.dropped = 0;
            return;
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if !line.trim_ascii().is_empty() {
            self.ready.push_back(Frame::Line(String::from_utf8_lossy(line).into_owned()));
        }
        self.line.clear();
        if self.line.capacity() > 1 << 20 {
            self.line = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(cap: usize, chunks: &[&[u8]]) -> Vec<Frame> {
        let mut framer = Framer::new(cap);
        for chunk in chunks {
            framer.push(chunk);
        }
        framer.finish();
        std::iter::from_fn(|| framer.pop()).collect()
    }

    fn line(text: &str) -> Frame {
        Frame::Line(text.into())
    }

    #[test]
    fn lines_come_out_however_the_bytes_are_cut() {
        let text = b"one\r\ntwo\n\n  \nthree";
        for size in 1..text.len() {
            let chunks: Vec<_> = text.chunks(size).collect();
            assert_eq!(frames(10, &chunks), [line("one"), line("two"), line("three")], "chunks of {size}");
        }
    }

    #[test]
    fn a_long_line_costs_that_line() {
        assert_eq!(frames(4, &[b"good\nbad", b"bad", b"bad\nfine\n"]), [line("good"), Frame::Oversized { bytes: 9 }, line("fine")]);
        assert_eq!(frames(4, &[b"endless"]), [Frame::Oversized { bytes: 7 }]);
    }

    #[test]
    fn memory_stays_bounded_in_an_endless_line() {
        let mut framer = Framer::new(1000);
        for _ in 0..10_000 {
            framer.push(&[b'x'; 997]);
            assert!(framer.line.capacity() <= 4096);
        }
        framer.push(b"\nok\n");
        assert_eq!(framer.pop(), Some(Frame::Oversized { bytes: 9_970_000 }));
        assert_eq!(framer.pop(), Some(line("ok")));
    }

    #[test]
    fn bad_utf8_is_replaced_even_when_a_character_is_cut_in_two() {
        assert_eq!(frames(100, &[b"a\xc3", b"\xa4\n\xff\xfe!\n"]), [line("aä"), line("\u{fffd}\u{fffd}!")]);
    }
}
