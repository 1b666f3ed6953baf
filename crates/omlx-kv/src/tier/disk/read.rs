//! Reading: neighbours in one piece, each record checked for name, tokens, length and content.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use omlx_blocks::BlockKey;

use super::Shared;
use super::format;
use super::index::Place;
use super::log::{name_of, number_of};
use crate::BlockBytes;
use crate::tier::{End, Got, Wanted};

/// The most that is read in one piece.
pub(super) const READ_BYTES: usize = 4 << 20;

pub(super) fn get(shared: &Shared, wanted: &[Wanted]) -> Got {
    let places = places(shared, wanted);
    let mut blocks = Vec::with_capacity(wanted.len());
    while blocks.len() < places.len() {
        let at = blocks.len();
        let run = run_len(&places[at..]);
        if let Err(end) = read_run(shared, &places[at..at + run], &wanted[at..at + run], &mut blocks) {
            if !matches!(end, End::Missing) {
                shared.index().remove(&wanted[blocks.len()].key);
            }
            return Got { blocks, end };
        }
    }
    let end = if places.len() < wanted.len() { End::Missing } else { End::All };
    Got { blocks, end }
}

/// Where the blocks are, up to the first that is not here. Counts as use.
fn places(shared: &Shared, wanted: &[Wanted]) -> Vec<Place> {
    let mut index = shared.index();
    let now = index.tick();
    let found = wanted.iter().map_while(|want| {
        let place = index.find(&want.key)?;
        index.touch(&want.key, now);
        Some(place)
    });
    found.collect()
}

/// How many of the first places stand one behind the other.
fn run_len(places: &[Place]) -> usize {
    let mut bytes = places[0].len as usize;
    let follows = |pair: &&[Place]| {
        let [one, next] = pair else { return false };
        bytes += next.len as usize;
        one.segment == next.segment
            && u64::from(one.at) + u64::from(one.len) == u64::from(next.at)
            && bytes <= READ_BYTES
    };
    1 + places.windows(2).take_while(follows).count()
}

/// Reads neighbours in one piece. What is good is added to `blocks`, up to the first that is not.
fn read_run(shared: &Shared, places: &[Place], wanted: &[Wanted], blocks: &mut Vec<BlockBytes>) -> Result<(), End> {
    let len = places.iter().map(|place| place.len as usize).sum();
    let mut bytes = shared.buffers.take(len);
    let name = name_of(places[0].segment);
    match shared.medium.read(&name, u64::from(places[0].at), &mut bytes[..len]) {
        Ok(()) => {}
        // One bad spot must not cost its neighbours.
        Err(_) if places.len() > 1 => {
            let one = |(place, want): (&Place, &Wanted)| {
                read_run(shared, std::slice::from_ref(place), std::slice::from_ref(want), blocks)
            };
            return places.iter().zip(wanted).try_for_each(one);
        }
        // The segment was given up meanwhile, or somebody has taken it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            forget_missing(shared, places[0].segment);
            return Err(End::Missing);
        }
        // Somebody has cut it short.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            forget_cut(shared, places[0].segment);
            return Err(End::Bad);
        }
        Err(error) => return Err(End::Failed(error)),
    }
    let bytes = Arc::new(bytes);
    let mut at = 0;
    for (place, want) in places.iter().zip(wanted) {
        let record = &bytes[at..at + place.len as usize];
        let Some(range) = content(record, want) else {
            forget_bad(shared, &bytes[at..len], places, wanted, place);
            return Err(End::Bad);
        };
        blocks.push(BlockBytes::part(&bytes, at + range.start..at + range.end));
        at += place.len as usize;
    }
    Ok(())
}

/// Where in a record the wanted content stands, if the record is whole and the one that is wanted.
fn content(record: &[u8], want: &Wanted) -> Option<std::ops::Range<usize>> {
    let head = format::read_record_head(record)?;
    let same = head.key == want.key && head.content == want.len && format::holds(record, &head, &want.tokens);
    (same && format::content_is_good(record, &head)).then(|| head.content_at()..head.content_at() + head.content)
}

/// Where one block is bad others often are: those of the same piece are forgotten at once, or each would cost a later request.
fn forget_bad(shared: &Shared, bytes: &[u8], places: &[Place], wanted: &[Wanted], first: &Place) {
    let mut rest = bytes;
    let from = places.iter().position(|place| place == first).unwrap_or(places.len());
    for (place, want) in places.iter().zip(wanted).skip(from) {
        let (record, after) = rest.split_at(place.len as usize);
        if content(record, want).is_none() {
            shared.index().remove(&want.key);
            // The first is counted by whoever asked.
            shared.stats().bad += u64::from(place != first);
        }
        rest = after;
    }
}

/// A file ends before its records do. Whatever stands behind its end is forgotten at once, for the same reason.
fn forget_cut(shared: &Shared, segment: u32) {
    let name = name_of(segment);
    let files = shared.medium.list().unwrap_or_default();
    if let Some(file) = files.iter().find(|file| file.name == name) {
        shared.index().cut(segment, file.len);
    }
}

/// A file is not there. Which others are not is found out at once: blocks that seem to be here would never be written again.
fn forget_missing(shared: &Shared, segment: u32) {
    // Before the list, or one that is just being made would seem to be missing.
    let known = shared.index().numbers();
    let listed = shared.medium.list();
    let there: BTreeSet<u32> = match listed {
        Ok(files) => files.iter().filter_map(|file| number_of(&file.name)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
        Err(_) => known.iter().copied().filter(|number| *number != segment).collect(),
    };
    let mut index = shared.index();
    let (mut files, mut blocks) = (0u64, 0);
    for number in
        known.into_iter().filter(|number| !there.contains(number) && !index.is_going(*number)).collect::<Vec<_>>()
    {
        blocks += index.drop_segment(number);
        files += 1;
    }
    drop(index);
    if files > 0 {
        let folder = shared.folder.display();
        tracing::warn!(%folder, files, blocks, "files of the prefix cache have gone; their blocks are computed and written again");
    }
}

/// Makes a record one that is never good again, by a single small write into its content; the records behind it stay as they are.
pub(super) fn spoil(shared: &Shared, key: &BlockKey, place: Place) -> io::Result<()> {
    let mut record = vec![0; place.len as usize];
    let name = name_of(place.segment);
    match shared.medium.read(&name, u64::from(place.at), &mut record) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => return Ok(()),
        read => read?,
    }
    let head = format::read_record_head(&record).filter(|head| head.key == *key && head.content > 0);
    let Some(head) = head else { return Ok(()) };
    let at = head.content_at();
    shared.medium.write(&name, u64::from(place.at) + at as u64, &[!record[at]])
}
