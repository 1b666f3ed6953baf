//! Writing: records to the end of the newest segment, in large pieces, within the budget.
//!
//! Room is made before anything is written, for the records, for the list that the segment will get, and for a new
//! segment's head; so no moment sees the folder above its budget. What a refused write leaves behind is cut off again.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use omlx_blocks::Salt;

use super::Shared;
use super::format::{self, Entry, MAX_CONTENT, MAX_TOKENS, SEGMENT_HEAD, push_record};
use super::index::{Index, Place, Segment, on_disk};
use super::lock::Lock;
use super::open;
use super::pause::Pause;
use super::read;
use crate::tier::Block;

/// What is written at once: enough that a disk works at its full rate, little enough that a reader does not wait long.
pub(super) const WRITE_BYTES: usize = 2 << 20;

/// The name of a segment's file.
pub(super) fn name_of(number: u32) -> String {
    format!("omlx-{number:08x}.kv")
}

/// The segment of this file name, if it is one.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("omlx-")?.strip_suffix(".kv")?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (name_of(number) == name).then_some(number)
}

/// The writing end of a store.
#[derive(Debug)]
pub(super) struct Log {
    open: Option<Open>,
    next: u32,
    pause: Pause,
    /// Held as long as the folder is in use; none where a test's medium stands in for one.
    lock: Option<Lock>,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    number: u32,
    end: u64,
    entries: Vec<Entry>,
    salts: Vec<Salt>,
}

/// Records on their way into a segment.
#[derive(Default)]
struct Load {
    bytes: Vec<u8>,
    /// Where in `bytes`, and when last used; `None` is now.
    records: Vec<(format::RecordHead, usize, Option<u64>)>,
}

impl Log {
    pub(super) fn new(next: u32, retry: Duration, lock: Option<Lock>) -> Self {
        Self { open: None, next, pause: Pause::new(retry), lock }
    }

    /// Nothing is written into a folder that is not ours any more. One that was made anew, and is nobody else's, is taken as it is now.
    fn hold(&mut self, shared: &Shared) -> io::Result<()> {
        let Some(lock) = self.lock.as_ref().filter(|lock| !lock.holds()) else {
            return Ok(());
        };
        let lock = lock.again().map_err(io::Error::other)?;
        self.open = None;
        *shared.index() = Index::default();
        // Where this fails the new lock goes, and all of it is tried again before the next write.
        let (opened, next) = open::load(shared).map_err(io::Error::other)?;
        (self.next, self.lock) = (self.next.max(next), Some(lock));
        tracing::warn!(folder = %shared.folder.display(), "the cache folder was made anew: {opened}");
        Ok(())
    }

    pub(super) fn put(&mut self, shared: &Shared, blocks: &[Block]) -> io::Result<()> {
        let mut blocks = blocks;
        while let Some(load) = self.next_load(shared, &mut blocks) {
            let count = load.records.len() as u64;
            if self.pause.is_on(Instant::now()) {
                shared.stats().skipped += count;
                continue;
            }
            shared.index().begin_load();
            let appended = self.append(shared, load);
            shared.index().end_load();
            match appended {
                Ok(Booked::All) => self.went_well(shared),
                Ok(Booked::NoRoom) => shared.stats().refused += count,
                Err(error) => {
                    self.refused(shared, &error);
                    let mut stats = shared.stats();
                    stats.write_errors += 1;
                    stats.skipped += count + blocks.len() as u64;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The records of the next write, out of the blocks that are left: those that are here already are only touched.
    fn next_load(&self, shared: &Shared, blocks: &mut &[Block]) -> Option<Load> {
        let mut load = Load::default();
        let most = WRITE_BYTES.min(usize::try_from(shared.segment_bytes).unwrap_or(usize::MAX));
        let now = shared.index().tick();
        while let Some((block, rest)) = blocks.split_first() {
            let len = format::record_len(block.label.tokens.len(), block.bytes.len());
            if !load.records.is_empty() && load.bytes.len() + len > most {
                break;
            }
            *blocks = rest;
            let mut index = shared.index();
            if index.find(&block.label.key).is_some() {
                index.touch(&block.label.key, now);
                continue;
            }
            drop(index);
            if block.bytes.len() > MAX_CONTENT || block.label.tokens.len() > MAX_TOKENS {
                shared.stats().refused += 1;
                continue;
            }
            if load.records.iter().all(|(head, ..)| head.key != block.label.key) {
                load.push_block(block);
            }
        }
        (!load.records.is_empty()).then_some(load)
    }

    /// Writes a load to the end of the newest segment, once there is room.
    fn append(&mut self, shared: &Shared, mut load: Load) -> io::Result<Booked> {
        self.hold(shared)?;
        self.leave_what_is_spoilt(shared);
        let full = |open: &Open| !open.entries.is_empty() && open.end + load.bytes.len() as u64 > shared.segment_bytes;
        if self.open.as_ref().is_some_and(full) {
            self.close(shared);
        }
        let put = load.records.len() as u64;
        if !fits_alone(shared, &load, 0) {
            return Ok(Booked::NoRoom);
        }
        let most_carried = (shared.segment_bytes / 2) as usize;
        let may_carry = fits_alone(shared, &load, most_carried);
        let most = load.bytes.len() + most_carried;
        while !self.fits(shared, &load) {
            let victim = shared.index().victim(self.open.as_ref().map(|open| open.number));
            match victim {
                Some(victim) => load.carry(evict(shared, victim, may_carry)?, most),
                None => self.close(shared), // now it is a victim itself, and alone the load fits
            }
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let number = self.next;
                self.next =
                    self.next.checked_add(1).ok_or_else(|| io::Error::other("all segment numbers are used up"))?;
                self.open.insert(begin(shared, number)?)
            }
        };
        if let Err(error) = open.write(shared, &load) {
            // What stands there in part must not count twice. Where not even that works, the segment is left as it is.
            if shared.medium.cut(&name_of(open.number), open.end).is_err() {
                abandon(shared, open);
                self.open = None;
            }
            return Err(error);
        }
        shared.stats().written += put;
        Ok(Booked::All)
    }

    /// Whether the folder stays within its budget with this load in it and all that comes with it.
    fn fits(&self, shared: &Shared, load: &Load) -> bool {
        let (number, end, entries, salts) = match &self.open {
            Some(open) => (Some(open.number), open.end, open.entries.len(), open.salts.len()),
            None => (None, SEGMENT_HEAD as u64, 0, 0),
        };
        let index = shared.index();
        let own = number.and_then(|number| index.segments.get(&number)).map_or(0, |s| on_disk(s.len + s.list));
        // Every record may bring a salt of its own.
        let list = format::list_len(entries + load.records.len(), salts + load.records.len());
        index.bytes() - own + on_disk(end + load.bytes.len() as u64 + list as u64) <= shared.budget
    }

    /// Ends the newest segment with its list. If that fails, the next start walks its records.
    pub(super) fn close(&mut self, shared: &Shared) {
        self.leave_what_is_spoilt(shared);
        let Some(open) = self.open.take() else {
            return write_down_use(shared);
        };
        let name = name_of(open.number);
        if open.entries.is_empty() && shared.medium.remove(&name).is_ok() {
            shared.index().drop_segment(open.number);
            return write_down_use(shared);
        }
        let list = format::list(&open.entries, &open.salts, open.end);
        // The content first: a list that tells of what is not there would cost a read for every block.
        let written = shared.medium.sync(&name).and_then(|()| shared.medium.write(&name, open.end, &list));
        match written {
            Ok(()) => shared.index().resize(open.number, open.end + list.len() as u64, 0),
            Err(error) => {
                tracing::debug!(%error, name, "a segment was closed without a list");
                abandon(shared, &open);
            }
        }
        write_down_use(shared);
    }

    /// Somebody has taken the newest segment's file away or cut it short, as a reader has found: what is written from now on is
    /// written elsewhere.
    fn leave_what_is_spoilt(&mut self, shared: &Shared) {
        if let Some(open) = self.open.take_if(|open| !shared.index().is_whole(open.number)) {
            abandon(shared, &open);
        }
    }

    /// Gives up segments until the folder is within its budget.
    pub(super) fn shrink(&mut self, shared: &Shared) -> io::Result<()> {
        while shared.index().bytes() > shared.budget {
            let Some(victim) = shared.index().victim(None) else {
                break; // what is left is not ours
            };
            evict(shared, victim, false)?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, shared: &Shared) -> io::Result<()> {
        self.open = None;
        let all = shared.index().numbers();
        // One that stays is no reason to keep the others.
        all.into_iter().map(|number| evict(shared, number, false).map(drop)).fold(Ok(()), Result::and)
    }

    fn refused(&mut self, shared: &Shared, error: &io::Error) {
        let wait = self.pause.refused(Instant::now());
        let already = std::mem::replace(&mut shared.stats().writing_off, true);
        let folder = shared.folder.display();
        if !already {
            tracing::warn!(%folder, %error, ?wait, "the cache folder cannot be written; blocks are read but not written for a while");
        }
    }

    fn went_well(&mut self, shared: &Shared) {
        if self.pause.went_well() {
            shared.stats().writing_off = false;
            tracing::info!(folder = %shared.folder.display(), "the cache folder can be written again");
        }
    }
}

/// What became of a load.
enum Booked {
    All,
    NoRoom,
}

impl Open {
    /// Writes a load and books it. What was forgotten since it was put together is not found again, now or after a start.
    fn write(&mut self, shared: &Shared, load: &Load) -> io::Result<()> {
        shared.medium.write(&name_of(self.number), self.end, &load.bytes)?;
        let mut index = shared.index();
        let forgotten = index.end_load();
        let mut spoilt = Vec::new();
        let now = index.tick();
        for (head, at, used) in &load.records {
            let salt = self.salts.iter().position(|salt| *salt == head.salt).unwrap_or_else(|| {
                self.salts.push(head.salt);
                self.salts.len() - 1
            });
            let at = (self.end + *at as u64) as u32; // a segment is megabytes, and one load more
            let entry = Entry { key: head.key, at, len: head.len() as u32, salt: salt as u32 };
            if forgotten.contains(&head.key) {
                spoilt.push((head.key, Place { used: now, segment: self.number, at, len: entry.len }));
                continue;
            }
            self.entries.push(entry);
            index.add(self.number, &entry, head.salt, used.unwrap_or(now));
        }
        self.end += load.bytes.len() as u64;
        let list = format::list_len(self.entries.len(), self.salts.len());
        index.resize(self.number, self.end, list as u64);
        index.written(self.number);
        drop(index);
        spoilt.iter().try_for_each(|(key, place)| read::spoil(shared, key, *place))
    }
}

impl Load {
    fn push_block(&mut self, block: &Block) {
        let at = self.bytes.len();
        push_record(block, &mut self.bytes);
        let head = format::record_head_unchecked(&self.bytes[at..]);
        self.records.push((head.expect("it was written within the limits"), at, None));
    }

    /// Adds records that were read from a segment that is no more, up to `most` bytes in all.
    fn carry(&mut self, records: Vec<(format::RecordHead, Vec<u8>, u64)>, most: usize) {
        for (head, bytes, used) in records {
            if self.bytes.len() + bytes.len() <= most && self.records.iter().all(|(other, ..)| other.key != head.key) {
                self.records.push((head, self.bytes.len(), Some(used)));
                self.bytes.extend_from_slice(&bytes);
            }
        }
    }
}

/// Whether a load and so many bytes more would fit if nothing else of ours were in the folder.
fn fits_alone(shared: &Shared, load: &Load, more: usize) -> bool {
    let records = load.records.len() + more / format::RECORD_HEAD;
    let len = SEGMENT_HEAD + load.bytes.len() + more + format::list_len(records, records);
    shared.index().strays + on_disk(len as u64) <= shared.budget
}

/// A new segment with nothing but its head.
fn begin(shared: &Shared, number: u32) -> io::Result<Open> {
    let name = name_of(number);
    shared.medium.create(&name)?;
    if let Err(error) = shared.medium.write(&name, 0, &format::segment_head(number)) {
        // Best effort: a file without a good head is removed at the next start.
        let removed = shared.medium.remove(&name);
        let len = removed.map_or(SEGMENT_HEAD as u64, |()| 0);
        if len > 0 {
            shared.index().add_segment(number, Segment::foreign(len, 0));
        }
        return Err(error);
    }
    let segment = Segment { len: SEGMENT_HEAD as u64, ..Segment::default() };
    shared.index().add_segment(number, segment);
    Ok(Open { number, end: SEGMENT_HEAD as u64, entries: Vec::new(), salts: Vec::new() })
}

/// Counts a segment as long as its file really is, now that nobody writes it any more.
fn abandon(shared: &Shared, open: &Open) {
    let files = shared.medium.list().unwrap_or_default();
    let found = files.iter().find(|file| file.name == name_of(open.number)).map(|file| file.len);
    let list = format::list_len(open.entries.len(), open.salts.len()) as u64;
    let most = open.end + list + WRITE_BYTES as u64;
    let mut index = shared.index();
    index.resize(open.number, found.unwrap_or(most), 0);
}

/// Removes a segment. What of it is in use is read before, to be written again.
fn evict(shared: &Shared, number: u32, carry: bool) -> io::Result<Vec<(format::RecordHead, Vec<u8>, u64)>> {
    let keepers = if carry { shared.index().keepers(number) } else { Vec::new() };
    let read = |(_, place): (_, Place)| {
        let mut bytes = vec![0; place.len as usize];
        shared.medium.read(&name_of(number), u64::from(place.at), &mut bytes).ok()?;
        let head = format::read_record_head(&bytes)?;
        (head.len() == bytes.len() && format::content_is_good(&bytes, &head)).then_some((head, bytes, place.used))
    };
    let kept: Vec<_> = keepers.into_iter().filter_map(read).collect();
    shared.index().set_going(number, true);
    match shared.medium.remove(&name_of(number)) {
        // Somebody has tidied up: so much the better.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            shared.index().set_going(number, false);
            return Err(error);
        }
        _ => {}
    }
    let lost = shared.index().drop_segment(number);
    shared.stats().evicted += lost.saturating_sub(kept.len() as u64);
    Ok(kept)
}

/// Writes down when segments were last used, as the times of their files: the next start orders them by it.
fn write_down_use(shared: &Shared) {
    let used = std::mem::take(&mut shared.index().used);
    let now = SystemTime::now();
    for number in used {
        if let Err(error) = shared.medium.set_modified(&name_of(number), now) {
            tracing::debug!(%error, number, "the time of a segment's last use was not written down");
        }
    }
}
