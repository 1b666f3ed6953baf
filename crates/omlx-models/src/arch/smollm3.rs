//! SmolLM3: Llama in which every fourth layer is told no positions.

use super::{Arch, llama, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::Spec;
use crate::weights::Part;

/// SmolLM3 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "smollm3",
    also: &[],
    classes: &["SmolLM3ForCausalLM"],
    gguf: Some("smollm3"),
    spec,
    gguf_keys: llama::gguf_keys,
    names: shared_names![(Part::BeforeFfn, "post_attention_layernorm", "ffn_norm")],
    norm_offset: 0.0,
    gguf_interleaves: true,
    partial_rotary: false,
    experts: false,
};

/// Every so many layers one without rotation, where the config does not list them; GGUF files never do.
const INTERVAL: usize = 4;

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let rotated = rotated(c, d.layers)?;
    // Windows, were they switched on, would be those of the layers without rotation; published configs have none.
    c.must_be_off("use_sliding_window")?;
    let reaches = pre_norm::reaches(c, d.layers, None)?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &reaches)?;
    pre_norm::biases(c, &mut spec)?;
    spec.head.tied = c.or("tie_word_embeddings", true)?;
    for (layer, rotated) in spec.layers.iter_mut().zip(rotated) {
        layer.attn.rope = layer.attn.rope.take().filter(|_| rotated);
    }
    Ok(spec)
}

/// The list says 1 for a layer that is rotated, its name notwithstanding.
fn rotated(c: &Config, layers: usize) -> Result<Vec<bool>> {
    let interval = c.count_or("no_rope_layer_interval", INTERVAL, 1..=1024)?;
    let Some(list) = c.opt::<Vec<usize>>("no_rope_layers")? else {
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect());
    };
    if list.len() < layers || list.iter().any(|one| *one > 1) {
        return Err(c.bad("no_rope_layers", format!("{list:?}"), format!("0 or 1 for each of {layers} layers")));
    }
    Ok(list.iter().take(layers).map(|one| *one == 1).collect())
}
