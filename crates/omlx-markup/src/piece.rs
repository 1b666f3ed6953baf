//! What comes out: pieces of an answer in their order.

/// A piece of an answer. Pieces of one kind that follow each other are one text in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Content.
    Text(String),
    /// Thinking.
    Thought(String),
    /// A call begins; what follows as [`Piece::Arguments`] is its own until the next call.
    Call {
        /// The tool's name.
        name: String,
        /// The id that the model gave it, in the formats that have one.
        id: Option<String>,
    },
    /// More of the arguments of the call begun last: the text of a JSON object.
    Arguments(String),
}

/// Collects pieces.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pieces: Vec<Piece>,
    settled: Option<Settled>,
}

/// Something cannot be taken back any more: a call has begun, or is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The character that was read last belongs to it.
    With,
    /// That character is the first behind it.
    Before,
}

impl Out {
    pub(crate) fn text(&mut self, more: &str) {
        match self.pieces.last_mut() {
            _ if more.is_empty() => {}
            Some(Piece::Text(text)) => text.push_str(more),
            _ => self.pieces.push(Piece::Text(more.to_owned())),
        }
    }

    pub(crate) fn thought(&mut self, more: &str) {
        match self.pieces.last_mut() {
            _ if more.is_empty() => {}
            Some(Piece::Thought(text)) => text.push_str(more),
            _ => self.pieces.push(Piece::Thought(more.to_owned())),
        }
    }

    /// Begins a call: from here on it is one, whatever follows.
    pub(crate) fn call(&mut self, name: &str, id: Option<String>) {
        self.settled = Some(Settled::With);
        self.pieces.push(Piece::Call { name: name.to_owned(), id });
    }

    pub(crate) fn arguments(&mut self, more: &str) {
        match self.pieces.last_mut() {
            _ if more.is_empty() => {}
            Some(Piece::Arguments(text)) => text.push_str(more),
            _ => self.pieces.push(Piece::Arguments(more.to_owned())),
        }
    }

    /// What was read until here is said and done.
    pub(crate) fn settle(&mut self) {
        self.settled = Some(Settled::With);
    }

    /// The same, but for the last character.
    pub(crate) fn settle_before(&mut self) {
        self.settled = Some(Settled::Before);
    }

    /// What has been settled since the last time of asking.
    pub(crate) fn take_settled(&mut self) -> Option<Settled> {
        self.settled.take()
    }

    pub(crate) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }
}
