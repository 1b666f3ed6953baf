//! All places together: which is asked first, chains that lie in several, and what each of them is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use omlx_kv::tier::faults::{Faults, FaultyStore};
use omlx_kv::tier::{Block, BlockStore, Lies, RamStore, Tiers, TiersConfig};

use crate::gate::Gate;
use crate::sample::{chain, keys, wanted};

const LONG: Duration = Duration::from_secs(20);
const RAM: u64 = 1 << 30;

/// Memory over something that plays the disk.
fn tiers(ram_bytes: u64) -> (Tiers, Arc<RamStore>, Arc<Faults>) {
    let (disk, faults) = (Arc::new(RamStore::new(1 << 30)), Arc::new(Faults::default()));
    let faulty = FaultyStore::new(Arc::clone(&disk) as Arc<dyn BlockStore>, Arc::clone(&faults));
    (Tiers::over(&TiersConfig::new(ram_bytes), Some(Arc::new(faulty))).unwrap(), disk, faults)
}

/// Fetches a chain, checks every byte that comes, and answers how many blocks came, and what cut it.
fn fetch(tiers: &Tiers, chain: &[Block]) -> (usize, Option<String>) {
    let mut fetch = tiers.fetch(wanted(chain), || {});
    let mut count = 0;
    while let Some(bytes) = fetch.next() {
        assert!(bytes == chain[count].bytes, "block {count} came back as something else");
        count += 1;
    }
    (count, fetch.cut())
}

#[test]
fn memory_is_asked_before_the_disk_whatever_the_disk_has() {
    let (tiers, disk, _) = tiers(RAM);
    let chain = chain(0, 1, 4, 1_000);
    tiers.stash(&chain[..2]);
    disk.put(&chain[1..3]).unwrap();
    let lies: Vec<_> = chain.iter().map(|block| tiers.find(&block.label.key)).collect();
    assert_eq!(lies, [Some(Lies::Ram), Some(Lies::Ram), Some(Lies::Disk), None]);
    let there = |key| (tiers.in_ram(key), tiers.on_disk(key));
    let there: Vec<_> = chain.iter().map(|block| there(&block.label.key)).collect();
    assert_eq!(there, [(true, false), (true, true), (false, true), (false, false)]);
    assert_eq!(fetch(&tiers, &chain[..3]), (3, None));
    let stats = tiers.stats();
    assert_eq!((stats.ram.unwrap().hits, stats.disk.unwrap().hits), (2, 1));
}

/// Every way in which five blocks can lie in two places: what comes is what there is up to the first that is nowhere.
#[test]
fn a_chain_may_lie_in_both_places_block_by_block() {
    let chain = chain(0, 1, 5, 1_000);
    for mix in 0..4_usize.pow(5) {
        let (tiers, disk, _) = tiers(RAM);
        let lies: Vec<usize> = (0..5).map(|i| mix / 4_usize.pow(i) % 4).collect();
        for (block, lies) in chain.iter().zip(&lies) {
            if lies & 1 > 0 {
                tiers.stash(std::slice::from_ref(block));
            }
            if lies & 2 > 0 {
                disk.put(std::slice::from_ref(block)).unwrap();
            }
        }
        let expected = lies.iter().take_while(|lies| **lies > 0).count();
        let (count, cut) = fetch(&tiers, &chain);
        assert_eq!((count, cut.is_some()), (expected, expected < 5), "{lies:?}: {cut:?}");
    }
}

/// Memory may give a block up after somebody has seen it there: the disk is asked then, and the chain goes on.
#[test]
fn what_memory_gives_up_on_the_way_comes_from_the_disk() {
    let (tiers, disk, _) = tiers(RAM);
    let chain = chain(0, 1, 40, 1_000);
    disk.put(&chain).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                tiers.stash(&chain);
                tiers.shrink(2);
                tiers.shrink(0);
            }
        });
        let begin = Instant::now();
        let (mut fetches, mut cuts) = (0, Vec::new());
        while begin.elapsed() < Duration::from_millis(400) || fetches < 100 {
            let (count, cut) = fetch(&tiers, &chain);
            fetches += 1;
            if count < 40 {
                cuts.push((count, cut));
            }
        }
        over.store(true, SeqCst);
        assert!(cuts.is_empty(), "{} of {fetches} fetches were cut: {:?}", cuts.len(), cuts[0]);
    });
    let stats = tiers.stats();
    assert!(stats.ram.unwrap().hits > 0 && stats.disk.unwrap().hits > 0, "{stats:?}");
}

#[test]
fn a_disk_that_breaks_costs_what_only_the_disk_has() {
    let (tiers, disk, faults) = tiers(RAM);
    let chain = chain(0, 1, 6, 1_000);
    tiers.stash(&chain[..2]);
    tiers.stash(&chain[4..]);
    disk.put(&chain).unwrap();
    faults.read.store(5, SeqCst);
    let (count, cut) = fetch(&tiers, &chain);
    assert!(count == 2 && cut.as_ref().is_some_and(|cut| cut.contains("Failed")), "{count}, {cut:?}");
    faults.read.store(0, SeqCst);
    assert_eq!(fetch(&tiers, &chain), (6, None));
}

/// A use counts in both places: what is read from memory must not grow old on the disk.
#[test]
fn a_touch_reaches_every_place() {
    let cost = {
        let one = RamStore::new(1 << 30);
        one.put(&chain(0, 0, 1, 1_000)).unwrap();
        one.stats().bytes
    };
    let disk = Arc::new(RamStore::new(4 * cost));
    let place = Arc::clone(&disk) as Arc<dyn BlockStore>;
    let tiers = Tiers::over(&TiersConfig::new(4 * cost), Some(place)).unwrap();
    let [old, used, new] = [1, 2, 3].map(|stem| chain(0, stem, 2, 1_000));
    for chain in [&used, &old] {
        tiers.stash(chain);
        disk.put(chain).unwrap();
    }
    tiers.touch(&keys(&used));
    tiers.stash(&new);
    disk.put(&new).unwrap();
    for chain in [&used, &new] {
        assert!(chain.iter().all(|block| tiers.in_ram(&block.label.key) && tiers.on_disk(&block.label.key)));
    }
    assert!(old.iter().all(|block| tiers.find(&block.label.key).is_none()));
}

/// Wherever a name is: in memory, on disk, in the queue, in the writer's hands.
#[test]
fn what_is_forgotten_is_nowhere() {
    let gate = Gate::closed();
    let place = Arc::clone(&gate) as Arc<dyn BlockStore>;
    let tiers = Tiers::over(&TiersConfig::new(RAM), Some(place)).unwrap();
    let [bad, good] = [1, 2].map(|stem| chain(0, stem, 4, 1_000));
    assert!(tiers.write(bad[0].clone()));
    gate.wait_for(1);
    for block in bad[1..].iter().chain(&good) {
        assert!(tiers.write(block.clone()));
    }
    tiers.stash(&[&bad[..], &good].concat());
    tiers.forget(&keys(&bad));
    gate.allow(usize::MAX / 2);
    assert!(tiers.flush(LONG));
    assert!(bad.iter().all(|block| tiers.find(&block.label.key).is_none()), "{:?}", tiers.stats());
    assert!(good.iter().all(|block| tiers.in_ram(&block.label.key) && tiers.on_disk(&block.label.key)));
    assert_eq!(fetch(&tiers, &bad), (0, Some("Missing".to_owned())));
    tiers.forget(&keys(&good));
    assert!(good.iter().all(|block| tiers.find(&block.label.key).is_none()));
}

#[test]
fn places_that_are_not_there_take_nothing() {
    let chain = chain(0, 1, 3, 1_000);
    let only_ram = Tiers::over(&TiersConfig::new(RAM), None).unwrap();
    assert!(only_ram.has_ram() && !only_ram.has_disk());
    assert!(!only_ram.write(chain[0].clone()) && only_ram.room() == 0);
    assert!(only_ram.flush(Duration::ZERO) && !only_ram.wait_for_room(Instant::now() + LONG));
    only_ram.stash(&chain);
    assert_eq!(fetch(&only_ram, &chain), (3, None));
    only_ram.forget(&keys(&chain));
    assert_eq!(fetch(&only_ram, &chain).0, 0);

    let (only_disk, disk, _) = tiers(0);
    assert!(!only_disk.has_ram() && only_disk.has_disk());
    only_disk.stash(&chain);
    assert_eq!((only_disk.shrink(0), only_disk.find(&chain[0].label.key)), (0, None));
    assert!(only_disk.write(chain[0].clone()) && only_disk.flush(LONG));
    assert!(disk.contains(&chain[0].label.key));
    assert!(only_disk.stats().ram.is_none() && only_ram.stats().disk.is_none());
}

/// However many engines say that memory is short: half of it goes for one reading, not half of half.
#[test]
fn memory_is_given_up_once_a_reading() {
    let (tiers, ..) = tiers(RAM);
    tiers.stash(&chain(0, 1, 16, 1_000));
    let bytes = || tiers.stats().ram.unwrap().bytes;
    let before = bytes();
    assert_eq!(tiers.relieve(7, false), before / 2);
    assert_eq!((tiers.relieve(7, false), tiers.relieve(7, true), bytes()), (0, 0, before / 2));
    assert_eq!(tiers.relieve(8, false), before / 4);
    assert_eq!((tiers.relieve(9, true), bytes()), (before / 4, 0));
    assert_eq!(tiers.relieve(10, true), 0, "nothing is left");
    // The budget is what it was.
    tiers.stash(&chain(0, 2, 16, 1_000));
    assert_eq!(bytes(), before);
    tiers.set_ram_budget(before / 2);
    assert_eq!(bytes(), before / 2);
    tiers.stash(&chain(0, 3, 16, 1_000));
    assert_eq!(bytes(), before / 2, "from now on");
}

#[test]
fn at_the_end_of_the_process_memory_is_closed() {
    let (tiers, disk, _) = tiers(RAM);
    let chain = chain(0, 1, 4, 1_000);
    tiers.stash(&chain);
    disk.put(&chain).unwrap();
    tiers.close_ram();
    assert!(!tiers.has_ram());
    assert_eq!((tiers.stats().ram.unwrap().bytes, tiers.find(&chain[0].label.key)), (0, Some(Lies::Disk)));
}

/// What was seen of a disk is what is believed of it; but a slow spell is not believed for ever.
#[test]
fn a_slow_disk_is_estimated_as_slow_and_forgiven() {
    let (tiers, disk, faults) = tiers(RAM);
    let chain = chain(0, 1, 4, 1_000);
    disk.put(&chain).unwrap();
    let bytes = 1 << 20;
    let (ram, prior) = (tiers.estimate(bytes, 0), tiers.estimate(0, bytes));
    assert!(ram < prior && tiers.estimate(bytes, bytes) > prior && tiers.estimate(0, 0) == Duration::ZERO);
    faults.slow_micros.store(300_000, SeqCst);
    assert_eq!(fetch(&tiers, &chain), (4, None));
    let slow = tiers.estimate(0, bytes);
    assert!(slow > prior * 2, "{prior:?} before, {slow:?} after");
    assert_eq!(tiers.estimate(bytes, 0), ram, "memory has nothing to do with it");
    (0..60).for_each(|_| tiers.declined());
    assert!(tiers.estimate(0, bytes) < prior * 2);
    assert_eq!(tiers.stats().declined, 60);
}

#[test]
fn what_came_back_and_what_was_lost_is_counted() {
    let (tiers, ..) = tiers(RAM);
    tiers.restored(1_000);
    tiers.restored(24);
    tiers.unwritten(3);
    tiers.unwritten(0);
    let stats = tiers.stats();
    assert_eq!((stats.restored, stats.restored_bytes, stats.unwritten, stats.declined), (2, 1_024, 3, 0));
}
