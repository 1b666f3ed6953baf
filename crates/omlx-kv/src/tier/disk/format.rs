//! The bytes of a segment: a head, then records, then, once no more will come, a list of them.
//!
//! ```text
//! segment   head (32): magic, version, number, checksum
//! record    head (168): magic, lengths, key, parent, salt, group, codec, checksum of the content, checksum of head and tokens
//!           tokens (4 each), content, zeros up to a multiple of 8
//! list      one entry (56) per record, one salt (32) per salt
//! tail (48) magic, version, counts, where the list begins, checksum of the list, checksum of the tail
//! ```
//!
//! All numbers are little-endian. A record is good only if both of its checksums are; a list, only if both of its own are.
//! Without a good list the records are walked from the front, up to the first whose head is not good: what a process wrote
//! before it was killed is found, and what it was in the middle of writing is not. **Any change here raises [`VERSION`].**

use omlx_blocks::{BlockKey, Salt};
use xxhash_rust::xxh3::xxh3_64;

use crate::tier::{Block, Label};

/// The version of everything in this file.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a segment's head, a record's head, an entry of the list, a salt and the tail.
pub(crate) const SEGMENT_HEAD: usize = 32;
pub(crate) const RECORD_HEAD: usize = 168;
pub(crate) const ENTRY: usize = 56;
pub(crate) const SALT: usize = 32;
pub(crate) const TAIL: usize = 48;
/// The most tokens and bytes of content of one record: more is damage, and nothing of that size is ever allocated.
pub(crate) const MAX_TOKENS: usize = 1 << 16;
pub(crate) const MAX_CONTENT: usize = 1 << 30;

const SEGMENT_MAGIC: &[u8; 8] = b"omlxkvsg";
const RECORD_MAGIC: &[u8; 8] = b"omlxkvbl";
const TAIL_MAGIC: &[u8; 8] = b"omlxkvls";
/// Bytes of a codec's name in a head.
const CODEC: usize = 32;

/// What a segment's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// One that this program can read.
    Ours,
    /// One of another version.
    Other,
    /// None at all, or a damaged one.
    Bad,
}

pub(crate) fn segment_head(number: u32) -> [u8; SEGMENT_HEAD] {
    let mut head = [0; SEGMENT_HEAD];
    head[..8].copy_from_slice(SEGMENT_MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&number.to_le_bytes());
    seal(&mut head);
    head
}

pub(crate) fn read_segment_head(head: &[u8; SEGMENT_HEAD]) -> Head {
    if head[..8] != *SEGMENT_MAGIC {
        return Head::Bad;
    }
    match (u32_at(head, 8), sealed(head)) {
        (VERSION, true) => Head::Ours,
        (VERSION, false) => Head::Bad,
        _ => Head::Other, // its checksum may be another kind
    }
}

/// What the head of a record says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) key: BlockKey,
    pub(crate) salt: Salt,
    pub(crate) tokens: usize,
    pub(crate) content: usize,
    /// Of the content.
    checksum: u64,
}

impl RecordHead {
    /// Bytes of the whole record.
    pub(crate) fn len(&self) -> usize {
        record_len(self.tokens, self.content)
    }

    /// Where the content stands in the record.
    pub(crate) fn content_at(&self) -> usize {
        RECORD_HEAD + 4 * self.tokens
    }
}

/// Bytes of a record with so many tokens and bytes of content.
pub(crate) fn record_len(tokens: usize, content: usize) -> usize {
    (RECORD_HEAD + 4 * tokens + content).next_multiple_of(8)
}

/// Adds a record to `out`.
pub(crate) fn push_record(block: &Block, out: &mut Vec<u8>) {
    let Label { salt, group, key, parent, codec, tokens } = &block.label;
    let content = block.bytes.as_slice();
    let begin = out.len();
    let mut head = [0; RECORD_HEAD];
    head[..8].copy_from_slice(RECORD_MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(tokens.len() as u32).to_le_bytes());
    head[16..20].copy_from_slice(&(content.len() as u32).to_le_bytes());
    head[20..24].copy_from_slice(&group.0.to_le_bytes());
    head[24..56].copy_from_slice(key.as_bytes());
    head[56..88].copy_from_slice(parent.as_bytes());
    head[88..120].copy_from_slice(salt.as_bytes());
    let name = codec.name();
    let name = name.as_bytes();
    head[120..120 + name.len().min(CODEC)].copy_from_slice(&name[..name.len().min(CODEC)]);
    head[152..160].copy_from_slice(&xxh3_64(content).to_le_bytes());
    out.extend_from_slice(&head);
    out.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    let sum = head_sum(&out[begin..]);
    out[begin + 160..begin + 168].copy_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(content);
    out.resize(begin + record_len(tokens.len(), content.len()), 0);
}

/// Reads the head of a record out of its first bytes, `None` if it is not a good one. `bytes` holds head and tokens at least, or
/// as much of a file as there is; the checksum covers the tokens, so without them nothing is good.
pub(crate) fn read_record_head(bytes: &[u8]) -> Option<RecordHead> {
    let head = record_head_unchecked(bytes)?;
    let covered = bytes.get(..head.content_at())?;
    (head_sum(covered) == u64_at(bytes, 160)).then_some(head)
}

/// The lengths in a record's head before its tokens have been read; not yet to be trusted, but within the limits.
pub(crate) fn record_head_unchecked(bytes: &[u8]) -> Option<RecordHead> {
    let fixed = bytes.get(..RECORD_HEAD)?;
    let (tokens, content) = (u32_at(fixed, 12) as usize, u32_at(fixed, 16) as usize);
    let ours = fixed[..8] == *RECORD_MAGIC && u32_at(fixed, 8) == VERSION;
    (ours && tokens <= MAX_TOKENS && content <= MAX_CONTENT).then(|| RecordHead {
        key: BlockKey::from_bytes(bytes32(fixed, 24)),
        salt: Salt::from_bytes(bytes32(fixed, 88)),
        tokens,
        content,
        checksum: u64_at(fixed, 152),
    })
}

/// Whether a whole record's content is as it was written; its head is known to be good.
pub(crate) fn content_is_good(record: &[u8], head: &RecordHead) -> bool {
    let content = record.get(head.content_at()..head.content_at() + head.content);
    content.is_some_and(|content| xxh3_64(content) == head.checksum)
}

/// Whether a record holds exactly these tokens.
pub(crate) fn holds(record: &[u8], head: &RecordHead, tokens: &[u32]) -> bool {
    let written = record.get(RECORD_HEAD..head.content_at());
    let wanted = tokens.iter().map(|token| token.to_le_bytes());
    written
        .is_some_and(|written| head.tokens == tokens.len() && written.chunks_exact(4).zip(wanted).all(|(a, b)| *a == b))
}

/// A record in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: BlockKey,
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Which of the list's salts.
    pub(crate) salt: u32,
}

/// The list at the end of a segment, its tail included. `at` is where it begins.
pub(crate) fn list(entries: &[Entry], salts: &[Salt], at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(list_len(entries.len(), salts.len()));
    for entry in entries {
        out.extend_from_slice(entry.key.as_bytes());
        out.extend_from_slice(&entry.at.to_le_bytes());
        out.extend_from_slice(&entry.len.to_le_bytes());
        out.extend_from_slice(&entry.salt.to_le_bytes());
        out.extend_from_slice(&[0; ENTRY - 44]);
    }
    salts.iter().for_each(|salt| out.extend_from_slice(salt.as_bytes()));
    let mut tail = [0; TAIL];
    tail[..8].copy_from_slice(TAIL_MAGIC);
    tail[8..12].copy_from_slice(&VERSION.to_le_bytes());
    tail[12..16].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    tail[16..20].copy_from_slice(&(salts.len() as u32).to_le_bytes());
    tail[24..32].copy_from_slice(&at.to_le_bytes());
    tail[32..40].copy_from_slice(&xxh3_64(&out).to_le_bytes());
    seal(&mut tail);
    out.extend_from_slice(&tail);
    out
}

/// Bytes of a list, its tail included.
pub(crate) fn list_len(entries: usize, salts: usize) -> usize {
    ENTRY * entries + SALT * salts + TAIL
}

/// Where a list is, by the last bytes of its file, and the checksum it must have.
pub(crate) struct Tail {
    pub(crate) at: u64,
    entries: usize,
    salts: usize,
    checksum: u64,
}

pub(crate) fn read_tail(tail: &[u8; TAIL], file_len: u64) -> Option<Tail> {
    if tail[..8] != *TAIL_MAGIC || u32_at(tail, 8) != VERSION || !sealed(tail) {
        return None;
    }
    let (entries, salts) = (u32_at(tail, 12) as usize, u32_at(tail, 16) as usize);
    let found = Tail { at: u64_at(tail, 24), entries, salts, checksum: u64_at(tail, 32) };
    (found.at.checked_add(list_len(entries, salts) as u64) == Some(file_len)).then_some(found)
}

impl Tail {
    /// Bytes of the list without the tail.
    pub(crate) fn list_len(&self) -> usize {
        ENTRY * self.entries + SALT * self.salts
    }

    /// The entries and salts of a list, `None` if it is damaged.
    pub(crate) fn read_list(&self, list: &[u8]) -> Option<(Vec<Entry>, Vec<Salt>)> {
        if list.len() != self.list_len() || xxh3_64(list) != self.checksum {
            return None;
        }
        let (entries, salts) = list.split_at(ENTRY * self.entries);
        let entry = |e: &[u8]| Entry {
            key: BlockKey::from_bytes(bytes32(e, 0)),
            at: u32_at(e, 32),
            len: u32_at(e, 36),
            salt: u32_at(e, 40),
        };
        let entries = entries.chunks_exact(ENTRY).map(entry).collect();
        let salts = salts.chunks_exact(SALT).map(|s| Salt::from_bytes(bytes32(s, 0))).collect();
        Some((entries, salts))
    }
}

/// The checksum of a record's head and tokens; its own place counts as zeros.
fn head_sum(head_and_tokens: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&head_and_tokens[..160]);
    hasher.update(&head_and_tokens[RECORD_HEAD..]);
    hasher.digest()
}

/// Puts the checksum of all before them into the last 8 bytes.
fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 8;
    let sum = xxh3_64(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

fn sealed(bytes: &[u8]) -> bool {
    let end = bytes.len() - 8;
    u64_at(bytes, end) == xxh3_64(&bytes[..end])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

fn bytes32(bytes: &[u8], at: usize) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(&bytes[at..at + 32]);
    all
}
