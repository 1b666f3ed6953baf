//! Attention over block tables: softmax(q kᵀ · scale) v for rows of tokens whose keys and values lie in a paged pool.
//!
//! The batch is ragged: rows of any length lie end to end, each token knows its position, and which keys it sees is decided by
//! comparing positions ([`Reach`]). There is no mask tensor and no padding.

mod cpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::Tensor;
use omlx_blocks::Reach;

use crate::coded::Coded;
use crate::dispatch::Target;
use crate::{Error, Result};

/// How a layer attends.
#[derive(Clone, Debug)]
pub struct Attend {
    /// Multiplies the products of query and key.
    pub scale: f32,
    /// How far back a token looks.
    pub reach: Reach,
    /// Squashes scaled products to `cap * tanh(x / cap)`.
    pub softcap: Option<f32>,
    /// `[Hq]` f32: a logit per query head that takes its share of the softmax and gives nothing.
    pub sinks: Option<Tensor>,
}

/// Keys and values of one layer, `[slots, Hkv, D]` each, in f32, f16 or bf16.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// Keys.
    pub k: &'a Tensor,
    /// Values.
    pub v: &'a Tensor,
    /// Tokens per block.
    pub block: usize,
}

/// Keys and values of one layer as codes, `H` being the key heads of both.
#[derive(Clone, Copy, Debug)]
pub struct CodedPool<'a> {
    /// Keys.
    pub k: Coded<'a>,
    /// Values.
    pub v: Coded<'a>,
    /// Tokens per block.
    pub block: usize,
}

/// Where the tokens of a step's rows live, for one group of layers. All numbers are integers on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowView {
    /// `[B + 1]`: where each row begins among the step's tokens.
    pub starts: Vec<u32>,
    /// `[B]`: tokens of the row's sequence, those of this step included.
    pub lens: Vec<u32>,
    /// Blocks at the start of every sequence that are never forgotten.
    pub kept: u32,
    /// `[B]`: whole blocks that the table has forgotten, behind the kept ones.
    pub forgotten: Vec<u32>,
    /// `[B, width]`: block ids, oldest first, the kept ones before the window's, filled up with zeros.
    pub tables: Vec<u32>,
    /// Blocks per row of `tables`.
    pub width: usize,
    /// `[T]`: the pool row of each of the step's tokens.
    pub slots: Vec<u32>,
}

impl RowView {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lens.len()
    }

    /// Number of tokens in the step.
    pub fn tokens(&self) -> usize {
        self.slots.len()
    }

    /// The pool row of position `pos` of row `row`. Panics when its block was forgotten: somebody looked too far back.
    pub fn slot(&self, row: usize, pos: usize, block: usize) -> usize {
        let (index, kept) = (pos / block, self.kept as usize);
        let at = match index < kept {
            true => index,
            false => {
                let at = index.checked_sub(self.forgotten[row] as usize).filter(|at| *at >= kept);
                at.expect("a forgotten block is never looked at")
            }
        };
        assert!(at < self.width, "position {pos} of row {row} has no block");
        self.tables[row * self.width + at] as usize * block + pos % block
    }

    /// The position of the row's first token in this step.
    fn start_position(&self, row: usize) -> usize {
        (self.lens[row] - (self.starts[row + 1] - self.starts[row])) as usize
    }
}

/// `q [T, Hq, D]` f32 against the pool. Returns `[T, Hq, D]` f32. Query head `h` uses key head `h / (Hq / Hkv)`.
///
/// # Errors
/// When the shapes do not fit one another.
pub fn attention(q: &Tensor, pool: Pool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    check(q, pool.k.dims3()?, pool.block, rows, how)?;
    if pool.v.dims() != pool.k.dims() || pool.v.dtype() != pool.k.dtype() {
        return Err(Error::shape("attention", "value pool", pool.k.dims(), pool.v.dims()));
    }
    match Target::of(q.device()) {
        Target::Cpu => cpu::attention(q, pool, rows, how),
        Target::Reference => reference::attention(q, pool, rows, how),
    }
}

/// The same over codes: what attention over the decoded keys and values gives, but for rounding.
///
/// # Errors
/// When the shapes do not fit one another.
pub fn attention_coded(q: &Tensor, pool: CodedPool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    let (slots, kv_heads) = pool.k.check("attention")?;
    if pool.v.check("attention")? != (slots, kv_heads) || pool.v.coding.dim() != pool.k.coding.dim() {
        return Err(Error::shape("attention", "value pool", pool.k.codes.dims(), pool.v.codes.dims()));
    }
    check(q, (slots, kv_heads, pool.k.coding.dim()), pool.block, rows, how)?;
    match Target::of(q.device()) {
        Target::Cpu => cpu::coded(q, pool, rows, how),
        Target::Reference => reference::coded(q, pool, rows, how),
    }
}

fn check(
    q: &Tensor,
    (slots, kv_heads, kv_dim): (usize, usize, usize),
    block: usize,
    rows: &RowView,
    how: &Attend,
) -> Result<()> {
    let (tokens, heads, dim) = q.dims3()?;
    let check = |what, expected: usize, found: usize| {
        if expected == found { Ok(()) } else { Err(Error::shape("attention", what, expected, found)) }
    };
    check("tokens", rows.tokens(), tokens)?;
    check("head size", kv_dim, dim)?;
    check("remainder of query heads by key heads", 0, heads % kv_heads.max(1))?;
    check("remainder of slots by the block size", 0, slots % block)?;
    match &how.sinks {
        Some(sinks) => check("sinks", heads, sinks.dims1()?),
        None => Ok(()),
    }
}
