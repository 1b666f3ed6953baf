//! From a path to a model that runs, and a card that says what it is.

use std::path::Path;

use candle_core::{DType, Device};

use crate::weights::{Contents, Weights};
use crate::{Error, Result, Transformer, Warning};

/// What loading needs to be told.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// What keys and values are stored in: f32, f16 or bf16.
    pub kv: DType,
}

/// A model and what it is.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Transformer,
    /// What it is.
    pub card: ModelCard,
}

/// What a loaded model is.
#[derive(Clone, Debug)]
pub struct ModelCard {
    /// `model_type` of config.json.
    pub arch: &'static str,
    /// Values of all tensors, as stored.
    pub parameters: u64,
    /// Bytes of all tensors, as stored.
    pub weight_bytes: u64,
    /// The types that these bytes are stored in, as the file calls them, and how many in each; the most used one first.
    pub dtypes: Vec<(&'static str, u64)>,
    /// Longest sequence in tokens.
    pub context: usize,
    /// Number of token ids.
    pub vocab: usize,
    /// Hash of config and weights: two models with the same one give the same answers.
    pub fingerprint: [u8; 32],
    /// Oddities that did not prevent loading.
    pub warnings: Vec<Warning>,
}

/// Loads a model folder or a GGUF file.
///
/// # Errors
/// When the path is no model, or it is incomplete, damaged, or of a kind that is not known.
pub fn load(path: &Path, device: &Device, options: &LoadOptions) -> Result<Loaded> {
    if !matches!(options.kv, DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::KvDtype { found: options.kv });
    }
    let mut weights = Weights::open(path, device)?;
    let arch = weights.arch();
    let spec = (arch.spec)(weights.config())?;
    let contents = weights.contents();
    let config = serde_json::to_vec(weights.config().keys()).unwrap_or_default();
    // Beside the load, which keeps one core busy copying: both read the same pages.
    let (model, fingerprint) = std::thread::scope(|scope| {
        let fingerprint = scope.spawn(|| fingerprint(&config, &contents));
        let model = Transformer::new(spec, &mut weights, options.kv);
        (model, fingerprint.join())
    });
    let model = model?;
    weights.finish()?;
    let tally = weights.tally();
    let card = ModelCard {
        arch: arch.model_type,
        parameters: tally.parameters,
        weight_bytes: tally.bytes,
        dtypes: tally.dtypes,
        context: model.spec().context,
        vocab: model.spec().vocab,
        fingerprint: fingerprint.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        warnings: weights.warnings(),
    };
    Ok(Loaded { model, card })
}

/// Looks at what shows without reading weights: that the files are there and whole, and that config and architecture are known.
///
/// # Errors
/// When `load` would fail for one of these reasons.
pub fn check(path: &Path) -> Result<()> {
    let weights = Weights::open(path, &Device::Cpu)?;
    (weights.arch().spec)(weights.config()).map(|_| ())
}

/// Every byte counts: a fine-tune may differ from its base in a few rows, and neither name, size nor time of a file says so.
fn fingerprint(config: &[u8], contents: &Contents) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update_rayon(bytes);
    };
    field(b"omlx model 1");
    field(config);
    contents.files().for_each(&mut field);
    *hasher.finalize().as_bytes()
}
