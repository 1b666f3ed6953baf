//! Names of blocks that are worth writing and are not written yet, in the order in which they were sealed: parents before children.

use std::collections::{HashSet, VecDeque};

use omlx_blocks::{BlockKey, GroupId};

/// Names that are remembered. Pools rarely have as many blocks.
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// In order; those that are not in `names` any more are passed over.
    order: VecDeque<(GroupId, BlockKey)>,
    names: HashSet<BlockKey>,
}

impl Backlog {
    /// `false`: there is no room for one more name.
    pub(super) fn push(&mut self, group: GroupId, key: BlockKey) -> bool {
        if self.names.contains(&key) {
            return true;
        }
        if self.order.len() >= MOST {
            self.order.retain(|(_, key)| self.names.contains(key));
        }
        if self.order.len() >= MOST {
            return false;
        }
        self.names.insert(key);
        self.order.push_back((group, key));
        true
    }

    /// The first name.
    pub(super) fn front(&mut self) -> Option<(GroupId, BlockKey)> {
        while let Some(&(group, key)) = self.order.front() {
            if self.names.contains(&key) {
                return Some((group, key));
            }
            self.order.pop_front();
        }
        None
    }

    /// Takes the first name off.
    pub(super) fn pop(&mut self) {
        if let Some((_, key)) = self.front() {
            self.names.remove(&key);
            self.order.pop_front();
        }
    }

    /// Whether it was here.
    pub(super) fn remove(&mut self, key: &BlockKey) -> bool {
        self.names.remove(key)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    //! Seen to fail: a removed name that is given out; a name that comes twice; a backlog full of removed names.

    use omlx_blocks::Salt;

    use super::*;

    fn key(i: usize) -> BlockKey {
        BlockKey::root(&Salt::of(&[("i", &i.to_le_bytes())]))
    }

    #[test]
    fn names_come_once_and_in_order() {
        let mut backlog = Backlog::default();
        let group = GroupId(0);
        for i in [1, 2, 3, 2, 4] {
            assert!(backlog.push(group, key(i)));
        }
        assert!(backlog.remove(&key(3)) && !backlog.remove(&key(3)));
        let mut found = Vec::new();
        while let Some((_, key)) = backlog.front() {
            found.push(key);
            backlog.pop();
        }
        assert_eq!(found, [key(1), key(2), key(4)]);
        assert!(backlog.push(group, key(3)), "it may come back");
        assert_eq!(backlog.front(), Some((group, key(3))));
    }

    #[test]
    fn it_is_bounded() {
        let mut backlog = Backlog::default();
        let taken = (0..MOST + 9).filter(|&i| backlog.push(GroupId(0), key(i))).count();
        assert_eq!((taken, backlog.len()), (MOST, MOST));
        (0..MOST).for_each(|i| assert!(backlog.remove(&key(i))));
        assert!(backlog.push(GroupId(0), key(MOST)), "removed names take no room");
        assert_eq!(backlog.order.len(), 1);
    }
}
