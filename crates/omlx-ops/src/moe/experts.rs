//! The experts of a layer, and the rows of a step through those that are wanted.

use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::Tensor;

use super::Routes;
use super::reference;
use crate::dispatch::Target;
use crate::linear::{Linear, grouped};
use crate::{Act, Error, Result, gated, host, threads};

/// One gated feed-forward.
#[derive(Debug)]
pub struct Expert {
    /// Gate above up, `[2 W, K]`.
    pub gate_up: Linear,
    /// `[K, W]`.
    pub down: Linear,
}

/// The experts of a layer, all of one shape.
#[derive(Debug)]
pub struct Experts {
    pub(super) all: Vec<Expert>,
    pub(super) act: Act,
    hidden: usize,
    read: AtomicU64,
}

impl Experts {
    /// Takes the experts in the order of the router's outputs.
    ///
    /// # Errors
    /// When there is none, or one has another shape than the first.
    pub fn new(all: Vec<Expert>, act: Act) -> Result<Self> {
        let shape = |e: &Expert| (e.gate_up.rows(), e.gate_up.cols(), e.down.rows(), e.down.cols());
        let Some(first) = all.first().map(shape) else {
            return Err(Error::shape("experts", "number of experts", "at least one", 0));
        };
        let (both, hidden, out, width) = first;
        if both != 2 * width || out != hidden {
            return Err(Error::shape("experts", "an expert", (2 * width, hidden, hidden, width), first));
        }
        if let Some(other) = all.iter().map(shape).find(|other| *other != first) {
            return Err(Error::shape("experts", "every expert", first, other));
        }
        Ok(Self { all, act, hidden, read: AtomicU64::new(0) })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Memory that all of them take, in bytes.
    pub fn bytes(&self) -> usize {
        (0..self.count()).map(|expert| self.bytes_of(expert)).sum()
    }

    /// Memory that one of them takes, in bytes.
    pub fn bytes_of(&self, expert: usize) -> usize {
        self.all[expert].gate_up.bytes() + self.all[expert].down.bytes()
    }

    /// Bytes of weights that all calls so far went over: every expert that was wanted, once a call.
    pub fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// `x [T, K]` f32 through the experts that `routes` names, and their weighted sum `[T, K]`.
    ///
    /// # Errors
    /// When sizes do not fit, or a route leads to an expert that is not there.
    pub fn forward(&self, x: &Tensor, routes: &Routes) -> Result<Tensor> {
        let (tokens, cols) = x.dims2()?;
        if cols != self.hidden {
            return Err(Error::shape("experts", "x's last dimension", self.hidden, cols));
        }
        if [routes.experts.len(), routes.weights.len()] != [tokens * routes.top; 2] {
            return Err(Error::shape("experts", "routes", tokens * routes.top, routes.experts.len()));
        }
        if let Some(expert) = routes.experts.iter().find(|e| **e as usize >= self.count()) {
            return Err(Error::shape("experts", "number of an expert: below", self.count(), expert));
        }
        match Target::of(x.device()) {
            Target::Cpu => self.cpu(x, routes),
            Target::Reference => reference::forward(self, x, routes),
        }
    }

    fn cpu(&self, x: &Tensor, routes: &Routes) -> Result<Tensor> {
        let sorted = Sorted::new(routes, self.count());
        let rows = gather(x, &sorted.tokens)?; // [T top, K]
        let gate_up = self.through(&rows, &sorted, |e| &e.gate_up)?; // [T top, 2 W]
        let down = self.through(&gated(self.act, &gate_up)?, &sorted, |e| &e.down)?; // [T top, K]
        self.sum(&down, &sorted, routes)
    }

    /// Each run of rows through its expert's matrix.
    fn through(&self, x: &Tensor, sorted: &Sorted, matrix: fn(&Expert) -> &Linear) -> Result<Tensor> {
        let wanted = sorted.starts.windows(2).enumerate().filter(|(_, run)| run[0] < run[1]);
        let jobs: Vec<_> = wanted.map(|(e, run)| (matrix(&self.all[e]), run[0]..run[1])).collect();
        self.read.fetch_add(jobs.iter().map(|(linear, _)| linear.bytes() as u64).sum(), Ordering::Relaxed);
        grouped(&jobs, x)
    }

    /// Weighted rows back to their tokens, the best expert's first.
    fn sum(&self, y: &Tensor, sorted: &Sorted, routes: &Routes) -> Result<Tensor> {
        let rows = host::rows(y, "experts", "rows")?;
        let (data, stride, top) = (rows.as_slice(), rows.stride(), routes.top);
        let mut out = vec![0f32; rows.rows / top.max(1) * self.hidden];
        threads::for_rows(&mut out, self.hidden, 4096, |token, out| {
            for choice in token * top..(token + 1) * top {
                let (weight, y) = (routes.weights[choice], &data[sorted.places[choice] * stride..][..self.hidden]);
                out.iter_mut().zip(y).for_each(|(out, y)| *out += weight * y);
            }
        });
        host::tensor(out, (rows.rows / top.max(1), self.hidden))
    }
}

/// Choices in the order of experts, those of one expert in the order of tokens.
#[derive(Debug)]
struct Sorted {
    /// Of each row, which token it is.
    tokens: Vec<usize>,
    /// Of each choice, which row it became.
    places: Vec<usize>,
    /// `[E + 1]`: where each expert's rows begin.
    starts: Vec<usize>,
}

impl Sorted {
    fn new(routes: &Routes, experts: usize) -> Self {
        let mut starts = vec![0; experts + 1];
        routes.experts.iter().for_each(|e| starts[*e as usize + 1] += 1);
        (0..experts).for_each(|e| starts[e + 1] += starts[e]);
        let mut next = starts.clone();
        let mut sorted = Self { tokens: vec![0; routes.experts.len()], places: vec![0; routes.experts.len()], starts };
        for (choice, expert) in routes.experts.iter().enumerate() {
            let row = &mut next[*expert as usize];
            (sorted.tokens[*row], sorted.places[choice]) = (choice / routes.top, *row);
            *row += 1;
        }
        sorted
    }
}

fn gather(x: &Tensor, rows: &[usize]) -> Result<Tensor> {
    let from = host::rows(x, "experts", "x")?;
    let (data, stride, width) = (from.as_slice(), from.stride(), from.width);
    let mut out = vec![0f32; rows.len() * width];
    threads::for_rows(&mut out, width, 8192, |row, out| out.copy_from_slice(&data[rows[row] * stride..][..width]));
    host::tensor(out, (rows.len(), width))
}
