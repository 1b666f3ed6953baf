//! The CPU version: the work of all parts cut into tasks for one hand-out to the pool.
//!
//! Plain floats go through `outer`, packed weights through `int8`. Neither's results depend on how the work is cut.

use std::ops::Range;

use candle_core::Tensor;

use super::acts::Acts;
use super::outer::{self, DEEP, Place};
use super::{Linear, Weight, dense, int8, packed};
use crate::simd::Isa;
use crate::threads::{self, SharedMut};
use crate::{Result, host};

/// Tasks per thread that a layer is cut into, if it is large enough: threads do not all run at one speed. With few rows of `x`
/// weights come from memory, in long runs if tasks are long; with many, waiting for the last task costs more.
const SHARES: [usize; 2] = [4, 8];
/// Up to this many rows of `x` are few.
const SOME: usize = 64;
/// The same for packed weights.
const PACKED_SHARES: usize = 8;
/// Panels of plain floats that one row of `x` takes side by side.
const BESIDE: usize = 4;

/// Up to this many rows of `x` a layer of packed weights is cut as coarsely as for one.
const FEW: usize = 4;
/// Rows of packed weights in a task at least: three panels.
const PACKED: usize = 3 * packed::PANEL;

pub(super) fn forward(linear: &Linear, x: &Tensor) -> Result<Tensor> {
    forward_with(Isa::best(), linear, x)
}

pub(super) fn forward_with(isa: Isa, linear: &Linear, x: &Tensor) -> Result<Tensor> {
    let count = x.dims2()?.0;
    grouped(isa, &[(linear, 0..count)], x)
}

/// As [`super::grouped`] says.
pub(super) fn grouped(isa: Isa, jobs: &[(&Linear, Range<usize>)], x: &Tensor) -> Result<Tensor> {
    let rows = host::rows(x, "linear", "x")?;
    let (count, total, cols) = (rows.rows, jobs.first().map_or(0, |(l, _)| l.rows), rows.width);
    let (x, stride) = (rows.as_slice(), rows.stride());
    let mut end = 0;
    for (linear, run) in jobs {
        let fits = run.start == end && (linear.rows, linear.cols) == (total, cols);
        assert!(fits, "layers of one shape on runs that follow one another");
        end = run.end;
    }
    assert_eq!(end, if jobs.is_empty() { 0 } else { count }, "every row has a layer");
    let biases = jobs.iter().map(|(l, _)| l.bias.as_ref().map(|b| host::rows(b, "linear", "bias")).transpose());
    let biases = biases.collect::<Result<Vec<_>>>()?;
    let mut out = Vec::with_capacity(count * total);
    let shared = SharedMut::spare(&mut out);
    let any_packed = jobs.iter().flat_map(|(l, _)| &l.parts).any(|w| matches!(w, Weight::Packed(_)));
    let acts = any_packed.then(|| Acts::new(isa, x, (count, stride, cols)));
    // Tasks of all layers and parts go to the pool together: one hand-out per call.
    let tasks = tasks(jobs);
    threads::for_each(tasks.len(), |task| {
        let (job, part, place) = &tasks[task];
        let bias = biases[*job].as_ref().map(|b| b.as_slice());
        match &jobs[*job].0.parts[*part] {
            Weight::Dense(w) => outer::Job { x, stride, out: &shared, total, bias }.run(isa, w, place),
            Weight::Packed(w) => {
                let acts = acts.as_ref().expect("made where a part is packed");
                int8::Job { acts, out: &shared, total, bias }.run(isa, w, place);
            }
            Weight::Elsewhere(_) => unreachable!("such weights are taken to the reference"),
        }
    });
    // SAFETY: the tasks cover every row of x and all panels of its layer's parts, and each wrote all its outputs.
    unsafe { out.set_len(count * total) };
    host::tensor(out, (count, total))
}

/// Which layer, which part, and what of it: together all outputs of each layer's run of rows of x.
pub(super) fn tasks(jobs: &[(&Linear, Range<usize>)]) -> Vec<(usize, usize, Place)> {
    let mut tasks = Vec::new();
    let (threads, layers) = (threads::threads(), jobs.len());
    for (job, (linear, run)) in jobs.iter().enumerate() {
        let (count, mut column) = (run.len(), 0);
        let wanted = (SHARES[usize::from(count > SOME)] * threads).div_ceil(layers);
        let (height, stripes) = cut(linear.rows.div_ceil(dense::PANEL), count, wanted);
        for (part, w) in linear.parts.iter().enumerate() {
            let rows = w.dims().0;
            let (panels, height, deep) = match w {
                Weight::Packed(_) => {
                    let share = if count > FEW { 0 } else { linear.rows * layers / (PACKED_SHARES * threads) };
                    let height = share.next_multiple_of(PACKED).max(PACKED);
                    (rows.div_ceil(packed::PANEL), height / packed::PANEL, count)
                }
                _ => (rows.div_ceil(dense::PANEL), height, count.div_ceil(stripes)),
            };
            for row in run.clone().step_by(deep.max(1)) {
                let rows = row..(row + deep).min(run.end);
                for panel in (0..panels).step_by(height) {
                    let panels = panel..(panel + height).min(panels);
                    tasks.push((job, part, Place { panels, rows: rows.clone(), column }));
                }
            }
            column += rows;
        }
    }
    tasks
}

/// How plain floats are cut into about `wanted` tasks: panels in each, and stripes of the rows of x. Weights are read once per
/// stripe, so there are several only where panels do not make tasks enough.
pub(super) fn cut(panels: usize, count: usize, wanted: usize) -> (usize, usize) {
    let stripes = (BESIDE * wanted).div_ceil(panels.max(1)).clamp(1, (count / (2 * DEEP)).max(1));
    let share = panels * stripes / wanted;
    let height = match share {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => share / BESIDE * BESIDE,
    };
    (height, stripes)
}
