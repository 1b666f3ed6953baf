//! The environment of the script: outside the repository, made once per set of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::models;
use crate::shell::{self, Done, Failed};

/// What the script needs, beside it.
const REQUIREMENTS: &str = "requirements.txt";
/// Where builds of torch without CUDA are, which the usual index does not have for every system. Where it cannot be reached, pip
/// takes what the usual one has: the same numbers, gigabytes more.
const TORCH_CPU: &str = "https://download.pytorch.org/whl/cpu";

/// The interpreter of the environment, which is made first if it is not there or of other versions.
pub(super) fn environment(fixtures: &Path) -> Done<PathBuf> {
    let requirements = fixtures.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements).map_err(Failed::at(&requirements))?;
    let home = models::our_cache()?.join("golden-python");
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let ready = home.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("making {} with {}", home.display(), wanted.split_whitespace().collect::<Vec<_>>().join(", "));
    let mut venv = Command::new("python3");
    shell::run(venv.args(["-m", "venv", "--clear"]).arg(&home))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--extra-index-url", TORCH_CPU, "--requirement"]);
    shell::run(pip.arg(&requirements))?;
    fs::write(&ready, &wanted).map_err(Failed::at(&ready))?;
    Ok(python)
}
