//! Names and row order.

use candle_core::Device;
use omlx_fixtures::tiny;

use super::{Matrix, Part, Weights};

#[test]
fn names_in_a_folder() {
    let weights = Weights::open(&tiny("llama"), &Device::Cpu).unwrap();
    for (at, expected) in [
        (Part::Embed.once(), "model.embed_tokens"),
        (Part::Head.once(), "lm_head"),
        (Part::LastNorm.once(), "model.norm"),
        (Part::Query.of(1), "model.layers.1.self_attn.q_proj"),
    ] {
        assert_eq!(weights.folder_name(at), expected);
    }
}

#[test]
fn every_tensor_of_a_folder_is_exported_under_its_name() {
    for name in ["llama", "qwen2", "gemma3_sw8", "mistral"] {
        let weights = Weights::open(&tiny(name), &Device::Cpu).unwrap();
        let mut names: Vec<String> = weights.exports().unwrap().into_iter().map(|e| e.name).collect();
        names.sort();
        let super::Source::Folder(folder) = &*weights.source else { panic!() };
        assert_eq!(names, folder.names().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn leftovers_are_counted() {
    let mut weights = Weights::open(&tiny("llama"), &Device::Cpu).unwrap();
    let table = Matrix { rows: 272, cols: 64, bias: false, heads: 1 };
    weights.linear(Part::Embed.once(), table).unwrap();
    let error = weights.finish().unwrap_err().to_string();
    assert!(error.contains("19 tensor(s)"), "{error}");
}
