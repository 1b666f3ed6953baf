//! One progress bar, counted in bytes.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `bytes` bytes of `name`; it draws nothing where no terminal listens.
pub(super) fn bar(name: &str, bytes: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:30} {bar:30} {bytes:>11} of {total_bytes}, {bytes_per_sec}, {eta} to go");
    let bar = ProgressBar::new(bytes).with_message(name.to_owned());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
