//! What is taken back from the writer, and whoever waits for it to get on.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, Medium, MediumFile, Writer};

use crate::gate::Gate;
use crate::sample::{chain, get, keys};

const LONG: Duration = Duration::from_secs(20);
/// Of blocks as long as this, each is a batch of its own.
const BATCH: usize = 3 << 20;

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

/// A writer whose store has the first of `blocks` in its hands and does not get on.
fn stuck(blocks: &[Block]) -> (Arc<Gate>, Writer) {
    let gate = Gate::closed();
    let writer = Writer::start(Arc::clone(&gate) as Arc<dyn BlockStore>, 1 << 30).unwrap();
    assert!(writer.offer(blocks[0].clone()));
    gate.wait_for(1);
    blocks[1..].iter().for_each(|block| assert!(writer.offer(block.clone())));
    (gate, writer)
}

fn opened(gate: &Gate, writer: &Writer) {
    gate.allow(usize::MAX / 2);
    assert!(writer.flush(LONG));
}

#[test]
fn what_waits_is_taken_out_of_the_queue_and_gives_its_room_back() {
    let blocks = chain(0, 1, 6, 2_000);
    let (gate, writer) = stuck(&blocks);
    let before = writer.stats();
    writer.withdraw(&keys(&blocks[3..5]));
    let after = writer.stats();
    assert_eq!((before.waiting - after.waiting, after.withdrawn), (2, 2));
    let cost = before.waiting_bytes / 6;
    assert_eq!(before.waiting_bytes - after.waiting_bytes, 2 * cost);
    opened(&gate, &writer);
    let there: Vec<bool> = blocks.iter().map(|block| gate.contains(&block.label.key)).collect();
    assert_eq!(there, [true, true, true, false, false, true]);
    let stats = writer.stats();
    assert_eq!((stats.put, stats.withdrawn, stats.waiting, stats.waiting_bytes), (4, 2, 0, 0));
}

#[test]
fn what_the_store_has_in_its_hands_is_forgotten_when_it_is_done() {
    let blocks = chain(0, 1, 3, 2_000);
    let (gate, writer) = stuck(&blocks);
    writer.withdraw(&keys(&blocks[..1]));
    opened(&gate, &writer);
    assert_eq!((gate.stats().written, gate.leading(&keys(&blocks))), (3, 0));
    assert_eq!(get(&*gate, &blocks[1..]), 2, "and nothing else is");
}

/// A name that was taken back may be computed again, and rightly; that one is kept.
#[test]
fn a_name_that_was_taken_back_may_be_offered_again() {
    let blocks = chain(0, 1, 3, 2_000);
    let (gate, writer) = stuck(&blocks);
    writer.withdraw(&keys(&blocks));
    assert_eq!(writer.stats().waiting, 1, "what is in the store's hands still waits");
    blocks.iter().for_each(|block| assert!(writer.offer(block.clone())));
    opened(&gate, &writer);
    assert_eq!(get(&*gate, &blocks), 3);
    // The next batch is nobody's business any more: what was taken back once is not for ever.
    gate.forget(&keys(&blocks));
    blocks.iter().for_each(|block| assert!(writer.offer(block.clone())));
    assert!(writer.flush(LONG));
    assert_eq!(get(&*gate, &blocks), 3);
}

#[test]
fn names_that_nobody_offered_are_taken_back_without_a_word() {
    let blocks = chain(0, 1, 3, 2_000);
    let (gate, writer) = stuck(&blocks);
    writer.withdraw(&keys(&chain(0, 2, 3, 2_000)));
    opened(&gate, &writer);
    assert_eq!((writer.stats().withdrawn, get(&*gate, &blocks)), (0, 3));
    writer.withdraw(&keys(&blocks));
    assert_eq!((writer.stats().withdrawn, get(&*gate, &blocks)), (0, 3), "the store forgets, not the writer");
}

/// It is told of each batch, of the last one too, and never where nothing can come.
#[test]
fn progress_is_one_batch() {
    let blocks = chain(0, 1, 3, BATCH);
    let (gate, writer) = stuck(&blocks);
    let begin = Instant::now();
    assert!(!writer.wait_for_progress(soon()), "the store does not get on");
    assert!(begin.elapsed() >= Duration::from_millis(50), "it gave up before its time");
    for left in (0..3).rev() {
        gate.allow(1);
        // It may have gone on before anybody waited, and then the next batch is in hand.
        let waited = writer.wait_for_progress(soon());
        assert!(waited || writer.stats().waiting == left, "{:?}", writer.stats());
        assert_eq!(writer.stats().waiting, left);
    }
    let begin = Instant::now();
    assert!(!writer.wait_for_progress(Instant::now() + LONG), "nothing waits");
    assert!(begin.elapsed() < LONG / 2);
}

#[test]
fn whoever_waits_for_progress_is_woken_by_it() {
    let blocks = chain(0, 1, 2, BATCH);
    for what in ["a batch", "everything taken back"] {
        let (gate, writer) = stuck(&blocks);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| writer.wait_for_progress(Instant::now() + LONG));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            match what {
                "a batch" => gate.allow(1),
                _ => writer.withdraw(&keys(&blocks[1..])),
            }
            assert!(waits.join().unwrap(), "{what}");
        });
        opened(&gate, &writer);
    }
}

/// A folder where blocks are forgotten in the moment in which the segment is removed that they are in.
#[derive(Debug)]
struct Forgetting {
    path: PathBuf,
    folder: Arc<dyn Medium>,
    store: OnceLock<Arc<DiskStore>>,
    blocks: Vec<Block>,
    done: AtomicBool,
}

impl Medium for Forgetting {
    fn remove(&self, name: &str) -> io::Result<()> {
        let bytes = std::fs::read(self.path.join(name))?;
        let key = self.blocks[0].label.key;
        if let Some(store) = self.store.get()
            && bytes.windows(32).any(|part| part == key.as_bytes())
        {
            store.forget(&keys(&self.blocks));
            self.done.store(true, Ordering::SeqCst);
        }
        self.folder.remove(name)
    }

    fn list(&self) -> io::Result<Vec<MediumFile>> {
        self.folder.list()
    }
    fn create(&self, name: &str) -> io::Result<()> {
        self.folder.create(name)
    }
    fn write(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.folder.write(name, at, bytes)
    }
    fn read(&self, name: &str, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.folder.read(name, at, bytes)
    }
    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        self.folder.cut(name, len)
    }
    fn sync(&self, name: &str) -> io::Result<()> {
        self.folder.sync(name)
    }
    fn set_modified(&self, name: &str, to: SystemTime) -> io::Result<()> {
        self.folder.set_modified(name, to)
    }
}

/// Blocks in use are carried from a segment that goes into the newest, and are in neither for a moment. What is forgotten in that
/// moment stays forgotten, now and after a start that walks the records. Seen to fail: before the log looked again.
#[test]
fn what_is_forgotten_while_it_is_carried_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let config = DiskConfig::new(folder.path(), 1 << 20);
    let (used, unused) = (chain(0, 1, 4, 450), chain(0, 2, 26, 900));
    let forgetting = Arc::new(Forgetting {
        path: folder.path().to_owned(),
        folder: DiskStore::plain(folder.path()),
        store: OnceLock::new(),
        blocks: used[1..].to_vec(),
        done: AtomicBool::new(false),
    });
    let (store, _) = DiskStore::over(&config, Arc::clone(&forgetting) as Arc<dyn Medium>).unwrap();
    let store = Arc::new(store);
    store.put(&[used.clone(), unused.clone()].concat()).unwrap(); // one segment
    let feed = |stem: u32| {
        store.put(&chain(0, stem, 26, 1_000)).unwrap();
        store.touch(&keys(&used));
    };
    (10..60).for_each(feed);
    assert_eq!((get(&*store, &used), store.leading(&keys(&unused))), (4, 0), "carried out of a segment that went");
    forgetting.store.set(Arc::clone(&store)).unwrap();
    (60..140).take_while(|_| !forgetting.done.load(Ordering::SeqCst)).for_each(feed);
    assert!(forgetting.done.load(Ordering::SeqCst));
    assert_eq!(get(&*store, &used), 1, "only the one that nobody forgot");
    // The segment that it was carried into gets no list: the next start sees every record.
    drop(forgetting);
    std::mem::forget(store);
    let (store, _) = DiskStore::over(&config, DiskStore::plain(folder.path())).unwrap();
    assert_eq!(get(&store, &used), 1);
}
