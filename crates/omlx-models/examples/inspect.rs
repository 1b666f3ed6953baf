//! Says what a model folder or a GGUF file is, without loading it: its values, layer by layer, what a token takes in the cache, and
//! the memory that weights and a context need.
//!
//! `cargo run --release --example inspect -- MODEL`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use candle_core::{DType, Device};
use omlx_models::spec::{FfnSpec, LayerSpec, QkNorm, Spec};
use omlx_models::weights::Weights;
use omlx_ops::Reach;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.as_slice() {
        [model] => inspect(Path::new(model)).and_then(|text| Ok(io::stdout().write_all(text.as_bytes())?)),
        _ => Err("usage: inspect MODEL".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn inspect(model: &Path) -> Result<String> {
    let weights = Weights::open(model, &Device::Cpu)?;
    let spec = (weights.arch().spec)(weights.config())?;
    let mut out = format!(
        "{}: {} layers, {} wide, {} tokens in the vocabulary, context {}\n",
        weights.arch().model_type,
        spec.layers.len(),
        spec.hidden,
        spec.vocab,
        spec.context
    );
    for (what, layers) in alike(&spec) {
        out += &format!("layers {}\n{what}", runs(&layers));
    }
    let tied = if spec.head.tied { "the embedding again" } else { "a matrix of its own" };
    out += &format!("head: {tied}{}\n", spec.head.softcap.map_or(String::new(), |cap| format!(", within ±{cap}")));
    let stored = stored(model)?;
    out += &format!("weights: {} MiB in files\n", stored >> 20);
    for kv in [DType::F32, DType::BF16] {
        let (every, within) = cache(&spec, kv);
        let whole = stored + every * spec.context as u64 + within;
        out += &format!(
            "keys and values in {kv:?}: {every} bytes a token, and {} KiB of windows; with weights and the whole context {} MiB\n",
            within >> 10,
            whole >> 20
        );
    }
    Ok(out)
}

/// What layers are like, and which ones are like that.
fn alike(spec: &Spec) -> Vec<(String, Vec<usize>)> {
    let mut kinds: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, layer) in spec.layers.iter().enumerate() {
        let what = describe(layer);
        match kinds.iter_mut().find(|(known, _)| *known == what) {
            Some((_, layers)) => layers.push(index),
            None => kinds.push((what, vec![index])),
        }
    }
    kinds
}

fn describe(layer: &LayerSpec) -> String {
    let a = &layer.attn;
    let rope = a.rope.as_ref().map_or("none".to_owned(), |rope| {
        format!("{} of {} dimensions, base {}, scaling {:?}", rope.dim, a.dim, rope.base, rope.scaling)
    });
    let extras = [
        (a.bias.qkv, "biases"),
        (a.qk_norm != QkNorm::None, "q/k norm"),
        (a.softcap.is_some(), "softcap"),
        (a.gate, "gate"),
        (a.sinks, "sinks"),
    ];
    let extras: String = extras.iter().filter(|(there, _)| *there).map(|(_, name)| format!(", {name}")).collect();
    let ffn = match layer.ffn {
        FfnSpec::Dense { width, act, .. } => format!("{width} wide, {act:?}"),
        FfnSpec::Moe(moe) => {
            let shared = moe.shared.map_or(String::new(), |shared| format!(", and one of {} for all", shared.width));
            format!(
                "{} of {} experts, {} wide{shared}, {:?}, {:?}",
                moe.router.top, moe.experts, moe.width, moe.act, moe.router
            )
        }
    };
    format!(
        "  attention     {} heads of {}, {} of keys and values, sees {:?}{extras}\n  rotation      {rope}\n  feed-forward  {ffn}\n",
        a.q_heads, a.dim, a.kv_heads, a.reach
    )
}

/// 0-3, 5
fn runs(layers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for layer in layers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *layer => *last = *layer,
            _ => runs.push((*layer, *layer)),
        }
    }
    let name = |(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    runs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Bytes of every token, where layers see all of them; and of windows, which are full at some point and take no more then.
fn cache(spec: &Spec, kv: DType) -> (u64, u64) {
    let layout = spec.layout(kv);
    let (mut every, mut within) = (0, 0);
    for (index, group) in layout.groups.iter().enumerate() {
        let token = layout.block_bytes(index, 1);
        match group.reach {
            Reach::All => every += token,
            Reach::Last(last) => within += token * last.min(spec.context) as u64,
            Reach::Keep { first, last } => within += token * first.saturating_add(last).min(spec.context) as u64,
        }
    }
    (every, within)
}

/// Bytes of the tensor files.
fn stored(model: &Path) -> Result<u64> {
    if model.is_file() {
        return Ok(model.metadata()?.len());
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(model)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "safetensors") {
            bytes += path.metadata()?.len();
        }
    }
    Ok(bytes)
}
