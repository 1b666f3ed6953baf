//! `omlx-server cache`: what is in a folder of the prefix cache, without serving anything.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Parser};
use omlx_kv::tier::{BlockStore as _, DiskConfig, DiskStore};

use crate::config::readable;

/// Looks at what a folder of the prefix cache holds, or empties it. No server may use the folder meanwhile.
#[derive(Clone, Debug, Parser)]
#[command(name = "omlx-server cache", bin_name = "omlx-server cache")]
pub(crate) enum Stored {
    /// Lists what is kept, by model and settings.
    Ls(Folder),
    /// Reads every block and says how many are damaged.
    Verify(Folder),
    /// Removes everything that is kept.
    Clear(Folder),
}

/// Which folder.
#[derive(Args, Clone, Debug)]
pub(crate) struct Folder {
    /// The folder that the server was given as --cache-dir.
    #[arg(long, value_name = "DIR")]
    cache_dir: PathBuf,
}

impl Stored {
    /// Does it, and says what was found on the standard output.
    pub(crate) fn run(&self) -> Result<()> {
        let (Self::Ls(Folder { cache_dir }) | Self::Verify(Folder { cache_dir }) | Self::Clear(Folder { cache_dir })) =
            self;
        if !cache_dir.is_dir() {
            bail!("--cache-dir {}: there is no such folder", cache_dir.display());
        }
        match self.tell(cache_dir, &mut io::stdout().lock()) {
            // Whoever reads has seen enough.
            Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
                Ok(())
            }
            told => told,
        }
    }

    fn tell(&self, cache_dir: &Path, out: &mut impl io::Write) -> Result<()> {
        match self {
            Self::Ls(_) => {
                let (store, opened) = DiskStore::look(cache_dir)?;
                let census = store.census();
                writeln!(out, "{:<14}{:>10}{:>14}", "written for", "blocks", "size")?;
                for (salt, found) in &census.by_salt {
                    let name: String = salt.as_bytes()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
                    writeln!(out, "{name:<14}{:>10}{:>14}", found.count, readable(found.bytes))?;
                }
                writeln!(out, "{}: {opened}", cache_dir.display())?;
            }
            Self::Verify(_) => {
                let (store, _) = DiskStore::look(cache_dir)?;
                let found = store.verify();
                let (good, bad) = (found.good, found.bad);
                writeln!(out, "{} blocks ({}) are good", good.count, readable(good.bytes))?;
                if bad.count > 0 {
                    bail!(
                        "{} blocks ({}) are damaged; none is ever used, and what is asked for again is computed and written anew",
                        bad.count,
                        readable(bad.bytes)
                    );
                }
            }
            Self::Clear(_) => {
                // Nothing is given up to keep to a budget.
                let (store, opened) = DiskStore::open(&DiskConfig::new(cache_dir, u64::MAX))?;
                store.clear()?;
                writeln!(out, "{} blocks ({}) were removed", opened.blocks.count, readable(opened.blocks.bytes))?;
            }
        }
        Ok(())
    }
}
