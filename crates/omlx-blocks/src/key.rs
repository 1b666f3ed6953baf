//! Names for sealed blocks: a chained hash over salt, parent and tokens.
//!
//! Two blocks may share a name only if everything that shaped their content is equal: the weights, the codec, the block
//! size, the group, and every token from the start. Fields are tagged and length-prefixed, so `("a", "bc")` and
//! `("ab", "c")` differ, and a field that is absent differs from one that is empty.

use std::fmt;

/// What every key of a ledger starts from: a hash over everything but the tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Hashes tagged fields, in the order given.
    pub fn of(fields: &[(&str, &[u8])]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (tag, value) in fields {
            for part in [tag.as_bytes(), value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// A salt that also depends on one more field.
    #[must_use]
    pub fn with(&self, tag: &str, value: &[u8]) -> Self {
        Self::of(&[("salt", &self.0), (tag, value)])
    }

    /// The salt as bytes, for a file or a wire.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A salt that was written down as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Salt({})", short(&self.0))
    }
}

/// The name of one sealed block in one group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey([u8; 32]);

impl BlockKey {
    /// The parent of a sequence's first block.
    pub fn root(salt: &Salt) -> Self {
        Self(salt.0)
    }

    /// The name of the block that follows this one and holds `tokens`.
    #[must_use]
    pub fn child(&self, tokens: &[u32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        for token in tokens {
            hasher.update(&token.to_le_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The key as bytes, for a file name or a wire.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key that was written down as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockKey({})", short(&self.0))
    }
}

fn short(bytes: &[u8; 32]) -> String {
    bytes[..6].iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{BlockKey, Salt};

    /// Caught: joining tag and value without their lengths.
    #[test]
    fn fields_do_not_run_together() {
        let salts = [
            Salt::of(&[("a", b"bc")]),
            Salt::of(&[("ab", b"c")]),
            Salt::of(&[("abc", b"")]),
            Salt::of(&[("a", b"bc"), ("", b"")]),
            Salt::of(&[("a", b"b"), ("c", b"")]),
            Salt::of(&[("a", b"bc")]).with("", b""),
            Salt::of(&[]),
        ];
        for (i, one) in salts.iter().enumerate() {
            for other in &salts[..i] {
                assert_ne!(one, other);
            }
        }
        assert_eq!(salts[0], Salt::of(&[("a", b"bc")]));
    }

    #[test]
    fn any_earlier_change_changes_every_later_key() {
        let chain = |salt: &Salt, tokens: &[u32]| -> Vec<BlockKey> {
            let mut parent = BlockKey::root(salt);
            tokens
                .chunks(2)
                .map(|block| {
                    parent = parent.child(block);
                    parent
                })
                .collect()
        };
        let salt = Salt::of(&[("weights", b"one")]);
        let base = chain(&salt, &[1, 2, 3, 4, 5, 6]);
        let token = chain(&salt, &[1, 9, 3, 4, 5, 6]);
        let weights = chain(&Salt::of(&[("weights", b"two")]), &[1, 2, 3, 4, 5, 6]);
        for i in 0..3 {
            assert_ne!(base[i], token[i], "block {i}");
            assert_ne!(base[i], weights[i], "block {i}");
        }
        assert_eq!(base[..2], chain(&salt, &[1, 2, 3, 4, 7, 7])[..2]);
    }
}
