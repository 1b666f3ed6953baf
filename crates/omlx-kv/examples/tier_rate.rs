//! How fast blocks are written and restored, beside a plain sequential read of the same disk with a cold page cache.
//!
//! `cargo run -p omlx-kv --example tier_rate -- [MIB] [BLOCK KIB] [FOLDER]`: writes chains through a `Writer`, restores them through a
//! `Reader`, and reads a plain file of the same size in pieces of 4 MiB.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::DType;
use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, Label, Reader, Wanted, Writer};
use omlx_kv::{BlockBytes, BlockKey, Codec, GroupId, Salt};
use rustix::fs::{Advice, fadvise};

const TOKENS: usize = 64;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let total = args.next().map_or(Ok(1024), |n| n.parse::<usize>())? << 20;
    let len = args.next().map_or(Ok(1024), |n| n.parse::<usize>())? << 10;
    let base = args.next().map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(base)?;

    let plain = folder.path().join("plain");
    fs::create_dir(&plain)?;
    let begin = Instant::now();
    write_plain(&plain.join("file"), total)?;
    say("plain write and sync", total, begin);

    let cache = folder.path().join("cache");
    let (store, _) = DiskStore::open(&DiskConfig::new(&cache, 4 * total as u64))?;
    let store: Arc<dyn BlockStore> = Arc::new(store);
    let chain = chain(total / len, len);
    let begin = Instant::now();
    let writer = Writer::start(Arc::clone(&store), 64 << 20)?;
    for block in &chain {
        while writer.room() < len as u64 {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(writer.offer(block.clone()), "there was room");
    }
    assert!(writer.flush(Duration::from_secs(600)), "the disk hangs");
    say("written behind", total, begin);
    forget_pages(&cache)?;
    say("written behind, then synced", total, begin);

    let wanted: Vec<Wanted> =
        chain.iter().map(|b| Wanted { key: b.label.key, tokens: Arc::clone(&b.label.tokens), len }).collect();
    let mut buffer = vec![0; 4 << 20];
    for _ in 0..ROUNDS {
        forget_pages(&plain)?;
        let begin = Instant::now();
        let mut file = File::open(plain.join("file"))?;
        while file.read(&mut buffer)? > 0 {}
        say("plain sequential read", total, begin);
        for threads in [1, 2, 4] {
            let reader = Reader::start(Arc::clone(&store), threads)?;
            forget_pages(&cache)?;
            let begin = Instant::now();
            let mut fetch = reader.fetch(wanted.clone(), || {});
            let mut count = 0;
            while fetch.next().is_some() {
                count += 1;
            }
            assert_eq!(count, chain.len(), "all blocks came back: {:?}", fetch.cut());
            say(&format!("restored, {threads} in flight"), total, begin);
        }
    }
    Ok(())
}

fn say(what: &str, bytes: usize, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!("{what}: {seconds:.2} s, {:.0} MB/s", bytes as f64 / seconds / 1e6);
}

fn chain(blocks: usize, len: usize) -> Vec<Block> {
    let salt = Salt::of(&[("weights", b"simulated")]);
    let mut parent = BlockKey::root(&salt);
    let one = |i: usize| {
        let tokens: Arc<[u32]> = (0..TOKENS as u32).map(|t| i as u32 * 64 + t).collect();
        let key = parent.child(&tokens);
        let label = Label { salt, group: GroupId(0), key, parent, codec: Codec::Plain(DType::BF16), tokens };
        parent = key;
        Block { label, bytes: BlockBytes::new(noise(i as u64, len)), behind: false }
    };
    (0..blocks).map(one).collect()
}

/// Content that no disk can make smaller.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}

fn write_plain(path: &Path, total: usize) -> Result<(), Box<dyn Error>> {
    let mut file = File::create(path)?;
    for i in 0..total / (4 << 20) {
        file.write_all(&noise(i as u64, 4 << 20))?;
    }
    Ok(file.sync_all()?)
}

/// Drops the files of a folder from the page cache, once they are on the disk.
fn forget_pages(folder: &Path) -> Result<(), Box<dyn Error>> {
    for file in fs::read_dir(folder)? {
        let file = File::open(file?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
