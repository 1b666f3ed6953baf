//! The bytes behind every token id, laid out once so that decoding is a table look-up.
//!
//! A tokenizer's decoder is a chain of small steps; for all decoders language models use, the chain is the
//! same as joining fixed bytes per token (and perhaps dropping one space at the very start). That is what
//! makes streaming exact: a token's bytes never depend on its neighbours.

/// How a token behaves in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ordinary text.
    Text,
    /// A control token: left out when special tokens are skipped.
    Special,
    /// No token has this id.
    Absent,
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One printable character per byte, as GPT-2 does.
    ByteLevel,
    /// Plain text with `▁` for a space, and perhaps `<0xXX>` for a byte.
    Plain {
        /// Whether `<0xXX>` means one byte.
        byte_fallback: bool,
        /// The character that stands for a space; none if spaces stand for themselves.
        space: Option<char>,
    },
}

/// One character standing for a space in SentencePiece vocabularies.
pub(crate) const SPACE_MARK: char = '\u{2581}';

impl Spelling {
    /// The bytes that a token's name spells.
    pub(crate) fn bytes(self, name: &str) -> Vec<u8> {
        match self {
            // A name with a character outside the alphabet is literal text (an added token).
            Self::ByteLevel => {
                name.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| name.as_bytes().to_vec())
            }
            Self::Plain { byte_fallback, space } => {
                if byte_fallback && let Some(byte) = named_byte(name) {
                    return vec![byte];
                }
                match space {
                    Some(mark) => name.replace(mark, " ").into_bytes(),
                    None => name.as_bytes().to_vec(),
                }
            }
        }
    }
}

/// The byte that a `<0xXX>` token stands for.
pub(crate) fn named_byte(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit())).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The byte a character of the byte-level alphabet stands for: printable Latin-1 bytes stand for
/// themselves, the 68 others were given the characters from U+0100 on, in order.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// The bytes and kind of each id.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    /// Whether the first space of a whole text is the tokenizer's own and not the text's.
    pub(crate) drop_first_space: bool,
}

impl Pieces {
    /// The table for `vocab` ids; `piece` gives an id's bytes and kind.
    pub(crate) fn new(vocab: usize, drop_first_space: bool, mut piece: impl FnMut(u32) -> (Vec<u8>, Kind)) -> Self {
        let (mut bytes, mut ends, mut kinds) = (Vec::new(), Vec::with_capacity(vocab), Vec::with_capacity(vocab));
        for id in 0..u32::try_from(vocab).expect("a vocabulary has fewer than 2^32 tokens") {
            let (text, kind) = piece(id);
            bytes.extend_from_slice(&text);
            ends.push(u32::try_from(bytes.len()).expect("a vocabulary file is far below 4 GiB"));
            kinds.push(kind);
        }
        Self { bytes, ends, kinds, drop_first_space }
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Bytes of the longest piece.
    pub(crate) fn longest(&self) -> usize {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| (end - begin) as usize).max().unwrap_or(0)
    }

    /// The kind of an id; `Absent` beyond the vocabulary.
    pub(crate) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Absent)
    }

    /// The bytes of an id; none beyond the vocabulary.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let at = id as usize;
        let Some(&end) = self.ends.get(at) else { return &[] };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..end as usize]
    }
}

#[cfg(test)]
mod tests;
