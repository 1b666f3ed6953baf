//! Rotary embedding from either spelling of the config.
//!
//! Published models have `rope_theta` and `rope_scaling`; transformers 5 writes `rope_parameters`, flat or one object per
//! kind of layer. A type that is not known here stops the load: guessing would give text that reads well and is wrong.

use omlx_ops::{RopeScaling, RopeSpec, Yarn};

use super::Config;
use crate::Result;

const TYPES: [&str; 4] = ["default", "linear", "llama3", "yarn"];

/// The two kinds of layer that a config tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Sees the whole context.
    Full,
    /// Sees a window.
    Sliding,
}

impl LayerKind {
    /// Words of `layer_types`.
    pub const WORDS: [(&'static str, Self); 2] = [("full_attention", Self::Full), ("sliding_attention", Self::Sliding)];

    fn word(self) -> &'static str {
        match self {
            Self::Full => "full_attention",
            Self::Sliding => "sliding_attention",
        }
    }
}

impl Config {
    /// `layer_types`, one per layer, if the key is there.
    ///
    /// # Errors
    /// When there are more or fewer than `layers`, or one is not known.
    pub fn layer_kinds(&self, layers: usize) -> Result<Option<Vec<LayerKind>>> {
        let Some(words) = self.opt::<Vec<String>>("layer_types")? else { return Ok(None) };
        if words.len() != layers {
            return Err(self.bad(
                "layer_types",
                format!("{} entries", words.len()),
                format!("one per layer, {layers}"),
            ));
        }
        words.iter().map(|w| self.word("layer_types", w, &LayerKind::WORDS)).collect::<Result<_>>().map(Some)
    }

    /// The rotary embedding of a model whose layers all rotate alike.
    ///
    /// # Errors
    /// When a type is not known or a value it needs is absent or out of range.
    pub fn rope(&self, dim: usize, context: usize) -> Result<RopeSpec> {
        let theta = self.positive("rope_theta")?.unwrap_or(10_000.0);
        let spec = match (self.section("rope_parameters")?, self.section("rope_scaling")?) {
            (Some(new), _) => {
                let own = new.section(LayerKind::Full.word())?.unwrap_or(new);
                own.rope_object(dim, theta, context)?
            }
            (None, Some(old)) => old.rope_object(dim, theta, context)?,
            (None, None) => RopeSpec { dim, base: theta, scaling: RopeScaling::None },
        };
        self.whole_head(dim)?;
        Ok(spec)
    }

    /// The rotary embedding of one kind of layer, where the two kinds differ: `base` holds without any key, and only full
    /// layers are scaled by the old spelling.
    ///
    /// # Errors
    /// When a type is not known or a value it needs is absent or out of range.
    pub fn rope_of(&self, kind: LayerKind, dim: usize, base: f32, context: usize) -> Result<RopeSpec> {
        self.whole_head(dim)?;
        let (theta, scaling) = match kind {
            LayerKind::Full => (self.positive("rope_theta")?, self.section("rope_scaling")?),
            LayerKind::Sliding => (self.positive("rope_local_base_freq")?, None),
        };
        let base = theta.unwrap_or(base);
        let object = match self.section("rope_parameters")? {
            Some(new) => match new.section(kind.word())? {
                // One flat object for two kinds of layer: which of them is meant is not said.
                None if new.keys().contains_key("rope_type") || new.keys().contains_key("rope_theta") => {
                    return Err(self.bad("rope_parameters", "one object", "one object per kind of layer"));
                }
                own => own,
            },
            None => scaling,
        };
        match object {
            Some(object) => object.rope_object(dim, base, context),
            None => Ok(RopeSpec { dim, base, scaling: RopeScaling::None }),
        }
    }

    /// Rotating a part of each head is another wiring, wherever it is said.
    fn whole_head(&self, dim: usize) -> Result<()> {
        match self.opt::<f32>("partial_rotary_factor")? {
            Some(part) if part != 1.0 => {
                Err(self.bad("partial_rotary_factor", part.to_string(), format!("1: all {dim} dimensions of a head")))
            }
            _ => Ok(()),
        }
    }

    fn rope_object(&self, dim: usize, base: f32, context: usize) -> Result<RopeSpec> {
        self.whole_head(dim)?;
        let base = self.positive("rope_theta")?.unwrap_or(base);
        let key = if self.keys().contains_key("rope_type") { "rope_type" } else { "type" };
        let kind: String = self.or(key, "default".to_owned())?;
        let scaling = match kind.as_str() {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: self.factor()? },
            "llama3" => RopeScaling::Llama3 {
                factor: self.factor()?,
                low_freq_factor: self.need_positive("low_freq_factor")?,
                high_freq_factor: self.need_positive("high_freq_factor")?,
                original_context: self.original_context(context)?,
            },
            "yarn" => RopeScaling::Yarn(Yarn {
                factor: self.factor()?,
                original_context: self.original_context(context)?,
                // Zero counts as absent, as in the reference.
                beta_fast: self.not_negative("beta_fast")?.filter(|b| *b != 0.0).unwrap_or(32.0),
                beta_slow: self.not_negative("beta_slow")?.filter(|b| *b != 0.0).unwrap_or(1.0),
                attention_factor: self.positive("attention_factor")?,
                mscale: self.not_negative("mscale")?,
                mscale_all_dim: self.not_negative("mscale_all_dim")?,
                truncate: self.or("truncate", true)?,
            }),
            other => return Err(self.unknown(key, other, TYPES.to_vec())),
        };
        Ok(RopeSpec { dim, base, scaling })
    }

    fn factor(&self) -> Result<f32> {
        let factor: f32 = self.need("factor")?;
        if factor >= 1.0 { Ok(factor) } else { Err(self.bad("factor", factor.to_string(), "1 or more")) }
    }

    fn need_positive(&self, key: &str) -> Result<f32> {
        match self.positive(key)? {
            Some(n) => Ok(n),
            None => self.need(key),
        }
    }

    fn not_negative(&self, key: &str) -> Result<Option<f32>> {
        match self.opt::<f32>(key)? {
            Some(n) if n < 0.0 => Err(self.bad(key, n.to_string(), "0 or more")),
            other => Ok(other),
        }
    }

    fn original_context(&self, context: usize) -> Result<usize> {
        self.count_or("original_max_position_embeddings", context, 1..=1 << 24)
    }
}
