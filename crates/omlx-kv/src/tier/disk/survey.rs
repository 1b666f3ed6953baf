//! Looking over a folder: whose blocks are there, and whether all of them are good.

use std::collections::{BTreeMap, HashSet};

use omlx_blocks::Salt;

use super::open::Found;
use super::{DiskStore, Shared, format, log};

/// Whose blocks a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Blocks by the salt that they were written under: by model and settings. Counted as written, forgotten ones too.
    pub by_salt: BTreeMap<Salt, Found>,
    /// Segments that this version cannot read.
    pub unreadable: Found,
}

impl Census {
    /// Blocks that none of these salts can use: of other models, or of other settings.
    pub fn strangers(&self, salts: &HashSet<Salt>) -> Found {
        let others = self.by_salt.iter().filter(|(salt, _)| !salts.contains(salt));
        others.fold(Found::default(), |sum, (_, found)| Found {
            count: sum.count + found.count,
            bytes: sum.bytes + found.bytes,
        })
    }
}

/// What a look at every block has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whole blocks.
    pub good: Found,
    /// Damaged ones, or ones that cannot be read. The store does not find them any more; their files stay as they are.
    pub bad: Found,
}

/// Whose blocks are in the folder. Reads nothing.
pub(super) fn census(shared: &Shared) -> Census {
    let mut census = Census::default();
    for segment in shared.index().segments.values() {
        if segment.foreign {
            census.unreadable.count += 1;
            census.unreadable.bytes += segment.len;
        }
        for (salt, (blocks, bytes)) in &segment.salts {
            let found = census.by_salt.entry(*salt).or_default();
            found.count += blocks;
            found.bytes += bytes;
        }
    }
    census
}

impl DiskStore {
    /// Reads every block; those that are damaged are not found any more. Takes as long as the disk needs for all of it.
    pub fn verify(&self) -> Verified {
        let mut verified = Verified::default();
        let all = self.shared.index().all(); // not in the loop's head, which would hold the lock throughout
        for (key, place) in all {
            let mut bytes = vec![0; place.len as usize];
            let read = self.shared.medium.read(&log::name_of(place.segment), u64::from(place.at), &mut bytes);
            if self.shared.index().place(&key) != Some(place) {
                continue; // given up, or written again elsewhere, since
            }
            let head = read.ok().and_then(|()| format::read_record_head(&bytes));
            let good = head.is_some_and(|head| {
                super::index::Short::of(&head.key) == key && format::content_is_good(&bytes, &head)
            });
            let found = if good { &mut verified.good } else { &mut verified.bad };
            found.count += 1;
            found.bytes += u64::from(place.len);
            if !good {
                self.shared.index().remove_short(&key);
                self.shared.stats().bad += 1;
            }
        }
        verified
    }
}
