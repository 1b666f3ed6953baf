//! SentencePiece's BPE: neighbours are joined while the joined text is in the vocabulary, best score first.
//!
//! Equal scores go left to right. Characters that no piece covers become bytes. The text is first cut
//! where no piece reaches across, which changes nothing in the result and keeps the queues short.

use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::pieces::SPACE_MARK;

/// A vocabulary ready to encode with.
#[derive(Debug)]
pub(crate) struct Spm {
    /// Pieces that merges may make.
    pieces: HashMap<Box<str>, Scored>,
    /// Neighbouring characters that some piece contains.
    neighbours: HashSet<(char, char)>,
    whole: Whole,
    bytes: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
    /// Whether text begins with a space of its own making.
    space_prefix: bool,
}

#[derive(Clone, Copy, Debug)]
struct Scored {
    id: u32,
    score: f32,
}

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// May be made by merges.
    Normal,
    /// Found as a whole before anything else.
    Whole,
    /// Stands for one byte.
    Byte(u8),
    /// Never made from text.
    Silent,
}

/// Tokens that are found as a whole: the leftmost first, of those the longest.
#[derive(Debug, Default)]
struct Whole {
    ids: HashMap<Box<str>, u32>,
    /// By first byte: the lengths that such tokens have, longest first.
    lengths: HashMap<u8, Vec<usize>>,
}

impl Whole {
    fn add(&mut self, name: &str, id: u32) {
        let Some(&first) = name.as_bytes().first() else { return };
        self.ids.entry(name.into()).or_insert(id);
        let lengths = self.lengths.entry(first).or_default();
        if let Err(at) = lengths.binary_search_by(|n| name.len().cmp(n)) {
            lengths.insert(at, name.len());
        }
    }

    /// The first token in the text: where it starts and ends, and its id.
    fn find(&self, text: &str) -> Option<(usize, usize, u32)> {
        text.bytes().enumerate().find_map(|(start, byte)| {
            self.lengths.get(&byte)?.iter().find_map(|length| {
                let end = start + length;
                let id = self.ids.get(text.get(start..end)?)?;
                Some((start, end, *id))
            })
        })
    }
}

/// A run of characters in the text being merged; runs form a list.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A merge that was possible when it was noted; stale once either side changed.
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    bytes: usize,
}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // A max-heap: the best score, then the leftmost.
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Merge {}

impl Spm {
    /// A vocabulary from its pieces in the order of their ids.
    pub(crate) fn new<'a>(
        vocabulary: impl ExactSizeIterator<Item = (&'a str, f32, Role)>,
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Self {
        let mut spm = Self {
            pieces: HashMap::with_capacity(vocabulary.len()),
            neighbours: HashSet::new(),
            whole: Whole::default(),
            bytes: Box::new([None; 256]),
            unknown,
            space_prefix,
        };
        for (id, (name, score, role)) in (0u32..).zip(vocabulary) {
            match role {
                Role::Normal => {
                    spm.neighbours.extend(name.chars().zip(name.chars().skip(1)));
                    spm.pieces.entry(name.into()).or_insert(Scored { id, score });
                }
                Role::Whole => spm.whole.add(name, id),
                Role::Byte(byte) => spm.bytes[usize::from(byte)] = Some(id),
                Role::Silent => {}
            }
        }
        spm
    }

    /// The id of a token by its name.
    pub(crate) fn id_of(&self, name: &str) -> Option<u32> {
        let whole = self.whole.ids.get(name).copied();
        whole.or_else(|| self.pieces.get(name).map(|piece| piece.id))
    }

    /// The ids of a text.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut rest = text;
        // A text's own space comes at its start and after each token that was found as a whole.
        while !rest.is_empty() {
            let (start, end, id) = match self.whole.find(rest) {
                Some((start, end, id)) => (start, end, Some(id)),
                None => (rest.len(), rest.len(), None),
            };
            if start > 0 {
                self.encode_plain(&rest[..start], &mut ids);
            }
            ids.extend(id);
            rest = &rest[end..];
        }
        ids
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        let mut marked = String::with_capacity(text.len() + text.len() / 4);
        if self.space_prefix {
            marked.push(SPACE_MARK);
        }
        marked.extend(text.chars().map(|c| if c == ' ' { SPACE_MARK } else { c }));
        let (mut start, mut last) = (0, None);
        for (at, c) in marked.char_indices() {
            if last.is_some_and(|last| !self.neighbours.contains(&(last, c))) {
                self.merge(&marked[start..at], ids);
                start = at;
            }
            last = Some(c);
        }
        self.merge(&marked[start..], ids);
    }

    /// Encodes a stretch of text by merging.
    fn merge(&self, text: &str, ids: &mut Vec<u32>) {
        let mut runs: Vec<Run> = Vec::with_capacity(text.len());
        for (index, (start, c)) in text.char_indices().enumerate() {
            let previous = index.checked_sub(1);
            runs.push(Run { start, end: start + c.len_utf8(), previous, next: Some(index + 1) });
        }
        let Some(last) = runs.last_mut() else { return };
        last.next = None;

        let mut queue = BinaryHeap::new();
        for left in 0..runs.len() {
            self.note(text, &runs, left, &mut queue);
        }
        while let Some(Merge { left, right, bytes, .. }) = queue.pop() {
            let (l, r) = (runs[left], runs[right]);
            let stale = l.next != Some(right) || l.start == l.end || r.end - l.start != bytes;
            if stale {
                continue;
            }
            runs[left].end = r.end;
            runs[left].next = r.next;
            runs[right].start = r.end; // empty: merged away
            if let Some(next) = r.next {
                runs[next].previous = Some(left);
            }
            if let Some(previous) = runs[left].previous {
                self.note(text, &runs, previous, &mut queue);
            }
            self.note(text, &runs, left, &mut queue);
        }
        let mut at = Some(0);
        while let Some(run) = at.map(|at| runs[at]) {
            self.emit(&text[run.start..run.end], ids);
            at = run.next;
        }
    }

    /// Notes the merge of a run with its right neighbour, if it makes a piece.
    fn note(&self, text: &str, runs: &[Run], left: usize, queue: &mut BinaryHeap<Merge>) {
        let Some(right) = runs[left].next else { return };
        let joined = &text[runs[left].start..runs[right].end];
        if let Some(piece) = self.pieces.get(joined) {
            queue.push(Merge { score: piece.score, left, right, bytes: joined.len() });
        }
    }

    /// The id of a run; a character without a piece becomes its bytes.
    fn emit(&self, run: &str, ids: &mut Vec<u32>) {
        if let Some(piece) = self.pieces.get(run) {
            ids.push(piece.id);
            return;
        }
        let bytes: Option<Vec<u32>> = run.bytes().map(|b| self.bytes[usize::from(b)]).collect();
        match bytes {
            Some(bytes) => ids.extend(bytes),
            None => ids.extend(self.unknown),
        }
    }
}

#[cfg(test)]
mod tests;
