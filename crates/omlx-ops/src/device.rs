//! A device by name; the only place that asks which devices were compiled in.

use candle_core::Device;

use crate::{Error, Result};

/// Opens a device: `cpu`, `cuda` or `cuda:N`, `metal` or `metal:N`.
///
/// # Errors
/// [`Error::Device`] when the name is unknown or the build lacks the feature, and candle's error when the driver refuses.
pub fn device_by_name(name: &str) -> Result<Device> {
    let (kind, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let unknown = |why| Error::Device { name: name.to_owned(), why };
    let ordinal = ordinal.parse().map_err(|_| unknown("the part behind ':' must be a number"))?;
    match kind {
        "cpu" if !name.contains(':') => Ok(Device::Cpu),
        "cuda" if cfg!(feature = "cuda") => Ok(Device::new_cuda(ordinal)?),
        "cuda" => Err(unknown("this build has no CUDA; rebuild with --features cuda")),
        "metal" if cfg!(feature = "metal") => Ok(Device::new_metal(ordinal)?),
        "metal" => Err(unknown("this build has no Metal; rebuild with --features metal")),
        _ => Err(unknown("known devices are cpu, cuda[:N] and metal[:N]")),
    }
}
