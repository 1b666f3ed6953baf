//! Positions, row starts, wanted places, tables and slots of two rows in two groups.

use omlx_blocks::{GroupId, GroupSize, Ledger, Reach, Salt, SeqId};

use super::*;

#[test]
fn two_rows_two_groups() {
    let sizes = [GroupSize { reach: Reach::All, blocks: 20 }, GroupSize { reach: Reach::Last(2), blocks: 20 }];
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    let (a, b) = (SeqId(1), SeqId(2));
    let tokens: Vec<u32> = (100..110).collect();
    ledger.open(a, &tokens, 0);
    ledger.open(b, &tokens[..3], 0);
    ledger.grow(a, 9).unwrap();
    ledger.seal(a, &tokens, 9);
    ledger.grow(a, 10).unwrap();
    ledger.grow(b, 3).unwrap();
    let tables = |seq| vec![ledger.table(seq, GroupId(0)), ledger.table(seq, GroupId(1))];
    let rows = [
        BatchRow { tokens: &tokens[9..], start: 9, logits: 1, tables: tables(a) },
        BatchRow { tokens: &tokens[..3], start: 0, logits: 0, tables: tables(b) },
    ];
    let batch = Batch::new(&rows, 2, 4);
    assert_eq!(batch.tokens, [109, 100, 101, 102]);
    assert_eq!(batch.positions, [9, 0, 1, 2]);
    assert_eq!(batch.starts, [0, 1, 4]);
    assert_eq!(batch.wanted, [0]);
    let (full, window) = (&batch.views[0], &batch.views[1]);
    assert_eq!((full.width, &full.forgotten[..], &full.lens[..]), (3, &[0, 0][..], &[10, 3][..]));
    // position 9 still sees 8, so only two blocks of four are forgotten
    assert_eq!((window.width, &window.forgotten[..]), (1, &[2, 0][..]));
    for view in &batch.views {
        for (row, pos) in [(0, 9), (1, 0), (1, 1), (1, 2)] {
            let token = (view.starts[row] + pos - batch.positions[view.starts[row] as usize]) as usize;
            assert_eq!(view.slots[token] as usize, view.slot(row, pos as usize, 4));
        }
    }
    let mut slots = full.slots.clone();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 4, "no two tokens share a slot");
}
