//! Ids in, pieces out: one request's way from tokens to text.

use std::sync::Arc;

use crate::decode::Decoder;
use crate::pieces::{Kind, Pieces};
use crate::stops::Stops;

/// Some text, perhaps none yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that is certain: whole characters that no stop string can take back.
    pub text: String,
    /// A stop string was found. The text is cut before it and the session gives no more.
    pub stopped: bool,
}

/// The text of one answer, token by token.
///
/// The answer continues a prompt, so a first token that begins with a space keeps it. Special tokens have
/// no text, but for those that the session was told to show. All pieces joined are the same text however the tokens were cut; work per token is constant.
#[derive(Debug)]
pub struct Session {
    pieces: Arc<Pieces>,
    decoder: Decoder,
    stops: Stops,
    /// Special tokens that have a text all the same.
    shown: Vec<u32>,
}

impl Session {
    pub(crate) fn new(pieces: Arc<Pieces>, stops: &[String], shown: Vec<u32>) -> Self {
        Self { pieces, decoder: Decoder::default(), stops: Stops::new(stops), shown }
    }

    /// Takes the next token. An id beyond the vocabulary has no text.
    pub fn push(&mut self, id: u32) -> Piece {
        let mut text = String::new();
        if self.pieces.kind(id) == Kind::Text || self.shown.contains(&id) {
            self.decoder.push(self.pieces.bytes(id), &mut text);
        }
        self.offer(&text)
    }

    /// The stop string that was found.
    pub fn found(&self) -> Option<&str> {
        self.stops.found()
    }

    /// Ends the answer: gives what was held back. Bytes of an unfinished character become one U+FFFD.
    pub fn finish(&mut self) -> Piece {
        let mut text = String::new();
        self.decoder.finish(&mut text);
        let mut piece = self.offer(&text);
        piece.stopped = self.stops.finish(&mut piece.text);
        piece
    }

    fn offer(&mut self, text: &str) -> Piece {
        let mut piece = Piece::default();
        piece.stopped = self.stops.push(text, &mut piece.text);
        piece
    }
}
