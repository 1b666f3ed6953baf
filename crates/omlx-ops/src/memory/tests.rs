//! Buffers are apart, zeroed, at cache lines, and give their memory back.

use super::*;

/// Other tests cut from the open slab too; here only what holds whatever they do is asked.
#[test]
fn buffers_of_all_sizes_are_zeroed_apart_and_aligned() {
    let mut all = Vec::new();
    for (i, len) in
        [0, 1, 63, 64, 65, 4096, LARGE - 1, LARGE + 1, SLAB - 64, SLAB, SLAB + 1, 7, 3 * LARGE].into_iter().enumerate()
    {
        let mut buffer = Buffer::new(len).unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr::<u8>().align_offset(LINE)), (len, 0));
        let bytes = buffer.bytes_mut();
        // seen to fail: the second buffer of a slab starting where the first does
        assert!(bytes.iter().all(|b| *b == 0), "{len} bytes: zeroed");
        bytes.fill(i as u8 + 1);
        all.push(buffer);
    }
    for (i, buffer) in all.iter().enumerate() {
        assert!(buffer.bytes().iter().all(|b| *b == i as u8 + 1), "{i}");
    }
}

/// Other tests may open slabs meanwhile, but not one for each.
#[test]
fn small_buffers_share_slabs() {
    let buffers: Vec<Buffer> = (0..64).map(|_| Buffer::new(100).unwrap()).collect();
    let mut slabs: Vec<*const Slab> = buffers.iter().map(|buffer| Arc::as_ptr(&buffer._slab)).collect();
    slabs.sort();
    slabs.dedup();
    assert!(slabs.len() <= 16, "{} slabs", slabs.len());
}

#[test]
fn the_last_buffer_frees_its_slab() {
    // A buffer of more than a slab has one of its own.
    let large = Buffer::new(SLAB + 1).unwrap();
    let weak = Arc::downgrade(&large._slab);
    assert!(weak.upgrade().is_some());
    drop(large);
    // Unless another test cut its buffer from the rest, it is gone; that one then is a test's, and short-lived.
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        weak.upgrade().is_none()
    });
    assert!(gone);
}

#[test]
fn what_the_system_cannot_give_is_an_error() {
    assert!(matches!(Buffer::new(1 << 60), Err(Error::Memory { .. })));
}
