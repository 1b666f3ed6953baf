//! The start: what is in the folder, read from lists and heads, never from contents.
//!
//! A segment without a good list was being written when its process ended, or its list is damaged. Its records are walked, what
//! stands behind the last good one is cut off, and it gets a list. One without a single block is removed. Files that are not
//! ours are left alone, but they count.

use std::fmt;
use std::io;
use std::time::SystemTime;

use omlx_blocks::Salt;

use super::format::{self, Entry, Head, MAX_TOKENS, RECORD_HEAD, SEGMENT_HEAD, TAIL};
use super::index::{Segment, on_disk};
use super::log::number_of;
use super::{LOCK, MediumFile, Shared};
use crate::Result;

/// Read at once when records are walked: heads of small blocks come many at a time, the contents of large ones are passed over.
const WALK_BYTES: usize = 64 << 10;

/// Some files, or the blocks in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Found {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// What was in a folder when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Blocks that can be used, by whichever model wrote them.
    pub blocks: Found,
    /// Segments that another version of the program wrote: useless to this one, kept until their room is needed.
    pub other_version: Found,
    /// Segments that nobody can read; they go first when room is needed.
    pub damaged: Found,
    /// Segments that were not finished, or had lost their list, and were mended.
    pub mended: Found,
    /// Files that are not ours: left alone, but their bytes count.
    pub strays: Found,
}

impl Opened {
    /// Whether there is something that its owner should know of.
    pub fn is_worth_a_warning(&self) -> bool {
        [self.other_version, self.damaged, self.strays].iter().any(|found| found.count > 0)
    }
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stored blocks ({} MiB)", self.blocks.count, self.blocks.bytes >> 20)?;
        let notes = [
            (self.other_version, "files of another version, of no use here and kept until their room is needed"),
            (self.damaged, "files that cannot be read, which go first when room is needed"),
            (self.mended, "files that had not been finished, used as far as they are whole"),
            (self.strays, "files that are not of this cache, left alone but counted"),
        ];
        for (found, what) in notes.iter().filter(|(found, _)| found.count > 0) {
            write!(f, "; {} {what} ({} MiB)", found.count, found.bytes >> 20)?;
        }
        Ok(())
    }
}

/// Reads the folder into the index; answers what was found and the number of the next segment.
pub(super) fn load(shared: &Shared) -> Result<(Opened, u32)> {
    let mut files = shared.medium.list().map_err(|source| shared.failed("it cannot be listed", source))?;
    let mut opened = Opened::default();
    let mut next = 0;
    // Least recently used first, so that the order of use outlives a restart; of equal ones the youngest, as everywhere.
    files.sort_by_key(|file| (file.modified, std::cmp::Reverse(number_of(&file.name))));
    for file in &files {
        match number_of(&file.name) {
            Some(number) => {
                next = next.max(number.saturating_add(1));
                load_segment(shared, number, file, &mut opened);
            }
            None => {
                shared.index().strays += on_disk(file.len);
                if file.name != LOCK {
                    opened.strays.add(file.len);
                }
            }
        }
    }
    Ok((opened, next))
}

fn load_segment(shared: &Shared, number: u32, file: &MediumFile, opened: &mut Opened) {
    let now = shared.index().tick();
    let mut head = [0; SEGMENT_HEAD];
    let read = shared.medium.read(&file.name, 0, &mut head);
    match read.map(|()| format::read_segment_head(&head)) {
        Ok(Head::Ours) => {}
        Ok(Head::Other) => {
            opened.other_version.add(file.len);
            return shared.index().add_segment(number, Segment::foreign(file.len, now));
        }
        // What a process was killed over before it had written the head.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && shared.medium.remove(&file.name).is_ok() => {
            return;
        }
        Ok(Head::Bad) | Err(_) => {
            opened.damaged.add(file.len);
            return shared.index().add_segment(number, Segment::foreign(file.len, 0));
        }
    }
    let listed = read_list(shared, file);
    let (entries, salts, len) = match listed {
        Some((entries, salts)) => (entries, salts, file.len),
        None => {
            let walked = walk(shared, file);
            if walked.entries.is_empty() && shared.medium.remove(&file.name).is_ok() {
                return;
            }
            opened.mended.add(file.len);
            let len = mend(shared, file, &walked);
            (walked.entries, walked.salts, len)
        }
    };
    let mut index = shared.index();
    index.add_segment(number, Segment { len, ..Segment::default() });
    index.reserve(entries.len());
    for entry in &entries {
        let Some(salt) = salts.get(entry.salt as usize) else {
            continue; // a list that names no salt names no block
        };
        opened.blocks.add(u64::from(entry.len));
        index.add(number, entry, *salt, now);
    }
    index.written(number);
}

/// The list at a segment's end, if there is a good one.
fn read_list(shared: &Shared, file: &MediumFile) -> Option<(Vec<Entry>, Vec<Salt>)> {
    let mut tail = [0; TAIL];
    let tail_at = file.len.checked_sub(TAIL as u64)?;
    shared.medium.read(&file.name, tail_at, &mut tail).ok()?;
    let tail = format::read_tail(&tail, file.len)?;
    let mut list = vec![0; tail.list_len()];
    shared.medium.read(&file.name, tail.at, &mut list).ok()?;
    let (entries, salts) = tail.read_list(&list)?;
    let inside = |entry: &Entry| u64::from(entry.at) + u64::from(entry.len) <= tail.at;
    entries.iter().all(inside).then_some((entries, salts))
}

/// The good records at a segment's front.
struct Walked {
    entries: Vec<Entry>,
    salts: Vec<Salt>,
    /// Where the last of them ends.
    end: u64,
}

fn walk(shared: &Shared, file: &MediumFile) -> Walked {
    let mut walked = Walked { entries: Vec::new(), salts: Vec::new(), end: SEGMENT_HEAD as u64 };
    let mut window = Window { at: 0, bytes: Vec::new() };
    loop {
        let Some(head) = window.read_head(shared, file, walked.end) else {
            return walked;
        };
        let after = walked.end + head.len() as u64;
        let Ok(at) = u32::try_from(walked.end) else {
            return walked;
        };
        if after > file.len {
            return walked; // the last write was cut short
        }
        let salt = walked.salts.iter().position(|salt| *salt == head.salt).unwrap_or_else(|| {
            walked.salts.push(head.salt);
            walked.salts.len() - 1
        });
        walked.entries.push(Entry { key: head.key, at, len: head.len() as u32, salt: salt as u32 });
        walked.end = after;
    }
}

/// A piece of a file in memory.
struct Window {
    at: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The head of the record at `at`, if it is a good one.
    fn read_head(&mut self, shared: &Shared, file: &MediumFile, at: u64) -> Option<format::RecordHead> {
        let fixed = self.show(shared, file, at, RECORD_HEAD)?;
        let head = format::record_head_unchecked(fixed)?;
        debug_assert!(head.tokens <= MAX_TOKENS);
        format::read_record_head(self.show(shared, file, at, head.content_at())?)
    }

    /// The bytes `at..at + len` of the file, if it is that long.
    fn show(&mut self, shared: &Shared, file: &MediumFile, at: u64, len: usize) -> Option<&[u8]> {
        let inside = at >= self.at && at + len as u64 <= self.at + self.bytes.len() as u64;
        if !inside {
            let left = file.len.checked_sub(at)?;
            let more = usize::try_from(left).unwrap_or(usize::MAX).min(len.max(WALK_BYTES));
            self.bytes.resize(more, 0);
            self.at = at;
            shared.medium.read(&file.name, at, &mut self.bytes).ok()?;
        }
        let from = (at - self.at) as usize;
        self.bytes.get(from..from + len)
    }
}

/// Cuts off what is no good and adds the list; answers the file's length. Where the disk does not let us, the next start walks again.
fn mend(shared: &Shared, file: &MediumFile, walked: &Walked) -> u64 {
    let list = format::list(&walked.entries, &walked.salts, walked.end);
    let medium = &shared.medium;
    if medium.cut(&file.name, walked.end).is_err() {
        return file.len;
    }
    let written = medium.write(&file.name, walked.end, &list);
    // The mending is no use of its blocks.
    let times = medium.set_modified(&file.name, file.modified.min(SystemTime::now()));
    let kept = written.and(times).is_ok();
    if kept { walked.end + list.len() as u64 } else { walked.end.max(file.len) }
}
