//! Slots, and what a table with kept blocks still has.

use super::BlockTable;
use crate::{BlockId, Slot};

fn table() -> BlockTable {
    let mut table = BlockTable::starting_at(0, 2);
    table.push(BlockId(7));
    table.push(BlockId(3));
    table
}

#[test]
fn slot_is_block_times_size_plus_offset() {
    for (pos, slot) in [(8, 28), (11, 31), (12, 12), (15, 15)] {
        assert_eq!(table().slot(pos, 4), Slot(slot), "position {pos}");
    }
}

#[test]
#[should_panic(expected = "position 7 is in block 1, but the table holds 2..4")]
fn forgotten_position_panics() {
    table().slot(7, 4);
}

#[test]
#[should_panic(expected = "position 16 is in block 4, but the table holds 2..4")]
fn position_not_grown_panics() {
    table().slot(16, 4);
}

/// Blocks 0 and 1 kept, 2 to 4 forgotten, 5 and 6 live.
fn kept() -> BlockTable {
    let mut table = BlockTable::starting_at(2, 0);
    (0..7).for_each(|id| table.push(BlockId(id)));
    assert_eq!([table.forget(), table.forget(), table.forget()], [2, 3, 4].map(|id| Some(BlockId(id))));
    table
}

#[test]
fn kept_blocks_stand_before_the_gap() {
    let table = kept();
    assert_eq!((table.gap(), table.end(), table.kept(), table.forgotten()), (2..5, 7, 2, 3));
    let found: Vec<Option<u32>> = (0..8).map(|i| table.get(i).map(|id| id.0)).collect();
    assert_eq!(found, [Some(0), Some(1), None, None, None, Some(5), Some(6), None]);
    assert_eq!((table.slot(7, 4), table.slot(20, 4)), (Slot(7), Slot(20)));
}

#[test]
#[should_panic(expected = "position 9 is in block 2, but the table holds 0..2 and 5..7")]
fn a_position_in_the_gap_panics() {
    kept().slot(9, 4);
}

/// Cut behind the gap it stays; cut before it, it goes.
#[test]
fn cut_back() {
    for (blocks, popped, end, gap) in
        [(6, 1, 6, 2..5), (5, 2, 5, 2..5), (4, 2, 4, 2..4), (2, 2, 2, 2..2), (1, 3, 1, 2..2), (0, 4, 0, 2..2)]
    {
        let mut table = kept();
        let count = std::iter::from_fn(|| table.pop_beyond(blocks)).count();
        assert_eq!((count, table.end(), table.gap()), (popped, end, gap), "to {blocks}");
    }
}
