//! Chains of blocks whose content follows from their names, so that whoever reads one knows what it has to be.

use std::path::Path;
use std::sync::Arc;

use candle_core::DType;
use omlx_kv::tier::{Block, BlockStore, DiskConfig, DiskStore, End, Label, Opened, Wanted};
use omlx_kv::{BlockBytes, BlockKey, Codec, GroupId, Salt};

pub(crate) const TOKENS: usize = 4;

/// The content of a block of this name.
pub(crate) fn content(key: &BlockKey, len: usize) -> Vec<u8> {
    let mut state = u64::from_le_bytes(key.as_bytes()[8..16].try_into().unwrap());
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) fn salt(model: u32) -> Salt {
    Salt::of(&[("weights", &model.to_le_bytes())])
}

/// `blocks` blocks of `len` bytes, of the prompt that `stem` begins.
pub(crate) fn chain(model: u32, stem: u32, blocks: usize, len: usize) -> Vec<Block> {
    let salt = salt(model);
    let mut parent = BlockKey::root(&salt);
    let one = |i: usize| {
        let tokens: Arc<[u32]> = (0..TOKENS as u32).map(|t| stem * 1000 + i as u32 * 10 + t).collect();
        let key = parent.child(&tokens);
        let label = Label { salt, group: GroupId(0), key, parent, codec: Codec::Plain(DType::F16), tokens };
        parent = key;
        Block { label, bytes: BlockBytes::new(content(&key, len)), behind: false }
    };
    (0..blocks).map(one).collect()
}

pub(crate) fn keys(chain: &[Block]) -> Vec<BlockKey> {
    chain.iter().map(|block| block.label.key).collect()
}

pub(crate) fn wanted(chain: &[Block]) -> Vec<Wanted> {
    let want = |b: &Block| Wanted { key: b.label.key, tokens: Arc::clone(&b.label.tokens), len: b.bytes.len() };
    chain.iter().map(want).collect()
}

/// Gets a chain, checks every byte that comes, and answers how many blocks came.
pub(crate) fn get(store: &dyn BlockStore, chain: &[Block]) -> usize {
    let got = store.get(&wanted(chain));
    for (i, (bytes, block)) in got.blocks.iter().zip(chain).enumerate() {
        assert!(*bytes == block.bytes, "block {i} came back as something else");
    }
    assert_eq!(got.blocks.len() == chain.len(), matches!(got.end, End::All), "{:?}", got.end);
    got.blocks.len()
}

pub(crate) fn open(folder: &Path, budget_bytes: u64) -> (DiskStore, Opened) {
    DiskStore::open(&DiskConfig::new(folder, budget_bytes)).unwrap()
}

/// What the folder takes on the disk, in the pieces that file systems give out.
pub(crate) fn taken(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().metadata().map_or(0, |m| m.len().next_multiple_of(4096))).sum()
}

/// The segments of a folder, oldest first.
pub(crate) fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "kv")).collect();
    segments.sort();
    segments
}
