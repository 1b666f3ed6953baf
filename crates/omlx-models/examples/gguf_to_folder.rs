//! Turns a GGUF file into a Hugging Face folder: bf16 safetensors, config.json, generation_config.json, and the tokenizer's files
//! where a folder can hold that kind of vocabulary (byte-level; a SentencePiece vocabulary stays in the GGUF file).
//!
//! `cargo run --release --example gguf_to_folder -- MODEL.gguf FOLDER`

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use candle_core::Device;
use half::bf16;
use omlx_models::weights::{Export, Weights};
use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.as_slice() {
        [gguf, folder] => convert(Path::new(gguf), Path::new(folder)),
        _ => Err("usage: gguf_to_folder MODEL.gguf FOLDER".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn convert(gguf: &Path, folder: &Path) -> Result<()> {
    let weights = Weights::open(gguf, &Device::Cpu)?;
    fs::create_dir_all(folder)?;
    let mut config = weights.config().keys().clone();
    config.insert("torch_dtype".into(), "bfloat16".into());
    let ids = ["bos_token_id", "eos_token_id", "pad_token_id"];
    let generation: Map<String, Value> = ids
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), config.get(*key).filter(|v| !v.is_null())?.clone())))
        .collect();
    write_json(&folder.join("config.json"), &config)?;
    write_json(&folder.join("generation_config.json"), &generation)?;
    if !omlx_text::export_gguf(gguf, folder)? {
        writeln!(io::stderr(), "{}: a SentencePiece vocabulary, so no tokenizer.json", gguf.display())?;
    }
    // Under another name until it is whole: a cut-off file must not look like a model.
    let partial = folder.join("model.safetensors.partial");
    write_tensors(&partial, &weights)?;
    fs::rename(&partial, folder.join("model.safetensors"))?;
    Ok(())
}

fn write_json(path: &Path, keys: &Map<String, Value>) -> Result<()> {
    Ok(fs::write(path, serde_json::to_string_pretty(keys)? + "\n")?)
}

fn write_tensors(path: &Path, weights: &Weights) -> Result<()> {
    let exports = weights.exports()?;
    let header = header(&exports).to_string();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    // Data begins at a multiple of eight, as other writers have it.
    let padded = header.len().next_multiple_of(8);
    file.write_all(&(padded as u64).to_le_bytes())?;
    file.write_all(format!("{header:padded$}").as_bytes())?;
    for export in &exports {
        for value in weights.values(export)? {
            file.write_all(&bf16::from_f32(value).to_le_bytes())?;
        }
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

fn header(exports: &[Export]) -> Value {
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    let mut begin = 0;
    for export in exports {
        let end = begin + 2 * export.shape.iter().product::<usize>();
        header
            .insert(export.name.clone(), json!({"dtype": "BF16", "shape": export.shape, "data_offsets": [begin, end]}));
        begin = end;
    }
    header.into()
}
