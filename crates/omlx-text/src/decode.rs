//! Bytes in, whole characters out.
//!
//! A character may be spread over several tokens, so at most three bytes wait here for the rest of theirs.
//! What can no longer become a character becomes one U+FFFD per broken sequence, exactly as decoding all
//! bytes at once would give: the text is the same however it is cut.

use std::str;

/// The bytes of a character that has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Takes more bytes and appends the characters that are complete to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.pending.is_empty()
            && let Ok(text) = str::from_utf8(bytes)
        {
            out.push_str(text);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let mut chunks = self.pending.utf8_chunks().peekable();
        let mut unfinished = 0;
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let broken = chunk.invalid();
            if chunks.peek().is_none() && could_continue(broken) {
                unfinished = broken.len();
            } else if !broken.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        let done = self.pending.len() - unfinished;
        self.pending.drain(..done);
    }

    /// Ends the text: bytes still waiting become one U+FFFD.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.pending).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Whether a broken end is only unfinished: more bytes could make it a character.
fn could_continue(tail: &[u8]) -> bool {
    str::from_utf8(tail).is_err_and(|e| e.error_len().is_none())
}

#[cfg(test)]
mod tests;
