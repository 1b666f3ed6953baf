//! Rows of numbers times panels: the one product behind scores and weighted values.
//!
//! A panel holds sixteen columns side by side, row after row of sixteen numbers. An output is one chain of fused
//! multiply-adds along the panel's rows, begun with what already stands there, for one row of `a` as for six.

use crate::simd::sixteen::Sixteen;
use crate::simd::{Isa, LANES, for_isa};

/// Rows that go together at most.
pub(super) const DEEP: usize = 6;

/// Some rows: where their numbers and their outputs stand. The first `count` are in use.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) a: [*const f32; DEEP],
    /// The output that belongs to the first column of the first panel.
    pub(super) out: [*mut f32; DEEP],
}

impl Rows {
    pub(super) fn new() -> Self {
        Self { count: 0, a: [std::ptr::null(); DEEP], out: [std::ptr::null_mut(); DEEP] }
    }

    pub(super) fn push(&mut self, a: *const f32, out: *mut f32) {
        (self.a[self.count], self.out[self.count]) = (a, out);
        self.count += 1;
    }
}

/// Some panels, `step` numbers from one to the next, of each of which the first `len` rows count.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    pub(super) b: *const f32,
    pub(super) step: usize,
    pub(super) count: usize,
    pub(super) len: usize,
}

/// `out += a · b`. A function of its own for each instruction set: inlined wherever it is called, it would be most of the crate.
///
/// # Safety
/// The instruction set exists, each row has `len` numbers and outputs for all panels, and no two rows share outputs.
#[inline(always)]
pub(super) unsafe fn outer(isa: Isa, rows: &Rows, panels: Panels) {
    for_isa!(isa, by_count::<>(rows: &Rows, panels: Panels));
}

#[inline(always)]
unsafe fn by_count<S: Sixteen>(rows: &Rows, panels: Panels) {
    // SAFETY: passed on.
    unsafe {
        match (rows.count, S::ROOMY) {
            (1, _) => strip::<S, 1, 4>(rows, panels),
            (2, true) => strip::<S, 2, 4>(rows, panels),
            (3, true) => strip::<S, 3, 4>(rows, panels),
            (4, true) => strip::<S, 4, 4>(rows, panels),
            (5, true) => strip::<S, 5, 4>(rows, panels),
            (6, true) => strip::<S, 6, 4>(rows, panels),
            (2, false) => strip::<S, 2, 2>(rows, panels),
            (3, false) => strip::<S, 3, 1>(rows, panels),
            (4, false) => strip::<S, 4, 1>(rows, panels),
            (5, false) => strip::<S, 5, 1>(rows, panels),
            (6, false) => strip::<S, 6, 1>(rows, panels),
            _ => {}
        }
    }
}

/// `M` rows against all panels, `P` of them at a time.
#[inline(always)]
unsafe fn strip<S: Sixteen, const M: usize, const P: usize>(rows: &Rows, panels: Panels) {
    let mut panel = 0;
    // SAFETY: passed on.
    unsafe {
        while panel + P <= panels.count {
            tile::<S, M, P>(rows, panels, panel);
            panel += P;
        }
        if P > 2 && panel + 2 <= panels.count {
            tile::<S, M, 2>(rows, panels, panel);
            panel += 2;
        }
        if P > 1 && panel < panels.count {
            tile::<S, M, 1>(rows, panels, panel);
        }
    }
}

/// `M` rows by `P` panels.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn tile<S: Sixteen, const M: usize, const P: usize>(rows: &Rows, panels: Panels, panel: usize) {
    // SAFETY: passed on.
    unsafe {
        // Pointers of their own, so that no addresses are computed between the multiplications.
        let mut a = [rows.a[0]; M];
        let mut b = [panels.b.add(panel * panels.step); P];
        let mut sums = [[S::zero(); P]; M];
        for i in 0..M {
            a[i] = rows.a[i];
            for p in 0..P {
                sums[i][p] = S::f32(rows.out[i].add((panel + p) * LANES));
            }
        }
        for p in 1..P {
            b[p] = b[p - 1].add(panels.step);
        }
        let mut k = 0;
        while k + 2 <= panels.len {
            one::<S, M, P>(&a, &b, k, &mut sums);
            one::<S, M, P>(&a, &b, k + 1, &mut sums);
            k += 2;
        }
        if k < panels.len {
            one::<S, M, P>(&a, &b, k, &mut sums);
        }
        for i in 0..M {
            for p in 0..P {
                S::store(rows.out[i].add((panel + p) * LANES), sums[i][p]);
            }
        }
    }
}

/// Number `k` of every row by row `k` of every panel.
#[inline(always)]
unsafe fn one<S: Sixteen, const M: usize, const P: usize>(
    a: &[*const f32; M],
    b: &[*const f32; P],
    k: usize,
    sums: &mut [[S::V; P]; M],
) {
    for p in 0..P {
        // SAFETY: passed on.
        unsafe {
            let column = S::f32(b[p].add(k * LANES));
            for i in 0..M {
                sums[i][p] = S::fma(S::all(a[i].add(k)), column, sums[i][p]);
            }
        }
    }
}
