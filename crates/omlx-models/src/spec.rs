//! The values in which models differ.
//!
//! One `Spec` describes a whole decoder, one `LayerSpec` a layer: layers of one model may differ in every field.
//! A spec is plain data made by `arch/`; `Transformer` reads it and asks nothing else. What cannot be said here is
//! another wiring and needs another block type.

use candle_core::DType;
use omlx_kv::{Codec, KvGroup, KvLayout};
use omlx_ops::{Act, Reach, RopeSpec, Router};

/// A decoder model as values.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Rows of the embedding.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
    /// The embedding is multiplied by this, in f32.
    pub embed_scale: f32,
    /// First layer first.
    pub layers: Vec<LayerSpec>,
    /// From the residual stream to logits.
    pub head: HeadSpec,
}

/// One layer as values.
#[derive(Clone, Debug)]
pub struct LayerSpec {
    /// Where the layer normalises.
    pub norms: Norms,
    /// Attention.
    pub attn: AttnSpec,
    /// Feed-forward.
    pub ffn: FfnSpec,
}

/// Where a layer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before attention and before feed-forward.
    Before,
    /// Also what they return, before it is added to the residual stream.
    BeforeAndAfter,
    /// Only what they return.
    After,
}

/// RMS norms of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// Where they stand.
    pub place: Place,
    /// Added to the mean square.
    pub eps: f32,
}

/// Attention as values.
#[derive(Clone, Debug)]
pub struct AttnSpec {
    /// Query heads.
    pub q_heads: usize,
    /// Key and value heads; divides `q_heads`.
    pub kv_heads: usize,
    /// Size of a head.
    pub dim: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// How far back the layer looks.
    pub reach: Reach,
    /// Rotary embedding; none for a layer that is told no positions.
    pub rope: Option<RopeSpec>,
    /// Which numbers of queries and keys are normalised together, before the rotation.
    pub qk_norm: QkNorm,
    /// Which projections have a bias.
    pub bias: AttnBias,
    /// Scores are squashed to ± this.
    pub softcap: Option<f32>,
    /// Whether what each head returns is multiplied by a gate, the sigmoid of a projection of the input.
    pub gate: bool,
    /// Whether each query head has a logit of its own in the softmax, which takes its share and gives nothing.
    pub sinks: bool,
}

/// How queries and keys are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Not at all.
    None,
    /// Each head by itself.
    Head,
    /// All heads of a token together.
    Token,
}

/// Biases of the attention projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttnBias {
    /// On query, key and value.
    pub qkv: bool,
    /// On the output.
    pub out: bool,
}

/// Feed-forward as values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FfnSpec {
    /// `down(act(gate x) * up x)`.
    Dense {
        /// Rows of gate and of up.
        width: usize,
        /// The activation.
        act: Act,
        /// Whether all three have a bias.
        bias: bool,
    },
    /// A few of many, chosen for each token.
    Moe(MoeSpec),
}

/// A routed feed-forward as values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeSpec {
    /// How many experts there are.
    pub experts: usize,
    /// Rows of an expert's gate and of its up.
    pub width: usize,
    /// Their activation.
    pub act: Act,
    /// How they are chosen and weighed.
    pub router: Router,
    /// Whether router and experts have biases.
    pub bias: bool,
    /// Whether gate and up of the one tensor that holds both take turns, row by row.
    pub alternate: bool,
    /// A dense feed-forward that every token goes through as well.
    pub shared: Option<Shared>,
}

/// The feed-forward beside the experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Rows of gate and of up.
    pub width: usize,
    /// The activation.
    pub act: Act,
}

impl FfnSpec {
    /// Rows of all gates, or of all ups, that a token goes through.
    pub fn active_width(&self) -> usize {
        match *self {
            Self::Dense { width, .. } => width,
            Self::Moe(moe) => moe.router.top * moe.width + moe.shared.map_or(0, |shared| shared.width),
        }
    }
}

/// The last norm and the projection to the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadSpec {
    /// Whether the projection is the embedding itself.
    pub tied: bool,
    /// Added to the mean square of the last norm.
    pub eps: f32,
    /// Logits are squashed to ± this.
    pub softcap: Option<f32>,
}

impl Spec {
    /// Positions back at which attention's multiply-adds for a token are as many as those of all its projections;
    /// `usize::MAX` where no layer looks back without end.
    pub fn depth(&self) -> usize {
        let (mut fixed, mut per_position) = (0, 0);
        for LayerSpec { attn, ffn, .. } in &self.layers {
            // query, key, value, output; gate, up, down
            fixed += self.hidden * (2 * attn.dim * (attn.q_heads + attn.kv_heads) + 3 * ffn.active_width());
            // scores and values
            let looks = 2 * attn.q_heads * attn.dim;
            match attn.reach {
                Reach::All => per_position += looks,
                Reach::Last(last) => fixed += looks * last.min(self.context),
                Reach::Keep { first, last } => fixed += looks * first.saturating_add(last).min(self.context),
            }
        }
        fixed.checked_div(per_position).unwrap_or(usize::MAX)
    }

    /// Which layers store alike: one group per (reach, heads, head size), in order of first use.
    pub fn layout(&self, kv: DType) -> KvLayout {
        let mut groups: Vec<KvGroup> = Vec::new();
        for (layer, spec) in self.layers.iter().enumerate() {
            let a = &spec.attn;
            let alike = |g: &&mut KvGroup| g.reach == a.reach && g.heads == a.kv_heads && g.dim == a.dim;
            match groups.iter_mut().find(alike) {
                Some(group) => group.layers.push(layer),
                None => groups.push(KvGroup {
                    layers: vec![layer],
                    heads: a.kv_heads,
                    dim: a.dim,
                    reach: a.reach,
                    codec: Codec::Plain(kv),
                }),
            }
        }
        KvLayout { groups }
    }
}
