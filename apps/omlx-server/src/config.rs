//! The configuration in its second stage: every question answered, printed at start.
//!
//! Nothing after this file asks "or the default?". What depends on a model or on the memory that is free when it is
//! loaded stays a rule here ([`Context`], [`Memory`]) and becomes a number in `catalog/load.rs`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use candle_core::Device;
use omlx_kv::{KvBits, KvStore};
use omlx_ops::Kernels;

use crate::caching::Caching;
use crate::cli::{Cli, KernelKind, KvType, LogLevel};
use crate::places::hub_config;
use crate::shown::{acts, shown};

mod guarding;
mod memory;

pub(crate) use guarding::{Guarded, Guarding};
pub(crate) use memory::{Memory, OrOff, readable};

/// Everything the server needs to know.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) models: Vec<Wanted>,
    pub(crate) model_dirs: Vec<PathBuf>,
    pub(crate) offline: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) access: Access,
    pub(crate) settings: Settings,
    /// What is set for single models, by their names.
    pub(crate) model_settings: Vec<(String, omlx_http::Settings)>,
    pub(crate) guard: Guarded,
    pub(crate) caching: Caching,
    pub(crate) device: Device,
    pub(crate) log_level: LogLevel,
}

/// A model to load at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// A path, or a name to look up.
    pub(crate) source: String,
    /// Its name in the API, where it is not to have its own.
    pub(crate) alias: Option<String>,
}

/// Who may use the models.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever knows the key.
    Key(String),
    /// Programs on this machine.
    ThisMachine,
    /// Whoever reaches the port.
    Anyone,
}

/// How each loaded model works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Answers at the same time.
    pub(crate) rows: usize,
    pub(crate) context: Context,
    pub(crate) kv_memory: Memory,
    pub(crate) kv_type: KvType,
    pub(crate) kv_store: KvStore,
    /// Tokens per block.
    pub(crate) block: usize,
    pub(crate) step_tokens: usize,
    /// How long a step may take while somebody waits for the next token.
    pub(crate) step_time: Option<Duration>,
    pub(crate) threads: usize,
    /// What the owner set for models whose authors say nothing.
    pub(crate) sampling: omlx_http::Settings,
}

/// The longest sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// What the model was made for, or less where the memory holds less.
    Model,
    /// So many tokens.
    Tokens(usize),
}

impl Resolved {
    /// Answers every question that the command line left open.
    pub(crate) fn new(cli: Cli) -> Result<Self> {
        let Cli { models, network, work, cache, sampling, log_level, kernels } = cli;
        if models.model.is_empty() && models.model_dir.is_empty() {
            let cache = hub_config(&[], true).model_dirs.pop();
            return Err(Cli::nothing_to_serve(cache.as_deref()).into());
        }
        if models.name.is_some() && models.model.len() != 1 {
            bail!(
                "--name renames one model, but --model was given {} times; name the folders as they should be called",
                models.model.len()
            );
        }
        if models.name.as_deref().is_some_and(|name| name.contains(acts)) {
            bail!(
                "--name holds a line break, another control character or one that turns the reading direction, which no \
                 name of a model can"
            );
        }
        if models.name.as_deref().is_some_and(|name| name.trim().is_empty()) {
            bail!("--name is empty, and no request could ask for the model; leave it out, or give a name");
        }
        let access = match network.api_key {
            Some(key) if !key.is_empty() => Access::Key(usable(key)?),
            // An empty variable is as good as none, an empty flag is a mistake, also where it hides a variable that is set.
            Some(_) if std::env::var_os("OMLX_API_KEY").is_none_or(|key| !key.is_empty()) => {
                bail!("--api-key is empty; leave it out to serve without a key")
            }
            _ if network.no_auth => Access::Anyone,
            _ => Access::ThisMachine,
        };
        let device = omlx_ops::device_by_name(&work.device).map_err(|error| {
            let why = match &error {
                // the name is said already, and that it does not work is what the reason comes to
                omlx_ops::Error::Device { why, .. } => (*why).to_owned(),
                driver => format!("cannot be used: {driver}"),
            };
            anyhow!("--device {}: {why}; cpu, the default, always can be used", shown(&work.device))
        })?;
        omlx_ops::set_kernels(match kernels {
            KernelKind::Fast => Kernels::Fast,
            KernelKind::Reference => Kernels::Reference,
        });
        omlx_ops::set_threads(work.threads.unwrap_or(0) as usize);
        Ok(Self {
            models: models.model.into_iter().map(|source| Wanted { source, alias: models.name.clone() }).collect(),
            model_dirs: models.model_dir,
            offline: models.offline,
            host: network.host,
            port: network.port,
            access,
            settings: Settings {
                rows: work.max_concurrent as usize,
                context: work.context.map_or(Context::Model, |tokens| Context::Tokens(tokens as usize)),
                kv_memory: work.kv_memory,
                kv_type: work.kv_dtype,
                kv_store: KvStore { bits: work.kv_bits, ..KvStore::default() },
                block: work.block as usize,
                step_tokens: work.step_tokens as usize,
                step_time: (work.step_ms > 0).then(|| Duration::from_millis(work.step_ms.into())),
                threads: omlx_ops::threads(),
                sampling: sampling.settings(),
            },
            model_settings: sampling.set,
            guard: work.memory_guard.resolve(),
            caching: cache.caching(),
            device,
            log_level,
        })
    }
}

/// Refuses a key that no HTTP header can carry.
fn usable(key: String) -> Result<String> {
    if key.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(key);
    }
    bail!("the API key holds a space or a character outside ASCII, which no HTTP header can carry; choose another one")
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.settings;
        let context = match s.context {
            Context::Model => "the model's own, as far as memory holds it".to_owned(),
            Context::Tokens(tokens) => format!("{tokens} tokens, or the model's own where that is less"),
        };
        writeln!(f, "  access          {}", self.access)?;
        writeln!(f, "  answers at once {} per model", s.rows)?;
        writeln!(f, "  context         {context}")?;
        writeln!(
            f,
            "  KV cache        {} per model, {}{}, blocks of {} tokens",
            budget(s.kv_memory),
            s.kv_type,
            match s.kv_store.bits {
                KvBits::Off => String::new(),
                bits @ KvBits::Turbo { .. } => format!(" and codes of {bits} bits"),
            },
            s.block
        )?;
        let (device, kernels) = match (&self.device, omlx_ops::kernels()) {
            (Device::Cpu, Kernels::Fast) => ("CPU", ""),
            (Device::Cpu, Kernels::Reference) => ("CPU", ", reference operations (slow)"),
            (Device::Cuda(_), _) => ("CUDA", ", UNTESTED, reference operations (slow)"),
            (Device::Metal(_), _) => ("Metal", ", UNTESTED, reference operations (slow)"),
        };
        writeln!(f, "  device          {device}, {} threads{kernels}", s.threads)?;
        writeln!(f, "  memory guard    {}", self.guard)?;
        writeln!(f, "  prefix cache    {}", self.caching)?;
        let own = if self.model_settings.is_empty() { "" } else { " else those of --set," };
        if s.sampling == omlx_http::Settings::default() {
            writeln!(f, "  sampling        the request's values,{own} else the model's")?;
        } else {
            writeln!(f, "  sampling        the request's values,{own} else the model's, else {}", s.sampling)?;
        }
        write!(f, "  steps           {} tokens", s.step_tokens)?;
        match s.step_time {
            Some(time) => write!(f, ", prompts in chunks of about {} ms", time.as_millis()),
            None => Ok(()),
        }
    }
}

fn budget(memory: Memory) -> String {
    match memory {
        Memory::Bytes(_) => format!("at most {memory}"),
        Memory::Percent(_) => format!("at most {memory} of free memory"),
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "with the API key",
            Self::ThisMachine => "this machine only, without a key",
            Self::Anyone => "ANYONE who reaches the port, without a key (--no-auth)",
        })
    }
}

impl fmt::Debug for Access {
    /// The key must never reach a log, so not even this shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({self})")
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

#[cfg(test)]
mod tests;
