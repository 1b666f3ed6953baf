//! How fast blocks come back from disk, beside a plain sequential read of the same files with a cold page cache.
//!
//! `cargo run --release -p omlx-kv --example tier_rate -- [mib=1024] [block=32] [readers=4] [rounds=3] [folder=DIR]`: writes a chain
//! of blocks of that many tokens of SmolLM2-135M in f32 through a `Writer`. In every round a `Reader` fetches it and a `KvCache` takes
//! it in, and the files are read from first to last in pieces of 4 MiB; whoever is first takes turns. Prints one JSON object a
//! round, in MB/s: `plain`; `read`, until the last block was handed over; `restored`, blocks taken in as they come.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{DType, Device};
use omlx_blocks::GroupSize;
use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, Label, Reader, Wanted, Writer};
use omlx_kv::{BlockBytes, BlockId, BlockKey, Codec, GroupId, KvCache, KvGroup, KvLayout, Reach, Salt};
use rustix::fs::{Advice, fadvise};

/// What a plain reader reads at once.
const PLAIN_BYTES: usize = 4 << 20;
/// Blocks of the pool: taken in turn, as many as a long prompt has.
const POOL: usize = 64;

type Done<T = ()> = Result<T, Box<dyn Error>>;

struct Options {
    mib: usize,
    block: usize,
    readers: usize,
    rounds: usize,
    folder: PathBuf,
}

fn options() -> Done<Options> {
    let folder = std::env::temp_dir();
    let mut options = Options { mib: 1024, block: 32, readers: 4, rounds: 3, folder };
    for arg in std::env::args().skip(1) {
        let (name, value) = arg.split_once('=').ok_or_else(|| format!("{arg}: not of the form name=value"))?;
        match name {
            "mib" => options.mib = value.parse()?,
            "block" => options.block = value.parse()?,
            "readers" => options.readers = value.parse()?,
            "rounds" => options.rounds = value.parse()?,
            "folder" => options.folder = value.into(),
            _ => return Err(format!("{arg}: known are mib, block, readers, rounds, folder").into()),
        }
    }
    Ok(options)
}

fn main() -> Done {
    let options = options()?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let kv = cache(options.block)?;
    let len = kv.block_len(GroupId(0));
    let blocks = ((options.mib << 20) / len).max(1);
    let bytes = blocks * len;

    let (store, _) = DiskStore::open(&DiskConfig::new(folder.path(), 4 * bytes as u64 + (1 << 20)))?;
    let store: Arc<dyn BlockStore> = Arc::new(store);
    let wanted = write(&store, blocks, options.block, len)?;
    let files = files(folder.path())?;
    let import = |i: usize, bytes: &BlockBytes| Ok(kv.import(GroupId(0), BlockId((i % POOL) as u32), bytes)?);
    fetch(&store, &options, &files, &wanted, import)?; // first touch of pool and buffers, which no plain reader has
    for round in 0..options.rounds {
        let mut plain = 0.0;
        if round % 2 == 0 {
            plain = plainly(&files)?;
        }
        let read = fetch(&store, &options, &files, &wanted, |_, _| Ok(()))?;
        let restored = fetch(&store, &options, &files, &wanted, import)?;
        if round % 2 == 1 {
            plain = plainly(&files)?;
        }
        println!(r#"{{"plain":{plain:.0},"read":{read:.0},"restored":{restored:.0}}}"#);
    }
    Ok(())
}

/// Pools of the shape of SmolLM2-135M.
fn cache(block: usize) -> Done<KvCache> {
    let codec = Codec::Plain(DType::F32);
    let group = KvGroup { layers: (0..30).collect(), heads: 3, dim: 64, reach: Reach::All, codec };
    let sizes = [GroupSize { reach: Reach::All, blocks: POOL }];
    Ok(KvCache::new(KvLayout { groups: vec![group] }, &sizes, block, &Device::Cpu)?)
}

/// Writes a chain behind and answers what to ask for.
fn write(store: &Arc<dyn BlockStore>, blocks: usize, size: usize, len: usize) -> Done<Vec<Wanted>> {
    let writer = Writer::start(Arc::clone(store), 64 << 20)?;
    let salt = Salt::of(&[("weights", b"simulated")]);
    let mut parent = BlockKey::root(&salt);
    let mut wanted = Vec::new();
    for i in 0..blocks {
        let tokens: Arc<[u32]> = (0..size).map(|t| (i * size + t) as u32).collect();
        let key = parent.child(&tokens);
        let label = Label {
            salt,
            group: GroupId(0),
            key,
            parent,
            codec: Codec::Plain(DType::F32),
            tokens: Arc::clone(&tokens),
        };
        while writer.room() < len as u64 {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(
            writer.offer(Block { label, bytes: BlockBytes::new(noise(i as u64, len)), behind: false }),
            "there was room"
        );
        wanted.push(Wanted { key, tokens, len });
        parent = key;
    }
    assert!(writer.flush(Duration::from_secs(600)), "the disk hangs");
    Ok(wanted)
}

/// MB/s of a fetch of everything, each block given to `take`.
fn fetch(
    store: &Arc<dyn BlockStore>,
    options: &Options,
    files: &[PathBuf],
    wanted: &[Wanted],
    take: impl Fn(usize, &BlockBytes) -> Done,
) -> Done<f64> {
    let reader = Reader::start(Arc::clone(store), options.readers)?;
    forget_pages(files)?;
    let begin = Instant::now();
    let mut fetch = reader.fetch(wanted.to_vec(), || {});
    let mut count = 0;
    while let Some(bytes) = fetch.next() {
        take(count, &bytes)?;
        count += 1;
    }
    let rate = rate(count * wanted[0].len, begin);
    assert_eq!(count, wanted.len(), "all blocks came back: {:?}", fetch.cut());
    Ok(rate)
}

/// MB/s of reading the files one after the other.
fn plainly(files: &[PathBuf]) -> Done<f64> {
    forget_pages(files)?;
    let mut buffer = vec![0; PLAIN_BYTES];
    let begin = Instant::now();
    let mut bytes = 0;
    for path in files {
        let mut file = File::open(path)?;
        loop {
            let came = file.read(&mut buffer)?;
            bytes += came;
            if came == 0 {
                break;
            }
        }
    }
    Ok(rate(bytes, begin))
}

fn rate(bytes: usize, begin: Instant) -> f64 {
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e6
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

/// The segments, oldest first.
fn files(folder: &Path) -> Done<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<Done<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "kv"));
    files.sort();
    Ok(files)
}

/// Drops files from the page cache, once they are on the disk: only clean pages can be dropped.
fn forget_pages(files: &[PathBuf]) -> Done {
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
