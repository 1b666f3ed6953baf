//! Text from outside, as it may be printed: nothing in it ends a line, moves the cursor, or turns the way that the rest is read.
//!
//! Names and paths come from command lines, folders and files, and a terminal obeys what is in them.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character does something to a line instead of standing in it: controls, ends of lines and paragraphs, and marks
/// that turn the direction of the text.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters written out, as `\u{202e}`.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    written_out(text, acts)
}

/// The same for a text that has lines of its own.
pub(crate) fn shown_lines(text: &str) -> Cow<'_, str> {
    written_out(text, |c| c != '\n' && acts(c))
}

fn written_out(text: &str, is: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is) {
        return Cow::Borrowed(text);
    }
    let add = |mut all: String, c: char| {
        if is(c) {
            all.extend(c.escape_default())
        } else {
            all.push(c)
        }
        all
    };
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 16), add))
}

/// Most characters of a line of the log: a value out of a file may be megabytes long.
const MOST_CHARS: usize = 4000;

/// A log's way out: what is written to it at once is one line of bounded length, whatever names are in it.
pub(crate) struct Lines<W>(pub(crate) W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        // The escape character belongs to the log's own colours; in a message it was written out before it came here.
        let line = written_out(line, |c| c != '\u{1b}' && acts(c));
        let line = match line.char_indices().nth(MOST_CHARS) {
            Some((end, _)) => Cow::Owned(format!("{} …", &line[..end])),
            None => line,
        };
        // In one piece, so that lines of several threads do not mix.
        self.0.write_all(format!("{line}{end}").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    //! What is written out, and what stands as it is.

    use super::*;

    #[test]
    fn what_acts_is_written_out() {
        for (text, expected) in [
            ("models/Qwen2.5 é 模型 🦀", "models/Qwen2.5 é 模型 🦀"),
            ("a\u{1b}[31mb\r\n\tc\u{7f}\u{9b}", r"a\u{1b}[31mb\r\n\tc\u{7f}\u{9b}"),
            ("gpj.\u{202e}exe\u{2066}\u{2069}", r"gpj.\u{202e}exe\u{2066}\u{2069}"),
            ("a\u{2028}b\u{2029}\u{200f}", r"a\u{2028}b\u{2029}\u{200f}"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown_lines("a\nb\u{1b}"), "a\nb\\u{1b}");
    }

    #[test]
    fn a_line_of_a_log_is_bounded() {
        let mut log = Lines(Vec::new());
        log.write_all(("é".repeat(1 << 20) + "\n").as_bytes()).unwrap();
        let line = String::from_utf8(log.0).unwrap();
        assert!(line.ends_with(" …\n") && line.chars().count() == MOST_CHARS + 3, "{}", line.len());
    }

    #[test]
    fn a_log_has_one_line_for_each_message() {
        let mut log = Lines(Vec::new());
        log.write_all("\u{1b}[33mWARN\u{1b}[0m a\nERROR b\u{202e}\n".as_bytes()).unwrap();
        assert_eq!(log.0, "\u{1b}[33mWARN\u{1b}[0m a\\nERROR b\\u{202e}\n".as_bytes());
    }
}
