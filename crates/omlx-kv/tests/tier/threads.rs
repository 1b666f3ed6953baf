//! The writer and the reader: counts that add up, order, cuts, cancelling, and nobody who waits.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use omlx_kv::tier::faults::{Faults, FaultyStore};
use omlx_kv::tier::{Block, BlockStore, Next, RamStore, Reader, Writer};

use crate::sample::{chain, get, keys, wanted};

const LONG: Duration = Duration::from_secs(20);

fn faulty() -> (Arc<dyn BlockStore>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    (Arc::new(FaultyStore::new(Arc::new(RamStore::new(1 << 30)), Arc::clone(&faults))), faults)
}

fn take(fetch: &mut omlx_kv::tier::Fetch, chain: &[Block]) -> usize {
    let mut count = 0;
    while let Some(bytes) = fetch.next() {
        assert!(bytes == chain[count].bytes, "block {count} came as another");
        count += 1;
    }
    count
}

/// Seen to fail: skipping without counting.
#[test]
fn offers_never_wait_and_every_block_is_counted() {
    let (store, faults) = faulty();
    faults.slow_micros.store(20_000, SeqCst);
    let writer = Writer::start(Arc::clone(&store), 64 << 10).unwrap();
    let blocks: Vec<Block> = (0..40).flat_map(|stem| chain(0, stem, 10, 2_000)).collect();
    let begin = Instant::now();
    let (mut queued, mut most) = (0, 0);
    for block in &blocks {
        queued += u64::from(writer.offer(block.clone()));
        most = most.max(writer.stats().waiting_bytes);
    }
    assert!(begin.elapsed() < Duration::from_millis(500), "offering took {:?}", begin.elapsed());
    assert!(most <= 64 << 10, "{most} bytes waited");
    assert!(writer.flush(LONG));
    let stats = writer.stats();
    assert_eq!((stats.put, stats.waiting, stats.waiting_bytes), (queued, 0, 0));
    assert_eq!(stats.put + stats.skipped, blocks.len() as u64);
    assert!(stats.skipped > 0 && stats.put > 0, "{stats:?}");
    assert_eq!(store.stats().written, queued);
}

#[test]
fn whoever_asks_for_room_first_skips_nothing() {
    let (store, faults) = faulty();
    faults.slow_micros.store(1_000, SeqCst);
    let writer = Writer::start(Arc::clone(&store), 32 << 10).unwrap();
    let long = chain(0, 1, 100, 2_000);
    for block in &long {
        while writer.room() < block.bytes.len() as u64 {
            std::thread::sleep(Duration::from_micros(200)); // an engine would run its next step
        }
        assert!(writer.offer(block.clone()));
    }
    assert!(writer.flush(LONG));
    assert_eq!((writer.stats().skipped, get(&*store, &long)), (0, 100));
}

#[test]
fn a_store_that_fails_costs_the_blocks_in_hand_and_is_tried_again() {
    let (store, faults) = faulty();
    let writer = Writer::start(Arc::clone(&store), 1 << 20).unwrap();
    faults.write.store(28, SeqCst);
    for block in chain(0, 1, 5, 100) {
        writer.offer(block);
    }
    assert!(writer.flush(LONG));
    assert_eq!(writer.stats().failed, 5);
    faults.write.store(0, SeqCst);
    for block in chain(0, 2, 5, 100) {
        writer.offer(block);
    }
    assert!(writer.flush(LONG));
    assert_eq!((writer.stats().put, get(&*store, &chain(0, 2, 5, 100))), (5, 5));
}

/// Seen to fail: an end that waits for the whole queue on a disk that hangs.
#[test]
fn dropping_a_writer_waits_for_one_batch_only() {
    let (store, faults) = faulty();
    faults.slow_micros.store(300_000, SeqCst);
    let writer = Writer::start(store, 64 << 20).unwrap();
    for stem in 0..8 {
        for block in chain(0, stem, 2, 1 << 20) {
            assert!(writer.offer(block));
        }
    }
    assert!(!writer.flush(Duration::from_millis(1)));
    let begin = Instant::now();
    drop(writer);
    assert!(begin.elapsed() < Duration::from_millis(900), "it took {:?}", begin.elapsed());
}

/// Seen to fail: pieces handed over in the order they were read.
#[test]
fn a_chain_comes_in_order_with_several_reads_in_flight() {
    let (store, faults) = faulty();
    let long = chain(0, 1, 60, 300_000); // five pieces
    store.put(&long).unwrap();
    faults.slow_micros.store(100_000, SeqCst);
    let reader = Reader::start(store, 4).unwrap();
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    let begin = Instant::now();
    let mut fetch = reader.fetch(wanted(&long), move || {
        count.fetch_add(1, SeqCst);
    });
    assert_eq!(take(&mut fetch, &long), 60);
    assert!(begin.elapsed() < Duration::from_millis(480), "one after the other: {:?}", begin.elapsed());
    assert!(fetch.cut().is_none() && woken.load(SeqCst) >= 4);
}

/// Seen to fail: an end that is told after its last piece, so that a piece behind it is handed over.
#[test]
fn a_chain_ends_at_the_first_missing_block() {
    let (store, _) = faulty();
    let long = chain(0, 1, 60, 300_000);
    for missing in [0, 1, 13, 14, 40, 59] {
        store.put(&long).unwrap();
        store.forget(&[long[missing].label.key]);
        let reader = Reader::start(Arc::clone(&store), 3).unwrap();
        let mut fetch = reader.fetch(wanted(&long), || {});
        assert_eq!(take(&mut fetch, &long), missing);
        assert!(fetch.cut().unwrap().contains("Missing"));
        assert!(matches!(fetch.try_next(), Next::End), "the end stays the end");
    }
}

#[test]
fn a_disk_that_breaks_on_the_way_ends_the_chain() {
    let (store, faults) = faulty();
    let long = chain(0, 1, 60, 300_000);
    store.put(&long).unwrap();
    let reader = Reader::start(store, 1).unwrap();
    faults.slow_micros.store(20_000, SeqCst);
    let mut fetch = reader.fetch(wanted(&long), || {});
    assert!(fetch.next().is_some());
    faults.read.store(5, SeqCst);
    assert!(take(&mut fetch, &long[1..]) < 59);
    assert!(fetch.cut().unwrap().contains("Failed"));
}

/// Seen to fail: a fetch that reads on without anybody taking.
#[test]
fn what_nobody_takes_is_not_read_and_what_is_cancelled_stops() {
    let (store, _) = faulty();
    let long = chain(0, 1, 30, 4 << 20); // thirty pieces
    store.put(&long).unwrap();
    let reader = Reader::start(Arc::clone(&store), 2).unwrap();
    let fetch = reader.fetch(wanted(&long), || {});
    std::thread::sleep(Duration::from_millis(200));
    let read = store.stats().hits;
    assert!((1..=8).contains(&read), "{read} blocks were read ahead");
    drop(fetch);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(store.stats().hits, read);
    let mut fetch = reader.fetch(wanted(&long), || {});
    assert_eq!(take(&mut fetch, &long), 30);
}

#[test]
fn a_short_fetch_does_not_wait_for_a_long_one() {
    let (store, faults) = faulty();
    let (long, short) = (chain(0, 1, 60, 1 << 20), chain(0, 2, 3, 100));
    store.put(&long).unwrap();
    store.put(&short).unwrap();
    faults.slow_micros.store(30_000, SeqCst);
    let reader = Reader::start(store, 1).unwrap();
    let mut slow = reader.fetch(wanted(&long), || {});
    let begin = Instant::now();
    assert_eq!(take(&mut reader.fetch(wanted(&short), || {}), &short), 3);
    assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    assert_eq!(take(&mut slow, &long), 60);
}

#[test]
fn nothing_asked_for_ends_at_once_and_a_reader_that_goes_ends_its_fetches() {
    let (store, _) = faulty();
    let reader = Reader::start(Arc::clone(&store), 1).unwrap();
    assert!(matches!(reader.fetch(Vec::new(), || {}).try_next(), Next::End));
    let long = chain(0, 1, 30, 4 << 20);
    store.put(&long).unwrap();
    let mut fetch = reader.fetch(wanted(&long), || {});
    drop(reader);
    assert!(take(&mut fetch, &long) < 30);
    assert_eq!(store.leading(&keys(&long)), 30);
}
