//! Which implementation of an op runs: one small decision for all ops.

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::Device;

/// Whether ops use their fast version or the slow, obvious one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kernels {
    /// The fastest version that covers the case.
    #[default]
    Fast,
    /// Plain candle operations everywhere, for bisecting a wrong result.
    Reference,
}

static REFERENCE: AtomicBool = AtomicBool::new(false);

/// Chooses the implementations for the whole process.
pub fn set_kernels(kernels: Kernels) {
    REFERENCE.store(kernels == Kernels::Reference, Ordering::Relaxed);
}

/// The choice in force.
pub fn kernels() -> Kernels {
    if REFERENCE.load(Ordering::Relaxed) { Kernels::Reference } else { Kernels::Fast }
}

/// Where an op's fast version would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Our own SIMD code.
    Cpu,
    /// Plain candle operations on whatever device holds the tensors.
    Reference,
}

impl Target {
    /// The implementation for tensors on `device`.
    pub(crate) fn of(device: &Device) -> Self {
        match device {
            Device::Cpu if kernels() == Kernels::Fast => Self::Cpu,
            _ => Self::Reference,
        }
    }
}

/// Whether tensors on `device` lie in this process's own pages, whichever implementation runs.
pub(crate) fn holds_pages(device: &Device) -> bool {
    matches!(device, Device::Cpu)
}
