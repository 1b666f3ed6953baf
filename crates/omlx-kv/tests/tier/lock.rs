//! Whose folder it is: files that are not ours, and a folder that is made anew under its holder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use omlx_kv::tier::{BlockStore, DiskConfig, DiskStore};

use crate::sample::{chain, get};

const BUDGET: u64 = 1 << 20;

fn open(folder: &Path) -> omlx_kv::Result<DiskStore> {
    let config = DiskConfig { retry: Duration::from_millis(1), ..DiskConfig::new(folder, BUDGET) };
    DiskStore::open(&config).map(|(store, _)| store)
}

fn bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// Seen to fail: a stranger's file emptied and written to, itself and through a link.
#[test]
fn a_file_of_somebody_else_is_not_taken_for_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, precious) = (folder.path().join("cache"), folder.path().join("precious"));
    fs::create_dir(&cache).unwrap();
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, cache.join("lock")).unwrap();
    let error = open(&cache).unwrap_err().to_string();
    assert!(error.contains("no plain file"), "{error}");
    fs::remove_file(cache.join("lock")).unwrap();
    fs::copy(&precious, cache.join("lock")).unwrap();
    let error = open(&cache).unwrap_err().to_string();
    assert!(error.contains("not ours"), "{error}");
    for file in [&precious, &cache.join("lock")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    }
    // One that a killed process left, and an empty one of a full disk.
    for words in ["process 1\n", ""] {
        fs::write(cache.join("lock"), words).unwrap();
        drop(open(&cache).unwrap());
    }
}

/// The lock goes with its file. Seen to fail: both wrote, each up to the whole budget.
#[test]
fn a_folder_that_is_made_anew_belongs_to_who_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let first = open(&cache).unwrap();
    first.put(&chain(0, 1, 100, 1_000)).unwrap();
    fs::remove_dir_all(&cache).unwrap();
    let second = open(&cache).unwrap();
    for stem in 10..60 {
        let refused = first.put(&chain(0, stem, 20, 1_000)).is_err();
        assert!(refused || first.stats().writing_off, "round {stem}");
        second.put(&chain(0, 100 + stem, 20, 1_000)).unwrap();
    }
    let there = bytes(&cache);
    assert!(there <= BUDGET && there > BUDGET / 2, "{there}");
    assert_eq!(get(&first, &chain(0, 1, 1, 1_000)), 0);
    // The second leaves: what it wrote is the first one's now, to use and to remove.
    let kept = chain(0, 159, 20, 1_000);
    assert_eq!(get(&second, &kept), 20);
    drop(second);
    let mine = chain(0, 200, 20, 1_000);
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(2));
        if first.put(&mine).is_ok() && get(&first, &mine) == 20 {
            break;
        }
    }
    assert_eq!((get(&first, &mine), get(&first, &kept)), (20, 20));
    for stem in 300..360 {
        first.put(&chain(0, stem, 20, 1_000)).unwrap();
        let there = bytes(&cache);
        assert!(there <= BUDGET, "{there}");
    }
    assert!(open(&cache).is_err(), "it is held again");
}
