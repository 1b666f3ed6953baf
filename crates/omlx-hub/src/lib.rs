//! A model's name to a complete folder on disk.
//!
//! Names are looked for on this machine first; the hub is asked only where the caller gives its address. Nothing half here counts as here.
//! What must stay true: no environment variable is read, no file outside the given folders is written, and the token goes to the given endpoint alone.
#![doc = include_str!("../README.md")]

mod cache;
mod complete;
mod discover;
mod download;
mod error;
mod resolve;

pub use complete::{Fault, Warning, Weights, check};
pub use discover::{Adapter, Form, Found, Skipped, Survey, discover};
pub use download::{Hub, Progress, download, remove_partials};
pub use error::{Error, Result};
pub use resolve::{Config, Repo, resolve};
