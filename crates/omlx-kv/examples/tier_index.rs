//! How long a folder of very many blocks takes to open, and a long chain to look up.
//!
//! `cargo run --release -p omlx-kv --example tier_index -- [blocks=1000000] [content=16] [rounds=3] [folder=DIR]`: fills a temporary
//! folder with blocks of so many bytes of content, opens it with a cold page cache, and looks up a chain of 1,000. Prints one
//! JSON object a round: `blocks` and `files` found, `start_s`, and of the chain `first_us`, the first look-up, `again_us`, the
//! mean of a hundred more, `touch_us`.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use candle_core::DType;
use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, Label};
use omlx_kv::{BlockBytes, BlockKey, Codec, GroupId, Salt};
use rustix::fs::{Advice, fadvise};

const CHAIN: usize = 1000;
const TOKENS: usize = 64;

type Done<T = ()> = Result<T, Box<dyn Error>>;

struct Options {
    blocks: usize,
    content: usize,
    rounds: usize,
    folder: PathBuf,
}

fn options() -> Done<Options> {
    let mut options = Options { blocks: 1_000_000, content: 16, rounds: 3, folder: std::env::temp_dir() };
    for arg in std::env::args().skip(1) {
        let (name, value) = arg.split_once('=').ok_or_else(|| format!("{arg}: not of the form name=value"))?;
        match name {
            "blocks" => options.blocks = value.parse()?,
            "content" => options.content = value.parse()?,
            "rounds" => options.rounds = value.parse()?,
            "folder" => options.folder = value.into(),
            _ => return Err(format!("{arg}: known are blocks, content, rounds, folder").into()),
        }
    }
    Ok(options)
}

fn main() -> Done {
    let Options { blocks, content, rounds, folder } = options()?;
    let folder = tempfile::tempdir_in(folder)?;
    let config = DiskConfig::new(folder.path(), 2 * (blocks * (content + 700)) as u64 + (1 << 20));

    let (store, _) = DiskStore::open(&config)?;
    let mut sample = Vec::new();
    for stem in 0..blocks.div_ceil(CHAIN) {
        let chain = chain(stem as u32, content);
        store.put(&chain)?;
        if stem == blocks / CHAIN / 2 {
            sample = chain.iter().map(|block| block.label.key).collect();
        }
    }
    drop(store);

    for _ in 0..rounds {
        let files = forget_pages(folder.path())?;
        let begin = Instant::now();
        let (store, opened) = DiskStore::open(&config)?;
        let start_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let found = store.leading(&sample);
        let first_us = micros(begin);
        assert_eq!(found, sample.len(), "the whole chain is here");
        let begin = Instant::now();
        for _ in 0..100 {
            assert_eq!(store.leading(&sample), found, "asking changes nothing");
        }
        let again_us = micros(begin) / 100.0;
        let begin = Instant::now();
        store.touch(&sample);
        let touch_us = micros(begin);
        let blocks = opened.blocks.count;
        println!(
            r#"{{"blocks":{blocks},"files":{files},"start_s":{start_s:.3},"first_us":{first_us:.1},"again_us":{again_us:.1},"touch_us":{touch_us:.1}}}"#
        );
    }
    Ok(())
}

fn micros(begin: Instant) -> f64 {
    1e6 * begin.elapsed().as_secs_f64()
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
fn forget_pages(folder: &Path) -> Done<usize> {
    let mut files = 0;
    for file in std::fs::read_dir(folder)? {
        let file = File::open(file?.path())?;
        file.sync_all()?; // only clean pages can be dropped
        fadvise(&file, 0, None, Advice::DontNeed)?;
        files += 1;
    }
    Ok(files)
}
