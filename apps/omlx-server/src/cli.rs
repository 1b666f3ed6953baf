//! What the user may type: the first of two stages, everything optional. `config.rs` makes the second of it.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, ValueEnum};
use omlx_http::Parameter;
use omlx_kv::KvBits;

use crate::caching::Caching;
use crate::config::{Guarding, Memory, OrOff};
use crate::shown::shown;

const USAGE: &str = "\
omlx-server --model <PATH|REPO>... [OPTIONS]
       omlx-server --model-dir <DIR>... [OPTIONS]
       omlx-server cache <ls|verify|clear> --cache-dir <DIR>";

// One line a paragraph: clap wraps them to the terminal, keeping the indentation.
const EXAMPLES: &str = "\
EXAMPLES
  Serve one model on http://127.0.0.1:8000:
    omlx-server --model ~/.cache/omlx/models/gguf/SmolLM2-135M-Instruct.Q4_1.gguf

  Serve every model in a folder, each loaded on first use:
    omlx-server --model-dir ~/.cache/omlx/models

  Let the local network in, with a key, and bound memory and parallel answers:
    OMLX_API_KEY=... omlx-server --model-dir ~/models --host 0.0.0.0 \\
      --kv-memory 4GiB --max-concurrent 4

  Ask the first one, which is also what `cargo xtask demo` serves:
    curl http://127.0.0.1:8000/v1/chat/completions \\
      -H 'content-type: application/json' \\
      -d '{\"model\": \"SmolLM2-135M-Instruct.Q4_1\",
           \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"temperature\": 0.2}'

MODELS
  A model is a Hugging Face folder (config.json, tokenizer.json, *.safetensors) or one .gguf file. Its name in the API says where it lies, not how it was asked for: below --model-dir its path there, elsewhere the last part of its path, both without .gguf; a model from the hub has its name there, owner/name. Requests may leave out all but the last part where only one model ends in it. GET /v1/models lists them. A model that cannot be loaded does not disturb the others, and the log says why; where there is no other, or --model names what is nowhere, the server does not start.

ENVIRONMENT
  OMLX_API_KEY   the key that clients must send
  OMLX_MODELS    a folder where names are looked up, before the hub's cache
                 [default: ~/.cache/omlx/models]
  HF_HUB_CACHE   where models from the hub are kept
                 [default: ~/.cache/huggingface/hub, or hub in HF_HOME]
  HF_TOKEN       a token for the hub, for private and gated models
  HF_ENDPOINT    another hub than https://huggingface.co
  HTTPS_PROXY    a proxy on the way to it

STOPPING
  Ctrl-C (or SIGTERM) stops taking requests and lets running answers finish, for 30 seconds at most; a second Ctrl-C ends at once.";

/// Serves language models on this machine over the OpenAI API.
#[derive(Clone, Debug, Parser)]
#[command(name = "omlx-server", version, override_usage = USAGE, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) work: Work,
    #[command(flatten)]
    pub(crate) cache: Cache,
    #[command(flatten)]
    pub(crate) sampling: Sampling,

    /// How much is logged, to the standard error; prompts, answers and keys never are.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info, help_heading = "Log and checks")]
    pub(crate) log_level: LogLevel,

    /// How operations compute: reference uses the slow and plain version of each, a second opinion where an answer
    /// looks wrong.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = KernelKind::Fast, help_heading = "Log and checks")]
    pub(crate) kernels: KernelKind,
}

impl Cli {
    /// The complaint about a command line that names no model: every way to name one.
    pub(crate) fn nothing_to_serve(cache: Option<&Path>) -> clap::Error {
        let cache = cache.map_or("DIR".into(), |cache| cache.display().to_string());
        Self::command().error(
            ErrorKind::MissingRequiredArgument,
            format!(
                "nothing to serve; say what:\n\n  \
                 omlx-server --model-dir DIR     every model in a folder, each loaded on first use\n  \
                 omlx-server --model PATH        one model: a folder with config.json, or a .gguf file\n  \
                 omlx-server --model OWNER/NAME  one model by its name on the Hugging Face hub\n  \
                 omlx-server --model-dir {cache}\n                                  \
                 what was fetched before, by `cargo xtask models` for one\n  \
                 cargo xtask demo                fetches a small model and serves it (in the source tree)"
            ),
        )
    }
}

/// Which models are served.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Models (at least one of --model, --model-dir)")]
pub(crate) struct Models {
    /// A model to load at start: a folder, a .gguf file, or a name such as HuggingFaceTB/SmolLM2-135M-Instruct that is
    /// looked up on this machine first and else fetched from the Hugging Face hub. May be given several times.
    #[arg(long, value_name = "PATH|REPO")]
    pub(crate) model: Vec<String>,

    /// A folder of models, each loaded when first asked for. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: Vec<PathBuf>,

    /// Never ask the hub: use only what is on this machine.
    #[arg(long)]
    pub(crate) offline: bool,

    /// The name of the model in the API, in place of its own; needs exactly one --model.
    #[arg(long, value_name = "ALIAS", requires = "model")]
    pub(crate) name: Option<String>,
}

/// Who can reach the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub(crate) struct Network {
    /// The address to listen on. Anything but this machine itself needs --api-key or --no-auth.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The port to listen on; 0 takes a free one and prints it.
    #[arg(long, value_name = "PORT", default_value_t = 8000, value_parser = whole::<u16>(0, u16::MAX.into()))]
    pub(crate) port: u16,

    /// The key that clients must send, as `Authorization: Bearer KEY` or `x-api-key: KEY`. The environment variable is
    /// the better way: other users of the machine can see the command line.
    #[arg(long, value_name = "KEY", env = "OMLX_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// Serve other machines without a key: whoever can reach the port can use the models.
    #[arg(long, conflicts_with = "api_key")]
    pub(crate) no_auth: bool,
}

/// How much is computed and remembered at once.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Work and memory (per loaded model)")]
pub(crate) struct Work {
    /// Answers written at the same time; further requests wait their turn.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<u32>(1, 4096))]
    pub(crate) max_concurrent: u32,

    /// Longest prompt and answer together, in tokens [default: what the model was made for, if the memory holds it]
    #[arg(long, value_name = "TOKENS", value_parser = whole::<u32>(2, MOST))]
    pub(crate) context: Option<u32>,

    /// Memory for keys and values: bytes with a unit (512MB, 2GiB), or a share of what is free when the model is
    /// loaded and not promised to others. No more is taken than --max-concurrent answers of full length need.
    #[arg(long, value_name = "SIZE|SHARE", default_value = "25%")]
    pub(crate) kv_memory: Memory,

    /// How keys and values are kept: f32 is exact, f16 and bf16 take half the memory and are read in half the time.
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = KvType::F16)]
    pub(crate) kv_dtype: KvType,

    /// Keys and values as codes of a few bits a number, in all layers but the first and last two that see the whole text and
    /// those that see a window, which stay as --kv-dtype says: 8, 6, 4, 3.5, 3, 2.5 or 2 bits, or k=4,v=3 for keys and values
    /// apart.
    #[arg(long, value_name = "BITS", default_value_t = KvBits::Off)]
    pub(crate) kv_bits: KvBits,

    /// Tokens per cache block: prompts that begin alike share whole blocks.
    #[arg(long, value_name = "TOKENS", default_value_t = 32, value_parser = whole::<u32>(1, 1024))]
    pub(crate) block: u32,

    /// Tokens computed per step, over all answers: larger reads prompts faster, smaller keeps answers smoother.
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = whole::<u32>(1, 65536))]
    pub(crate) step_tokens: u32,

    /// How long reading a prompt may hold up those who are being answered, in milliseconds: prompts are read in chunks
    /// of the size that keeps to it. 0 lets every step be as large as --step-tokens.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = whole::<u32>(0, 60_000))]
    pub(crate) step_ms: u32,

    /// How much memory this server may take: safe (beside other work), balanced, aggressive (a machine that only serves), a
    /// size (24GiB), a share of all memory (60%), or off. Near it requests wait, above it new ones are told to come
    /// again later; a model that does not fit below it is not loaded.
    #[arg(long, value_name = "TIER|SIZE|SHARE", default_value = "balanced")]
    pub(crate) memory_guard: Guarding,

    /// Where to compute: cpu, cuda or cuda:N, metal or metal:N. All but cpu need a server that was built with that
    /// feature (cargo build --release --features cuda), and are untested and slow so far.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: String,

    /// Threads that compute [default: one per physical core]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 256))]
    pub(crate) threads: Option<u32>,
}

/// What is kept of prompts beside the models' own KV caches, so that they are not computed again.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prefix cache (of all models together)")]
pub(crate) struct Cache {
    /// Memory for parts of prompts that the KV cache of a model has no room for any more: a size, or a share of what is free at
    /// the start. It is given back when memory is short.
    #[arg(long, value_name = "SIZE|SHARE|off", default_value = "10%")]
    pub(crate) cache_ram: OrOff,

    /// Keep parts of prompts in this folder too, where they survive a restart. Whoever can read the folder can read what was
    /// asked. One server at a time uses a folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// The most that --cache-dir may take: a size, or a share of what is free on its disk.
    #[arg(long, value_name = "SIZE|SHARE", default_value = "25%", requires = "cache_dir")]
    pub(crate) cache_disk: Memory,

    /// Keep nothing beside the KV caches of the models.
    #[arg(long, conflicts_with_all = ["cache_ram", "cache_dir", "cache_disk"])]
    pub(crate) no_cache: bool,
}

impl Cache {
    /// The question answered.
    pub(crate) fn caching(self) -> Caching {
        let on = !self.no_cache;
        Caching {
            ram: self.cache_ram.0.filter(|_| on),
            disk: self.cache_dir.filter(|_| on).map(|folder| (folder, self.cache_disk)),
        }
    }
}

/// How tokens are drawn where a request does not say; the same ranges as a request's.
#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Sampling (the first that says: request, --set, the model's generation_config.json, flags below)"
)]
pub(crate) struct Sampling {
    /// How freely tokens are drawn, 0 to 2: 0 always takes the likeliest.
    #[arg(long, visible_alias = "temp", value_name = "T", allow_negative_numbers = true,
        value_parser = |text: &str| Parameter::Temperature.parse(text))]
    pub(crate) temperature: Option<f32>,

    /// Draw from this many likeliest tokens; 0 from all.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0, MOST))]
    pub(crate) top_k: Option<u32>,

    /// Draw from the likeliest tokens that have this share of the probability together, above 0 to 1.
    #[arg(long, value_name = "P", allow_negative_numbers = true,
        value_parser = |text: &str| Parameter::TopP.parse(text))]
    pub(crate) top_p: Option<f32>,

    /// Leave out tokens less likely than this share of the likeliest one, 0 to 1.
    #[arg(long, value_name = "P", allow_negative_numbers = true,
        value_parser = |text: &str| Parameter::MinP.parse(text))]
    pub(crate) min_p: Option<f32>,

    /// Make tokens that were seen already less likely, above 0 to 10; 1 is off.
    #[arg(long, visible_alias = "repeat-penalty", value_name = "R", allow_negative_numbers = true,
        value_parser = |text: &str| Parameter::RepetitionPenalty.parse(text))]
    pub(crate) repetition_penalty: Option<f32>,

    /// Most new tokens of an answer [default: 16 for completions, what the context leaves for chats]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, MOST))]
    pub(crate) max_tokens: Option<u32>,

    /// Values for one model, which win over its author's: --set SmolLM2-135M-Instruct.Q4_1:temperature=0.2,max_tokens=512. May be given several
    /// times. Settings: temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, max_tokens.
    #[arg(long, value_name = "MODEL:NAME=VALUE,..", value_parser = of_one_model)]
    pub(crate) set: Vec<(String, omlx_http::Settings)>,
}

/// As much as a count can be.
const MOST: u64 = u32::MAX as u64;

/// What reads a whole number, and says which ones it takes to whoever gave another, or none.
fn whole<T: TryFrom<u64>>(least: u64, most: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match most {
            MOST => format!("expected a whole number, {least} or more"),
            most => format!("expected a whole number from {least} to {most}"),
        })
    }
}

/// A model's name and what is set for it. The last colon counts: a name may have some, values have none.
fn of_one_model(text: &str) -> Result<(String, omlx_http::Settings), String> {
    match text.rsplit_once(':') {
        Some((model, settings)) if !model.is_empty() => settings
            .parse()
            .map(|settings| (model.to_owned(), settings))
            .map_err(|error: omlx_http::Unsettable| shown(&error.to_string()).into_owned()),
        _ => Err("a model's name and a colon come first, as in SmolLM2-135M-Instruct.Q4_1:temperature=0.2".to_owned()),
    }
}

impl Sampling {
    /// As the API side takes it.
    pub(crate) fn settings(&self) -> omlx_http::Settings {
        omlx_http::Settings {
            temperature: self.temperature,
            top_k: self.top_k.map(|k| k as usize),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            max_tokens: self.max_tokens.map(|most| most as usize),
            ..omlx_http::Settings::default()
        }
    }
}

/// Precision of keys and values in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvType {
    F32,
    F16,
    Bf16,
}

/// Which version of each operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KernelKind {
    Fast,
    Reference,
}

/// Least important message that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
