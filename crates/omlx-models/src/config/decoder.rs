//! The keys that every decoder's config shares, with their ranges.

use omlx_ops::Act;

use super::Config;
use crate::Result;

/// Sizes that every decoder has.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Rows of the embedding.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of gate and of up.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub q_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Size of a head.
    pub dim: usize,
    /// Longest sequence in tokens.
    pub context: usize,
    /// Of every norm.
    pub eps: f32,
    /// What no `hidden_act` means.
    pub act_absent: Option<&'static str>,
}

/// What a family's own code fills in where its published configs leave a key out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent {
    /// `vocab_size`.
    pub vocab: Option<usize>,
    /// `num_attention_heads`.
    pub q_heads: Option<usize>,
    /// `num_key_value_heads`; without it, as many as query heads.
    pub kv_heads: Option<usize>,
    /// `head_dim`; without it, hidden size by heads.
    pub dim: Option<usize>,
    /// `max_position_embeddings`.
    pub context: Option<usize>,
    /// `rms_norm_eps`.
    pub eps: Option<f32>,
    /// `hidden_act`.
    pub act: Option<&'static str>,
}

impl Decoder {
    /// Reads the shared keys.
    ///
    /// # Errors
    /// When one is absent with no value in `absent`, out of range, or does not fit the others.
    pub fn read(c: &Config, absent: Absent) -> Result<Self> {
        // Far above every model there is, and small enough that products of three fit in 64 bits.
        const HEADS: std::ops::RangeInclusive<usize> = 1..=1024;
        const WIDTH: std::ops::RangeInclusive<usize> = 1..=1 << 20;
        let count = |key, absent: Option<usize>, range| match absent {
            Some(n) => c.count_or(key, n, range),
            None => c.count(key, range),
        };
        let hidden = c.count("hidden_size", WIDTH)?;
        let q_heads = count("num_attention_heads", absent.q_heads, HEADS)?;
        let kv_heads = c.count_or("num_key_value_heads", absent.kv_heads.unwrap_or(q_heads), HEADS)?;
        if q_heads % kv_heads != 0 {
            return Err(c.bad("num_key_value_heads", kv_heads.to_string(), format!("a divisor of {q_heads}")));
        }
        let dim = match (c.opt::<usize>("head_dim")?.or(absent.dim), hidden % q_heads) {
            (Some(dim), _) => dim,
            (None, 0) => hidden / q_heads,
            (None, _) => {
                return Err(c.bad("hidden_size", hidden.to_string(), format!("a multiple of {q_heads} heads")));
            }
        };
        if !(2..=4096).contains(&dim) || dim % 2 != 0 {
            return Err(c.bad("head_dim", dim.to_string(), "an even number from 2 to 4096"));
        }
        let eps = match absent.eps {
            Some(eps) => c.or("rms_norm_eps", eps)?,
            None => c.need("rms_norm_eps")?,
        };
        if !(0.0..1.0).contains(&eps) {
            return Err(c.bad("rms_norm_eps", eps.to_string(), "from 0 to below 1"));
        }
        Ok(Self {
            vocab: count("vocab_size", absent.vocab, 1..=1 << 24)?,
            hidden,
            width: c.count("intermediate_size", WIDTH)?,
            layers: c.count("num_hidden_layers", 1..=1024)?,
            q_heads,
            kv_heads,
            dim,
            context: count("max_position_embeddings", absent.context, 1..=1 << 24)?,
            eps,
            act_absent: absent.act,
        })
    }

    /// The activation under `key`.
    ///
    /// # Errors
    /// When it is absent without a default, or not known.
    pub fn act(c: &Config, key: &str, absent: Option<&str>) -> Result<Act> {
        let known = [("silu", Act::Silu), ("swish", Act::Silu), ("gelu_pytorch_tanh", Act::GeluTanh)];
        let word = match absent {
            Some(word) => c.or(key, word.to_owned())?,
            None => c.need(key)?,
        };
        c.word(key, &word, &known)
    }
}
