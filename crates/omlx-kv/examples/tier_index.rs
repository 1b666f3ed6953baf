//! How long a folder of very many blocks takes to open, and a long chain to look up.
//!
//! `cargo run -p omlx-kv --example tier_index -- [BLOCKS] [CONTENT BYTES]`: fills a temporary folder with blocks of next to no
//! content, a million if nothing else is said, opens it with a cold page cache, and looks up a chain of 1,000.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use candle_core::DType;
use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, Label};
use omlx_kv::{BlockBytes, BlockKey, Codec, GroupId, Salt};
use rustix::fs::{Advice, fadvise};

const CHAIN: usize = 1000;
const TOKENS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let blocks: usize = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let content: usize = args.next().map_or(Ok(16), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let config = DiskConfig::new(folder.path(), 2 * (blocks * (content + 700)) as u64 + (1 << 20));

    let (store, _) = DiskStore::open(&config)?;
    let begin = Instant::now();
    let mut sample = Vec::new();
    for stem in 0..blocks.div_ceil(CHAIN) {
        let chain = chain(stem as u32, content);
        store.put(&chain)?;
        if stem == blocks / CHAIN / 2 {
            sample = chain.iter().map(|block| block.label.key).collect();
        }
    }
    println!("written: {} blocks in {:.2} s", store.stats().blocks, begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    drop(store);
    println!("closed: {:.3} s", begin.elapsed().as_secs_f64());

    for cold in [true, false] {
        let files = if cold { forget_pages(folder.path())? } else { 0 };
        let begin = Instant::now();
        let (store, opened) = DiskStore::open(&config)?;
        let start = begin.elapsed();
        let begin = Instant::now();
        let found = store.leading(&sample);
        let first = begin.elapsed();
        let begin = Instant::now();
        for _ in 0..100 {
            assert_eq!(store.leading(&sample), found, "asking changes nothing");
        }
        let lookup = begin.elapsed() / 100;
        let begin = Instant::now();
        store.touch(&sample);
        let touch = begin.elapsed();
        println!(
            "{}: start {:.3} s ({opened}; {files} files); chain of {found}: first {first:?}, then {lookup:?}; touched in {touch:?}",
            if cold { "cold" } else { "warm" },
            start.as_secs_f64()
        );
    }
    Ok(())
}

fn chain(stem: u32, content: usize) -> Vec<Block> {
    let salt = Salt::of(&[("weights", b"simulated")]);
    let bytes = BlockBytes::new(vec![stem as u8; content]);
    let mut parent = BlockKey::root(&salt);
    let one = |i: usize| {
        let tokens: Arc<[u32]> = (0..TOKENS as u32).map(|t| stem ^ (i as u32 * 64 + t)).collect();
        let key = parent.child(&tokens);
        let label = Label { salt, group: GroupId(0), key, parent, codec: Codec::Plain(DType::BF16), tokens };
        parent = key;
        Block { label, bytes: bytes.clone(), behind: false }
    };
    (0..CHAIN).map(one).collect()
}

/// Drops the files of a folder from the page cache; answers how many there are.
fn forget_pages(folder: &Path) -> Result<usize, Box<dyn Error>> {
    let mut files = 0;
    for file in std::fs::read_dir(folder)? {
        let file = File::open(file?.path())?;
        file.sync_all()?; // only clean pages can be dropped
        fadvise(&file, 0, None, Advice::DontNeed)?;
        files += 1;
    }
    Ok(files)
}
