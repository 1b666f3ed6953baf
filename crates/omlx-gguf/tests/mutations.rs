//! Any bytes at all: no panic, and never more memory than a small multiple of the file.
//!
//! Alone in its file because the peak is the whole process's.
//! Seen to catch: `Source::count` believing the file (peak of terabytes, an abort); `next_multiple_of` on an alignment of zero (a panic).

use omlx_gguf::Gguf;
use peak_alloc::PeakAlloc;
use proptest::prelude::*;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Bookkeeping a pair or tensor costs beside its bytes: maps, names kept twice, one buffer.
const FIXED_BYTES: usize = 16 << 10;
const TIMES_FILE: usize = 16;

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat()
}

/// A small valid file with scalars, arrays and tensors.
fn valid() -> Vec<u8> {
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend(2u64.to_le_bytes());
    out.extend(4u64.to_le_bytes());
    for (key, kind, value) in [
        ("general.architecture", 8u32, text("llama")),
        ("general.alignment", 4, 32u32.to_le_bytes().to_vec()),
        ("tokens", 9, [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &text("ab"), &text("c")].concat()),
        ("scores", 9, [&6u32.to_le_bytes()[..], &2u64.to_le_bytes(), &[0; 8]].concat()),
    ] {
        out.extend(text(key));
        out.extend(kind.to_le_bytes());
        out.extend(value);
    }
    for (name, dims, kind, offset) in [("w", [32u64, 2], 8u32, 0u64), ("b", [2, 1], 0, 96)] {
        out.extend(text(name));
        out.extend(2u32.to_le_bytes());
        dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
        out.extend(kind.to_le_bytes());
        out.extend(offset.to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(32) + 104, 1);
    out
}

/// What may happen to a file: bytes overwritten, a number made huge, an end cut off.
#[derive(Debug, Clone)]
enum Change {
    Byte(prop::sample::Index, u8),
    Number(prop::sample::Index, u64),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), prop_oneof![any::<u8>(), Just(0)]).prop_map(|(i, b)| Change::Byte(i, b)),
        4 => (at(), prop_oneof![Just(0), Just(1 << 40), Just(u64::MAX), 0u64..1000, any::<u64>()]).prop_map(|(i, n)| Change::Number(i, n)),
        1 => at().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.len() < 8 {
        return;
    }
    match change {
        Change::Byte(at, b) => *at.get_mut(bytes) = *b,
        Change::Number(at, n) => {
            let at = at.index(bytes.len() - 7);
            bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

/// Reads the bytes and asks for what a loader asks; answers whether it was accepted.
fn survive(bytes: &[u8]) -> bool {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let read = Gguf::read(bytes, bytes.len() as u64);
    let peak = PEAK.peak_usage().saturating_sub(before);
    assert!(peak <= FIXED_BYTES + TIMES_FILE * bytes.len(), "{peak} bytes for a file of {}", bytes.len());
    let Ok(gguf) = read else { return false };
    let _ =
        (gguf.architecture().is_ok(), gguf.strings("tokens").map(|t| t.iter().count()), gguf.f32s("scores").is_ok());
    for tensor in gguf.tensors() {
        assert!(tensor.offset + tensor.bytes <= bytes.len() as u64, "{tensor:?}");
    }
    true
}

#[test]
fn no_bytes_make_it_panic_or_hoard() {
    assert!(survive(&valid()), "the file the others are made from must be good");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&prop::collection::vec(change(), 1..5), |changes| {
            let mut bytes = valid();
            changes.iter().for_each(|c| apply(&mut bytes, c));
            survive(&bytes);
            Ok(())
        })
        .unwrap();
    runner
        .run(&prop::collection::vec(any::<u8>(), 0..200), |mut bytes| {
            let front = b"GGUF\x03\0\0\0";
            bytes.splice(0..0, front.iter().copied());
            survive(&bytes);
            Ok(())
        })
        .unwrap();
}
