//! Rotary embedding from either spelling of the config.
//!
//! Published models have `rope_theta` and `rope_scaling`; transformers 5 writes `rope_parameters`, flat or one object per
//! kind of layer. A type that is not known here stops the load: guessing would give text that reads well and is wrong.

use omlx_ops::{RopeScaling, RopeSpec, Yarn};

use super::Config;
use crate::Result;

const TYPES: [&str; 5] = ["default", "linear", "llama3", "yarn", "longrope"];

/// For how long texts a model was made.
#[derive(Clone, Copy)]
struct Span {
    /// Longest sequence in tokens.
    context: usize,
    /// The same in its first training, where the config says it beside the rotation.
    original: Option<usize>,
}

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
        self.whole_head(dim)?;
        self.rotation(dim, context)
    }

    /// The same where the architecture knows heads of which a part is rotated; `absent` is the part that no key means.
    ///
    /// # Errors
    /// As [`Self::rope`], and when the part is no even number of dimensions.
    pub fn rope_of_part(&self, head: usize, absent: f32, context: usize) -> Result<RopeSpec> {
        let (key, part) = self.part_of_head()?.unwrap_or(("partial_rotary_factor".into(), absent));
        // Cut to a whole number as the reference does, but for what f32 loses of a fraction like 0.7.
        let dim = (head as f64 * f64::from(part) + 1e-4) as usize;
        if !(0.0..=1.0).contains(&part) || dim == 0 || !dim.is_multiple_of(2) {
            return Err(self.bad(&key, part.to_string(), format!("an even number of the {head} dimensions of a head")));
        }
        self.rotation(dim, context)
    }

    fn rotation(&self, dim: usize, context: usize) -> Result<RopeSpec> {
        let theta = self.positive("rope_theta")?.unwrap_or(10_000.0);
        let span = self.span(context)?;
        let spec = match (self.section("rope_parameters")?, self.section("rope_scaling")?) {
            (Some(new), _) => {
                let own = new.section(LayerKind::Full.word())?.unwrap_or(new);
                own.rope_object(dim, theta, span)?
            }
            (None, Some(old)) => old.rope_object(dim, theta, span)?,
            (None, None) => RopeSpec { dim, base: theta, scaling: RopeScaling::None },
        };
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
            Some(object) => object.rope_object(dim, base, self.span(context)?),
            None => Ok(RopeSpec { dim, base, scaling: RopeScaling::None }),
        }
    }

    /// A rotation whose base and dimensions are known, stretched by `rope_scaling` if it is `scaled`.
    ///
    /// # Errors
    /// When a type is not known or a value it needs is absent or out of range.
    pub fn rope_of_layer(&self, dim: usize, base: f32, scaled: bool, context: usize) -> Result<RopeSpec> {
        match self.section("rope_scaling")?.filter(|_| scaled) {
            Some(object) => object.rope_object(dim, base, self.span(context)?),
            None => Ok(RopeSpec { dim, base, scaling: RopeScaling::None }),
        }
    }

    /// Refuses to rotate a part of each head, wherever it is said.
    fn whole_head(&self, dim: usize) -> Result<()> {
        match self.part_of_head()? {
            Some((key, part)) if part != 1.0 => {
                Err(self.bad(&key, part.to_string(), format!("1: all {dim} dimensions of a head")))
            }
            _ => Ok(()),
        }
    }

    /// Which part of each head is rotated, and the key that says so: of the config, of its rotation, or of a kind of layer's.
    fn part_of_head(&self) -> Result<Option<(String, f32)>> {
        const KEY: &str = "partial_rotary_factor";
        let mut places = vec![(KEY.to_owned(), self.opt::<f32>(KEY)?)];
        for outer in ["rope_parameters", "rope_scaling"] {
            let Some(object) = self.section(outer)? else { continue };
            places.push((format!("{outer}.{KEY}"), object.opt(KEY)?));
            for (kind, _) in LayerKind::WORDS {
                if let Some(own) = object.section(kind)? {
                    places.push((format!("{outer}.{kind}.{KEY}"), own.opt(KEY)?));
                }
            }
        }
        Ok(places.into_iter().find_map(|(key, part)| Some((key, part?))))
    }

    fn span(&self, context: usize) -> Result<Span> {
        // Some configs say it beside the rotation, and then that holds.
        let original = self.opt::<usize>("original_max_position_embeddings")?;
        let original = original.map(|_| self.original_context(context)).transpose()?;
        Ok(Span { context, original })
    }

    fn rope_object(&self, dim: usize, base: f32, span: Span) -> Result<RopeSpec> {
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
                original_context: self.original(span)?,
            },
            "yarn" => RopeScaling::Yarn(Yarn {
                factor: self.factor()?,
                original_context: self.original(span)?,
                // Zero counts as absent, as in the reference.
                beta_fast: self.not_negative("beta_fast")?.filter(|b| *b != 0.0).unwrap_or(32.0),
                beta_slow: self.not_negative("beta_slow")?.filter(|b| *b != 0.0).unwrap_or(1.0),
                attention_factor: self.positive("attention_factor")?,
                mscale: self.not_negative("mscale")?,
                mscale_all_dim: self.not_negative("mscale_all_dim")?,
                truncate: self.or("truncate", true)?,
            }),
            // "su" is what the first configs called it.
            "longrope" | "su" => self.longrope(dim, span)?,
            other => return Err(self.unknown(key, other, TYPES.to_vec())),
        };
        Ok(RopeSpec { dim, base, scaling })
    }

    /// Short divisors are for models that go no further than they were first trained, long ones for all others. The reference
    /// changes over as a text grows, which leaves keys in the cache that were rotated otherwise; here a model has one rotation.
    fn longrope(&self, dim: usize, span: Span) -> Result<RopeScaling> {
        let original = self.original(span)?;
        let (key, other) = ("long_factor", "short_factor");
        let (key, other) = if span.context > original { (key, other) } else { (other, key) };
        let (divisors, _): (Vec<f32>, Vec<f32>) = (self.need(key)?, self.need(other)?);
        if divisors.len() != dim / 2 {
            return Err(self.bad(
                key,
                format!("{} numbers", divisors.len()),
                format!("{}, one per rotated pair", dim / 2),
            ));
        }
        if let Some(bad) = divisors.iter().find(|d| **d <= 0.0) {
            return Err(self.bad(key, bad.to_string(), "numbers above zero"));
        }
        let factor = self.positive("factor")?.unwrap_or(span.context as f32 / original as f32);
        let paper = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f32).ln()).sqrt() };
        let amplitude = self.positive("attention_factor")?.unwrap_or(paper);
        Ok(RopeScaling::Long { divisors: divisors.into(), amplitude })
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

    fn original(&self, span: Span) -> Result<usize> {
        match span.original {
            Some(original) => Ok(original),
            None => self.original_context(span.context),
        }
    }

    fn original_context(&self, context: usize) -> Result<usize> {
        self.count_or("original_max_position_embeddings", context, 1..=1 << 24)
    }
}
