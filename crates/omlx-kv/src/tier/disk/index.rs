//! Where each block is, and which segment goes next.
//!
//! Nothing here touches a file. Every segment of the folder is in here with the bytes it takes, whoever wrote it and whether or
//! not it can be read: the budget counts what is on the disk, not what is of use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use omlx_blocks::{BlockKey, Salt};

use super::format::Entry;

/// File systems give out space in pieces of this size.
const GRAIN: u64 = 4096;
/// A victim's blocks that were used since it was written may be carried over, up to this part of it.
const CARRY: u64 = 4;

/// The first half of a key. Enough to find it; the whole of it is compared when the record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Short([u8; 16]);

impl Short {
    pub(crate) fn of(key: &BlockKey) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&key.as_bytes()[..16]);
        Self(half)
    }
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// When it was last used.
    pub(crate) used: u64,
    pub(crate) segment: u32,
    pub(crate) at: u32,
    pub(crate) len: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// Its file's length.
    pub(crate) len: u64,
    /// Bytes set aside for the list that it will get when it is closed.
    pub(crate) list: u64,
    /// All records that were ever in it, good or not.
    pub(crate) keys: Vec<Short>,
    /// Sum of when its blocks were last used. Forgotten ones count 0, so that a segment of nothing but them goes first.
    pub(crate) used: u64,
    /// When it was last written: blocks used later have proven their worth.
    pub(crate) written: u64,
    /// Blocks and bytes by salt, as written.
    pub(crate) salts: BTreeMap<Salt, (u64, u64)>,
    /// Whether somebody else's version wrote it, or nobody can read it.
    pub(crate) foreign: bool,
    /// Its file is being removed by us.
    pub(crate) going: bool,
    /// Somebody has cut its file short.
    pub(crate) cut: bool,
}

impl Segment {
    pub(crate) fn foreign(len: u64, used: u64) -> Self {
        Self { len, used, foreign: true, ..Self::default() }
    }

    /// How recently it was used on the whole.
    fn mean_use(&self) -> u64 {
        self.used / (self.keys.len().max(1) as u64)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: HashMap<Short, Place>,
    pub(crate) segments: BTreeMap<u32, Segment>,
    /// Counts uses. One for a whole chain, so its blocks are equally old.
    clock: u64,
    /// Bytes on the disk that are not segments.
    pub(crate) strays: u64,
    /// Bytes on the disk of all segments, and of the lists to come.
    taken: u64,
    /// Segments used since their time of use was last written down.
    pub(crate) used: BTreeSet<u32>,
    /// What was removed by name while the log has a load in its hands, which may hold the same names; `None` while it has none.
    in_hand: Option<HashSet<BlockKey>>,
}

impl Index {
    /// With room for so many blocks.
    pub(crate) fn reserve(&mut self, blocks: usize) {
        self.blocks.reserve(blocks);
    }

    /// A new moment of use.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// How many blocks can be found.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that the folder takes, as a disk counts them.
    pub(crate) fn bytes(&self) -> u64 {
        self.strays + self.taken
    }

    pub(crate) fn find(&self, key: &BlockKey) -> Option<Place> {
        self.blocks.get(&Short::of(key)).copied()
    }

    /// Counts a use at the moment `now`.
    pub(crate) fn touch(&mut self, key: &BlockKey, now: u64) {
        if let Some(place) = self.blocks.get_mut(&Short::of(key)) {
            let was = std::mem::replace(&mut place.used, now);
            if let Some(segment) = self.segments.get_mut(&place.segment) {
                segment.used = segment.used - was + now;
                self.used.insert(place.segment);
            }
        }
    }

    /// Enters a segment as it is on the disk.
    pub(crate) fn add_segment(&mut self, number: u32, segment: Segment) {
        self.taken += on_disk(segment.len + segment.list);
        let before = self.segments.insert(number, segment);
        assert!(before.is_none(), "segment {number} is here already");
    }

    /// The file of a segment has changed its length, or what is set aside for its list.
    pub(crate) fn resize(&mut self, number: u32, len: u64, list: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            self.taken -= on_disk(segment.len + segment.list);
            (segment.len, segment.list) = (len, list);
            self.taken += on_disk(len + list);
        }
    }

    /// Enters a record of a segment, last used at `used`.
    pub(crate) fn add(&mut self, number: u32, entry: &Entry, salt: Salt, used: u64) {
        let short = Short::of(&entry.key);
        // Of two records with one name the one that was written later counts, in whatever order they are entered: it would not
        // have been written if the other had been any good.
        let counts = self.place(&short).is_none_or(|place| place.segment <= number);
        if counts {
            self.remove_short(&short);
        }
        let Some(segment) = self.segments.get_mut(&number) else {
            return;
        };
        segment.keys.push(short);
        let (blocks, bytes) = segment.salts.entry(salt).or_default();
        (*blocks, *bytes) = (*blocks + 1, *bytes + u64::from(entry.len));
        if !counts {
            return;
        }
        segment.used += used;
        self.blocks.insert(short, Place { used, segment: number, at: entry.at, len: entry.len });
    }

    /// Something was written into a segment: its blocks have to prove their worth from now on.
    pub(crate) fn written(&mut self, number: u32) {
        let now = self.clock;
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.written = now;
        }
    }

    /// Every block and where it is.
    pub(crate) fn all(&self) -> Vec<(Short, Place)> {
        self.blocks.iter().map(|(key, place)| (*key, *place)).collect()
    }

    pub(crate) fn place(&self, key: &Short) -> Option<Place> {
        self.blocks.get(key).copied()
    }

    /// Makes a block impossible to find.
    pub(crate) fn remove(&mut self, key: &BlockKey) {
        if let Some(in_hand) = &mut self.in_hand {
            in_hand.insert(*key);
        }
        self.remove_short(&Short::of(key));
    }

    /// From now on, until [`end_load`](Self::end_load), it is remembered what is removed.
    pub(crate) fn begin_load(&mut self) {
        self.in_hand = Some(HashSet::new());
    }

    /// What has been removed since.
    pub(crate) fn end_load(&mut self) -> HashSet<BlockKey> {
        self.in_hand.take().unwrap_or_default()
    }

    pub(crate) fn remove_short(&mut self, key: &Short) {
        let Some(place) = self.blocks.remove(key) else {
            return;
        };
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.used -= place.used;
        }
    }

    /// The segment that is worth least, but not `open`: used least recently on the whole; of equal ones the youngest, which has the
    /// ends of chains.
    pub(crate) fn victim(&self, open: Option<u32>) -> Option<u32> {
        let others = self.segments.iter().filter(|(number, _)| Some(**number) != open);
        others
            .min_by_key(|(number, segment)| (segment.mean_use(), std::cmp::Reverse(**number)))
            .map(|(number, _)| *number)
    }

    /// A segment's blocks that are worth writing again: used since it was written, the latest first and of those the fronts of
    /// chains, up to a quarter of its bytes.
    pub(crate) fn keepers(&self, number: u32) -> Vec<(Short, Place)> {
        let Some(segment) = self.segments.get(&number) else {
            return Vec::new();
        };
        let here = segment.keys.iter().filter_map(|key| Some((*key, *self.blocks.get(key)?)));
        let mut proven: Vec<_> =
            here.filter(|(_, place)| place.segment == number && place.used > segment.written).collect();
        proven.sort_by_key(|(_, place)| (std::cmp::Reverse(place.used), place.at));
        proven.dedup_by_key(|(_, place)| place.at);
        let mut left = segment.len / CARRY;
        proven.retain(|(_, place)| {
            let fits = u64::from(place.len) <= left;
            left -= if fits { u64::from(place.len) } else { left }; // a front without its end, never the other way round
            fits
        });
        proven
    }

    /// Makes the blocks of a segment impossible to find that do not end within its first `len` bytes.
    pub(crate) fn cut(&mut self, number: u32, len: u64) {
        let outside = |place: Place| u64::from(place.at) + u64::from(place.len) > len;
        let keys = self.segments.get(&number).map(|segment| segment.keys.clone()).unwrap_or_default();
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.cut = true;
        }
        for key in keys {
            if self.place(&key).is_some_and(|place| place.segment == number && outside(place)) {
                self.remove_short(&key);
            }
        }
    }

    /// Whether the file of a segment is as it was written: one that is gone or cut short must not be written on.
    pub(crate) fn is_whole(&self, number: u32) -> bool {
        self.segments.get(&number).is_some_and(|segment| !segment.cut)
    }

    /// The numbers of all segments.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.segments.keys().copied().collect()
    }

    /// Notes whether a segment's file is being removed by us.
    pub(crate) fn set_going(&mut self, number: u32, going: bool) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.going = going;
        }
    }

    pub(crate) fn is_going(&self, number: u32) -> bool {
        self.segments.get(&number).is_some_and(|segment| segment.going)
    }

    /// Takes a segment out with all its blocks; answers how many of them could be found.
    pub(crate) fn drop_segment(&mut self, number: u32) -> u64 {
        let Some(segment) = self.segments.remove(&number) else {
            return 0;
        };
        self.taken -= on_disk(segment.len + segment.list);
        self.used.remove(&number);
        let mut lost = 0;
        for key in segment.keys {
            if self.blocks.get(&key).is_some_and(|place| place.segment == number) {
                self.blocks.remove(&key);
                lost += 1;
            }
        }
        lost
    }
}

/// What a file of this length takes on a disk.
pub(crate) fn on_disk(len: u64) -> u64 {
    len.next_multiple_of(GRAIN)
}
