//! What is given back, what stays, and what the system says of it.

use super::*;

const ROWS: usize = 64;
const WIDTH: usize = 16384;

fn numbers(pool: &Tensor) -> Vec<f32> {
    pool.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// A pool full of ones, of which rows 10 to 29 are given back.
fn check(dtype: DType) {
    let ones = |rows: usize| Tensor::ones((rows, 2, WIDTH / 2), dtype, &Device::Cpu).unwrap();
    let pool = empty_pool(&[ROWS, 2, WIDTH / 2], dtype, &Device::Cpu).unwrap();
    assert!(numbers(&pool).iter().all(|x| *x == 0.0));
    pool.slice_set(&ones(ROWS), 0, 0).unwrap();
    let given = give_back(&pool, 10..30).unwrap();
    let found = numbers(&pool);
    let zeros: Vec<usize> = (0..found.len()).filter(|i| found[*i] == 0.0).collect();
    // Seen to fail: rows counted as numbers; the pages that neighbours share given back too.
    assert!(zeros.iter().all(|i| (10 * WIDTH..30 * WIDTH).contains(i)), "the neighbours keep theirs");
    assert_eq!(zeros.len() * dtype.size_in_bytes(), given, "what was given back is zero, and nothing else");
    if gives_back(&Device::Cpu) {
        assert!(given + 2 * 65536 > 20 * WIDTH * dtype.size_in_bytes(), "all but the pages at both ends");
    }
    // It is a pool as before.
    pool.slice_set(&ones(1), 0, 12).unwrap();
    assert!(numbers(&pool)[12 * WIDTH..13 * WIDTH].iter().all(|x| *x == 1.0));
}

#[test]
fn f32_pool() {
    check(DType::F32);
}
#[test]
fn f16_pool() {
    check(DType::F16);
}
#[test]
fn bf16_pool() {
    check(DType::BF16);
}
#[test]
fn pool_of_codes() {
    check(DType::U8);
}

#[test]
fn rows_outside_the_pool_are_refused_and_none_is_nothing() {
    let pool = empty_pool(&[4, 1, 8], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(give_back(&pool, 3..5), Err(Error::Shape { .. })));
    assert!(matches!(give_back(&pool, Range { start: 3, end: 1 }), Err(Error::Shape { .. })));
    assert!(matches!(give_back(&pool.narrow(2, 0, 4).unwrap(), 0..1), Err(Error::Shape { .. })));
    assert_eq!(give_back(&pool, 2..2).unwrap(), 0);
    assert_eq!(give_back(&pool, 0..1).unwrap(), 0, "less than a page");
}

/// What the system says: untouched pools take nothing, and what was given back is gone from the footprint. In one test, since
/// the footprint is the whole process's.
#[cfg(target_os = "linux")]
#[test]
fn the_footprint_follows() {
    fn resident(pool: &Tensor) -> usize {
        let (storage, _) = pool.storage_and_layout();
        let candle_core::Storage::Cpu(storage) = &*storage else { panic!("on the host") };
        let (at, len) = match storage {
            CpuStorage::F32(v) => (v.as_ptr() as usize, v.len() * 4),
            CpuStorage::F16(v) => (v.as_ptr() as usize, v.len() * 2),
            _ => panic!("f32 or f16"),
        };
        let page = 4096;
        let (first, last) = (at.next_multiple_of(page), (at + len) / page * page);
        let mut map = vec![0u8; (last - first) / page];
        // SAFETY: the range lies in the pool's memory, and the map has a byte for each page.
        assert_eq!(unsafe { libc::mincore(first as *mut _, last - first, map.as_mut_ptr()) }, 0);
        map.iter().filter(|page| **page & 1 == 1).count() * page
    }
    for dtype in [DType::F32, DType::F16] {
        let (rows, width) = (1 << 12, 1 << 12);
        let pool = empty_pool(&[rows, 1, width], dtype, &Device::Cpu).unwrap();
        let all = rows * width * dtype.size_in_bytes();
        // Seen to fail: half types filled one by one and not given back then.
        assert!(resident(&pool) < all / 100, "nothing was written");
        pool.slice_set(&Tensor::ones((rows, 1, width), dtype, &Device::Cpu).unwrap(), 0, 0).unwrap();
        assert!(resident(&pool) > all / 10 * 9);
        give_back(&pool, 0..rows / 2).unwrap();
        assert!(resident(&pool) < all / 100 * 51 && resident(&pool) > all / 100 * 49);
        give_back(&pool, 0..rows).unwrap();
        assert!(resident(&pool) < all / 100);
    }
}
