//! The CPU version: the work of all parts cut into tasks for one hand-out to the pool.
//!
//! Plain floats go through `outer`, packed weights through `int8`. Neither's results depend on how the work is cut.

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
    let rows = host::rows(x, "linear", "x")?;
    let (count, total) = (rows.rows, linear.rows);
    let (x, stride) = (rows.as_slice(), rows.stride());
    let bias = linear.bias.as_ref().map(|b| host::rows(b, "linear", "bias")).transpose()?;
    let bias = bias.as_ref().map(|b| b.as_slice());
    let mut out = Vec::with_capacity(count * total);
    let shared = SharedMut::spare(&mut out);
    let any_packed = linear.parts.iter().any(|w| matches!(w, Weight::Packed(_)));
    let acts = any_packed.then(|| Acts::new(isa, x, (count, stride, linear.cols)));
    let floats = outer::Job { x, stride, out: &shared, total, bias };
    // Tasks of all parts go to the pool together: one hand-out per layer, not one per part.
    let tasks = tasks(linear, count);
    threads::for_each(tasks.len(), |task| {
        let (part, place) = &tasks[task];
        match &linear.parts[*part] {
            Weight::Dense(w) => floats.run(isa, w, place),
            Weight::Packed(w) => {
                let acts = acts.as_ref().expect("made where a part is packed");
                let job = int8::Job { acts, count, out: &shared, total, bias };
                job.panels(isa, w, place.panels.clone(), place.column);
            }
            Weight::Elsewhere(_) => unreachable!("`Linear::forward` takes such weights to the reference"),
        }
    });
    // SAFETY: the tasks cover every part's panels and every row of x, and each wrote all its outputs.
    unsafe { out.set_len(count * total) };
    host::tensor(out, (count, total))
}

/// Which part, and what of it. Together all outputs of `count` rows of x.
pub(super) fn tasks(linear: &Linear, count: usize) -> Vec<(usize, Place)> {
    let mut tasks = Vec::new();
    let (threads, mut column) = (threads::threads(), 0);
    let wanted = SHARES[usize::from(count > SOME)] * threads;
    let (height, stripes) = cut(linear.rows.div_ceil(dense::PANEL), count, wanted);
    for (part, w) in linear.parts.iter().enumerate() {
        let rows = w.dims().0;
        let (panels, height, deep) = match w {
            Weight::Packed(_) => {
                let share = if count > FEW { 0 } else { linear.rows / (PACKED_SHARES * threads) };
                let height = share.next_multiple_of(PACKED).max(PACKED);
                (rows.div_ceil(packed::PANEL), height / packed::PANEL, count)
            }
            _ => (rows.div_ceil(dense::PANEL), height, count.div_ceil(stripes)),
        };
        for row in (0..count).step_by(deep.max(1)) {
            let rows = row..(row + deep).min(count);
            for panel in (0..panels).step_by(height) {
                let panels = panel..(panel + height).min(panels);
                tasks.push((part, Place { panels, rows: rows.clone(), column }));
            }
        }
        column += rows;
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
