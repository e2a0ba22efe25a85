//! What may go to a terminal: text in which nothing moves the cursor, changes colours or writes to the clipboard. What
//! agents say and files are called reaches people through here. Owns nothing.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

/// `text` with every control character but line breaks and tabs replaced by its visible sign.
pub fn clean(text: &str) -> Cow<'_, str> {
    let mut chars = text.chars().peekable();
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        out.push(match c {
            '\n' | '\t' => c,
            // The line ending of other systems moves nothing.
            '\r' if chars.peek() == Some(&'\n') => c,
            '\u{7f}' => '␡',
            c if c.is_ascii_control() => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        });
    }
    Cow::Owned(out)
}

/// Writes `bytes` to `out`. A reader that has seen enough (`taskyard … | head`) is no failure.
///
/// # Errors
/// Every other one of the operating system's.
pub fn write(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(clean("a\tb\r\nc\n"), "a\tb\r\nc\n");
        assert_eq!(clean("\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2Jx\ry\u{7f}\u{9b}31m"), "␛]52;c;ZXZpbA==␇␛[2Jx␍y␡\u{fffd}31m");
        assert!(matches!(clean("größer → 你好"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_reader_that_goes_early_is_no_failure() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        write(&mut writer, b"x").unwrap();
        assert!(write(&mut std::fs::File::open("/dev/null").unwrap(), b"x").is_err(), "it is open for reading only");
    }
}
