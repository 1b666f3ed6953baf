//! From config to spec: the values that models differ in, and the configs that are refused. A fault seen to be caught:
//! Gemma's score scale from the head size.

use std::path::Path;

use omlx_ops::{Act, Groups, Reach, RopeScaling, Router, Score};
use serde_json::{Value, json};

use super::{ARCHS, Arch};
use crate::config::Config;
use crate::spec::{AttnSpec, FfnSpec, MoeSpec, Place, QkNorm, Shared, Spec};
use crate::{Error, Result};

/// A config that loads, with some keys changed; null takes a key away.
fn spec(kind: &str, changes: Value) -> Result<Spec> {
    let mut keys = json!({
        "model_type": kind, "vocab_size": 32, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "made_up_by": "decoration is ignored",
    });
    if kind.starts_with("gemma") {
        keys["sliding_window"] = 8.into();
        keys["head_dim"] = 32.into();
        keys["hidden_activation"] = "gelu_pytorch_tanh".into();
    }
    let (Value::Object(keys), Value::Object(changes)) = (&mut keys, changes) else { panic!() };
    keys.extend(changes);
    let config = Config::new(Path::new("m/config.json"), keys.clone())?;
    (Arch::of_config(&config)?.spec)(&config)
}

fn rotation(attn: &AttnSpec) -> (f32, RopeScaling) {
    let rope = attn.rope.clone().unwrap();
    (rope.base, rope.scaling)
}

fn reaches(spec: &Spec) -> Vec<Reach> {
    spec.layers.iter().map(|l| l.attn.reach).collect()
}

#[test]
fn llama() {
    let s = spec("llama", json!({})).unwrap();
    let a = &s.layers[0].attn;
    assert_eq!((s.layers.len(), a.q_heads, a.kv_heads, a.dim, a.scale), (6, 4, 2, 16, 0.25));
    assert_eq!((a.bias.qkv, a.bias.out, a.qk_norm, a.reach), (false, false, QkNorm::None, Reach::All));
    assert_eq!((s.head.tied, s.embed_scale, s.layers[0].norms.place), (false, 1.0, Place::Before));
    assert_eq!(s.layers[0].ffn, FfnSpec::Dense { width: 96, act: Act::Silu, bias: false });
    let wide = spec("llama", json!({"head_dim": 32, "attention_bias": true, "mlp_bias": true})).unwrap();
    let a = &wide.layers[5].attn;
    assert_eq!((a.dim, a.bias.qkv, a.bias.out), (32, true, true));
    assert_eq!(wide.layers[5].ffn, FfnSpec::Dense { width: 96, act: Act::Silu, bias: true });
    // Without the key, as many key heads as query heads.
    let plain = spec("llama", json!({"num_key_value_heads": null})).unwrap();
    assert_eq!(plain.layers[0].attn.kv_heads, 4);
}

#[test]
fn mistral_windows_every_layer() {
    assert_eq!(reaches(&spec("mistral", json!({"sliding_window": 8})).unwrap()), [Reach::Last(8); 6]);
    assert_eq!(reaches(&spec("mistral", json!({"sliding_window": null})).unwrap()), [Reach::All; 6]);
}

/// Caught: the key that is not there taken for null.
#[test]
fn mistral_without_the_key_has_the_familys_window() {
    let mut keys = json!({"model_type": "mistral", "vocab_size": 32, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "hidden_act": "silu"});
    let of = |keys: &Value| {
        let config = Config::new(Path::new("m/config.json"), keys.as_object().unwrap().clone()).unwrap();
        reaches(&(Arch::of_config(&config).unwrap().spec)(&config).unwrap())
    };
    assert_eq!(of(&keys), [Reach::Last(4096)]);
    keys["sliding_window"] = Value::Null;
    assert_eq!(of(&keys), [Reach::All]);
}

#[test]
fn qwen3() {
    let s = spec("qwen3", json!({})).unwrap();
    let a = &s.layers[0].attn;
    // The head size that the family's code fills in, not hidden size by heads.
    assert_eq!((a.dim, a.qk_norm, a.bias.qkv, s.head.tied), (128, QkNorm::Head, false, false));
    let on = json!({"sliding_window": 8, "max_window_layers": 5, "use_sliding_window": true, "head_dim": 16});
    assert_eq!(reaches(&spec("qwen3", on).unwrap())[4..], [Reach::All, Reach::Last(8)]);
}

#[test]
fn smollm3_rotates_three_layers_of_four() {
    let rotated = |changes| -> Vec<bool> {
        spec("smollm3", changes).unwrap().layers.iter().map(|l| l.attn.rope.is_some()).collect()
    };
    assert_eq!(rotated(json!({})), [true, true, true, false, true, true]);
    assert_eq!(rotated(json!({"no_rope_layer_interval": 2})), [true, false, true, false, true, false]);
    assert_eq!(rotated(json!({"no_rope_layers": [0, 1, 1, 1, 1, 0]})), [false, true, true, true, true, false]);
    assert!(spec("smollm3", json!({})).unwrap().head.tied);
}

#[test]
fn olmo2() {
    let s = spec("olmo2", json!({})).unwrap();
    assert_eq!((s.layers[0].norms.place, s.layers[0].attn.qk_norm), (Place::After, QkNorm::Token));
}

#[test]
fn phi3() {
    let s = spec("phi3", json!({"partial_rotary_factor": 0.75, "sliding_window": 8})).unwrap();
    let a = &s.layers[0].attn;
    assert_eq!((a.dim, a.rope.as_ref().unwrap().dim, a.reach), (16, 12, Reach::Last(8)));
    assert_eq!(reaches(&spec("phi3", json!({})).unwrap()), [Reach::All; 6]);
}

#[test]
fn gemma2() {
    let s = spec("gemma2", json!({"query_pre_attn_scalar": 144})).unwrap();
    let (w, a) = (Reach::Last(8), &s.layers[0].attn);
    assert_eq!(reaches(&s), [w, Reach::All, w, Reach::All, w, Reach::All]);
    assert_eq!((a.scale, a.softcap, s.head.softcap, a.qk_norm), (1.0 / 12.0, Some(50.0), Some(30.0), QkNorm::None));
    assert_eq!((rotation(a), s.head.tied), ((1e4, RopeScaling::None), true));
    // Null switches a cap off; a key that is not there does not.
    let off = spec("gemma2", json!({"attn_logit_softcapping": null, "final_logit_softcapping": 7.0})).unwrap();
    assert_eq!((off.layers[0].attn.softcap, off.head.softcap), (None, Some(7.0)));
}

fn moe(spec: &Spec, layer: usize) -> MoeSpec {
    let FfnSpec::Moe(moe) = spec.layers[layer].ffn else { panic!("layer {layer} is dense") };
    moe
}

fn dense(spec: &Spec) -> Vec<usize> {
    let is_dense = |layer: &usize| matches!(spec.layers[*layer].ffn, FfnSpec::Dense { width: 96, .. });
    (0..spec.layers.len()).filter(is_dense).collect()
}

#[test]
fn mixtral() {
    let s = spec("mixtral", json!({"num_local_experts": 8, "num_experts_per_tok": 2})).unwrap();
    let m = moe(&s, 5);
    assert_eq!((m.experts, m.width, m.act, m.shared), (8, 96, Act::Silu, None));
    let router = Router { score: Score::Softmax, top: 2, bias: false, groups: None, renorm: true, scale: 1.0 };
    assert_eq!((m.router, dense(&s)), (router, vec![]));
    assert_eq!(s.layers[0].ffn.active_width(), 192);
}

#[test]
fn qwen3_moe() {
    let base = json!({"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 32});
    let with = |key: &str, value: Value| {
        let mut keys = base.clone();
        keys[key] = value;
        spec("qwen3_moe", keys).unwrap()
    };
    let s = with("norm_topk_prob", true.into());
    let m = moe(&s, 0);
    assert_eq!((m.experts, m.width, m.router.top, m.router.renorm), (16, 32, 4, true));
    assert_eq!((s.layers[0].attn.dim, s.layers[0].attn.qk_norm), (16, QkNorm::Head));
    // Without the key weights stay as they are.
    assert!(!moe(&spec("qwen3_moe", base.clone()).unwrap(), 0).router.renorm);
    assert_eq!(dense(&with("mlp_only_layers", json!([1, 3]))), [1, 3]);
    assert_eq!(dense(&with("decoder_sparse_step", 3.into())), [0, 1, 3, 4]);
}

#[test]
fn glm4_moe() {
    let base = json!({"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "attention_bias": true,
        "routed_scaling_factor": 1.5, "n_shared_experts": 2, "first_k_dense_replace": 3, "n_group": 4, "topk_group": 2});
    let s = spec("glm4_moe", base).unwrap();
    let (m, a) = (moe(&s, 3), &s.layers[3].attn);
    let groups = Some(Groups { count: 4, keep: 2 });
    let router = Router { score: Score::Sigmoid, top: 2, bias: true, groups, renorm: true, scale: 1.5 };
    assert_eq!((m.router, dense(&s)), (router, vec![0, 1, 2]));
    assert_eq!(m.shared, Some(Shared { width: 64, act: Act::Silu }));
    assert_eq!((a.rope.as_ref().unwrap().dim, a.bias.qkv, a.bias.out, a.qk_norm), (8, true, false, QkNorm::None));
}

#[test]
fn gpt_oss() {
    let s = spec("gpt_oss", json!({"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8})).unwrap();
    let w = Reach::Last(8);
    assert_eq!(reaches(&s), [w, Reach::All, w, Reach::All, w, Reach::All]);
    let (a, m) = (&s.layers[0].attn, moe(&s, 0));
    assert_eq!((a.dim, a.sinks, a.bias.qkv, a.bias.out), (64, true, true, true));
    assert_eq!((m.act, m.bias, m.alternate), (Act::SwishWithin { alpha: 1.702, limit: 7.0 }, true, true));
    assert!(m.router.renorm && dense(&s).is_empty());
}

#[test]
fn step3p5_has_its_values_per_layer() {
    let base = json!({
        "hidden_act": null, "num_key_value_heads": null, "num_attention_groups": 2, "head_dim": 16, "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
                        "sliding_attention", "full_attention"],
        "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6,
                                    "num_attention_groups": 3, "head_dim": 16},
        "rope_theta": [5e6, 1e4, 5e6, 1e4, 5e6, 1e4, 5e6], "partial_rotary_factors": [0.5, 1, 0.5, 1, 0.5, 1, 0.5],
        "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "yarn_only_types": ["full_attention"],
        "moe_num_experts": 8, "moe_top_k": 2, "moe_intermediate_size": 32, "share_expert_dim": 48, "moe_layers_enum": "2, 4,5",
        "moe_router_scaling_factor": 3.0, "swiglu_limits": [0, 0, 7, 0, null, 0, 0], "swiglu_limits_shared": [5, 0, 16, 0, 0, 0, 0],
        "num_nextn_predict_layers": 1,
    });
    let s = spec("step3p5", base.clone()).unwrap();
    let (full, window) = (&s.layers[0].attn, &s.layers[1].attn);
    assert_eq!((full.q_heads, full.kv_heads, full.reach, full.gate), (4, 2, Reach::All, true));
    assert_eq!((window.q_heads, window.kv_heads, window.reach), (6, 3, Reach::Last(8)));
    assert_eq!((rotation(full), full.rope.as_ref().unwrap().dim), ((5e6, RopeScaling::Linear { factor: 2.0 }), 8));
    assert_eq!((rotation(window), window.rope.as_ref().unwrap().dim), ((1e4, RopeScaling::None), 16));
    let within = |limit| Act::SiluWithin { limit };
    assert_eq!(s.layers[0].ffn, FfnSpec::Dense { width: 96, act: within(5.0), bias: false });
    let (m, plain) = (moe(&s, 2), moe(&s, 4));
    assert_eq!((m.act, m.shared), (within(7.0), Some(Shared { width: 48, act: within(16.0) })));
    assert_eq!((plain.act, plain.shared.unwrap().act), (Act::Silu, Act::Silu));
    let router = Router { score: Score::Sigmoid, top: 2, bias: true, groups: None, renorm: true, scale: 3.0 };
    assert_eq!((m.router, dense(&s)), (router, vec![0, 1, 3]));
    for (key, value, expected) in [
        ("swiglu_limits", json!([0, 0]), "`swiglu_limits` is [0,0], expected a number for each of 6 layers"),
        ("rope_theta", json!([1e4, "x", 1, 1, 1, 1]), "`rope_theta` is"),
        ("moe_layers_enum", json!("1;2"), "`moe_layers_enum` is 1;2"),
        ("moe_router_activation", json!("tanh"), "`moe_router_activation` is \"tanh\""),
        ("layer_types", json!(["full_attention"]), "`layer_types` is 1 entries"),
        ("mlp_layer_types", json!(["dense"]), "`mlp_layer_types` is there, expected the keys of the published config"),
        (
            "attention_other_setting",
            json!({"attention_type": "full_attention"}),
            "`attention_other_setting.attention_type`",
        ),
    ] {
        let mut keys = base.clone();
        keys[key] = value;
        let error = spec("step3p5", keys).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn qwen2_windows_only_when_switched_on() {
    let s = spec("qwen2", json!({"sliding_window": 8, "max_window_layers": 4})).unwrap();
    assert_eq!(reaches(&s), [Reach::All; 6]);
    assert!(s.layers[0].attn.bias.qkv && !s.layers[0].attn.bias.out);
    let on = json!({"sliding_window": 8, "max_window_layers": 4, "use_sliding_window": true});
    let w = Reach::Last(8);
    assert_eq!(reaches(&spec("qwen2", on).unwrap()), [Reach::All, Reach::All, Reach::All, Reach::All, w, w]);
}

/// Multiply-adds: 30,720 for the projections of a layer, 128 for each position that it looks at.
/// Caught: key and value heads counted as query heads; windows counted as endless.
#[test]
fn how_deep_attention_is_half_of_the_work() {
    let depth = |kind, changes| spec(kind, changes).unwrap().depth();
    assert_eq!(depth("llama", json!({})), 30_720 / 128);
    assert_eq!(depth("mistral", json!({"sliding_window": 8})), usize::MAX);
    let on = json!({"sliding_window": 8, "max_window_layers": 4, "use_sliding_window": true});
    assert_eq!(depth("qwen2", on), (6 * 30_720 + 2 * 128 * 8) / (4 * 128));
}

#[test]
fn gemma3() {
    let s = spec(
        "gemma3_text",
        json!({
            "query_pre_attn_scalar": 64, "sliding_window_pattern": 3, "final_logit_softcapping": 30.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        }),
    )
    .unwrap();
    let w = Reach::Last(8);
    assert_eq!(reaches(&s), [w, w, Reach::All, w, w, Reach::All]);
    let (local, global) = (&s.layers[0].attn, &s.layers[2].attn);
    // From the scalar, not from the head size of 32.
    assert_eq!((local.scale, global.scale), (0.125, 0.125));
    assert_eq!(rotation(local), (1e4, RopeScaling::None));
    assert_eq!(rotation(global), (1e6, RopeScaling::Linear { factor: 8.0 }));
    assert!(local.qk_norm == QkNorm::Head && s.head.tied);
    assert_eq!((s.embed_scale, s.head.softcap), (8.0, Some(30.0)));
    assert_eq!(s.layers[0].norms.place, Place::BeforeAndAfter);
    assert_eq!(s.layers[0].ffn, FfnSpec::Dense { width: 96, act: Act::GeluTanh, bias: false });
}

#[test]
fn gemma3_embedding_scale_is_not_rounded() {
    let s = spec("gemma3_text", json!({"hidden_size": 640})).unwrap();
    assert_eq!(s.embed_scale, 640f32.sqrt());
    assert_ne!(s.embed_scale, 25.25);
}

#[test]
fn gemma3_with_only_the_keys_of_a_published_multimodal_config() {
    let config = json!({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}});
    let Value::Object(keys) = config else { panic!() };
    let config = Config::new(Path::new("m/config.json"), keys).unwrap();
    let s = (Arch::of_config(&config).unwrap().spec)(&config).unwrap();
    let a = &s.layers[0].attn;
    assert_eq!((s.vocab, a.q_heads, a.kv_heads, a.dim, a.reach), (262_208, 8, 4, 256, Reach::Last(1024)));
    assert_eq!((a.scale, s.context, s.layers[5].attn.reach), (1.0 / 16.0, 131_072, Reach::All));
}

#[test]
fn groups_of_layers_that_store_alike() {
    let s = spec("gemma3_text", json!({"sliding_window_pattern": 3})).unwrap();
    let layout = s.layout(candle_core::DType::F32);
    let groups: Vec<_> = layout.groups.iter().map(|g| (g.layers.clone(), g.reach)).collect();
    assert_eq!(groups, [(vec![0, 1, 3, 4], Reach::Last(8)), (vec![2, 5], Reach::All)]);
}

/// One key that each architecture cannot do without, and what may not stand in a key.
#[test]
fn bad_configs_name_file_key_and_remedy() {
    for (kind, changes, expected) in [
        ("llama", json!({"hidden_size": null}), "m/config.json: needs the key `hidden_size`"),
        ("llama", json!({"rms_norm_eps": null}), "needs the key `rms_norm_eps`"),
        ("llama", json!({"hidden_act": null}), "needs the key `hidden_act`"),
        ("llama", json!({"hidden_act": "relu2"}), "`hidden_act` is \"relu2\", which omlx does not know; known: silu"),
        ("llama", json!({"num_key_value_heads": 3}), "`num_key_value_heads` is 3, expected a divisor of 4"),
        ("llama", json!({"hidden_size": 66, "num_key_value_heads": 4}), "a multiple of 4 heads"),
        ("llama", json!({"num_hidden_layers": 1_000_000_000}), "`num_hidden_layers` is 1000000000, expected 1 to 1024"),
        ("llama", json!({"vocab_size": -1}), "`vocab_size` is -1"),
        ("llama", json!({"rms_norm_eps": 2.0}), "`rms_norm_eps` is 2"),
        ("llama", json!({"architectures": ["LlamaForSequenceClassification"]}), "known: LlamaForCausalLM"),
        (
            "mamba",
            json!({}),
            "`model_type` is \"mamba\", which omlx does not know; known: llama, mistral, mixtral, qwen2",
        ),
        ("mistral", json!({"sliding_window": 0}), "`sliding_window` is 0"),
        ("llama", json!({"layer_types": vec!["sliding_attention"; 6]}), "there is no window"),
        ("qwen2", json!({"use_sliding_window": true}), "needs the key `sliding_window`"),
        (
            "smollm3",
            json!({"no_rope_layers": [1, 0]}),
            "`no_rope_layers` is [1, 0], expected 0 or 1 for each of 6 layers",
        ),
        ("smollm3", json!({"use_sliding_window": true}), "`use_sliding_window` is \"true\""),
        ("mixtral", json!({}), "needs the key `num_local_experts`"),
        (
            "mixtral",
            json!({"num_local_experts": 4, "num_experts_per_tok": 5}),
            "`num_experts_per_tok` is 5, expected 1 to 4",
        ),
        ("qwen3_moe", json!({"num_experts": 0}), "`num_experts` is 0"),
        ("glm4_moe", json!({"scoring_func": "softmax"}), "`scoring_func` is \"softmax\""),
        ("glm4_moe", json!({"topk_method": "greedy"}), "`topk_method` is \"greedy\""),
        (
            "glm4_moe",
            json!({"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 3}),
            "`n_group` is 3 of which 1 are kept, expected groups of two and more that divide 8 experts",
        ),
        ("olmo2", json!({"layer_types": vec!["sliding_attention"; 6]}), "there is no window"),
        ("phi3", json!({"partial_rotary_factor": 0.01}), "`partial_rotary_factor` is 0.01"),
        ("qwen3", json!({"partial_rotary_factor": 0.5}), "`partial_rotary_factor` is 0.5, expected 1"),
        ("gemma2", json!({"attn_logit_softcapping": 0}), "`attn_logit_softcapping` is 0, expected a number above zero"),
        ("gemma2", json!({"use_bidirectional_attention": true}), "`use_bidirectional_attention` is \"true\""),
        ("gemma3_text", json!({"sliding_window": null}), "needs the key `sliding_window`"),
        ("gemma3_text", json!({"use_bidirectional_attention": true}), "`use_bidirectional_attention` is \"true\""),
        ("gemma3_text", json!({"layer_types": ["full_attention"]}), "one per layer, 6"),
        ("gemma3_text", json!({"layer_types": vec!["chunked_attention"; 6]}), "`layer_types` is \"chunked_attention\""),
    ] {
        let error = spec(kind, changes.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{kind} {changes}: {error}");
    }
    assert!(
        matches!(spec("llama", json!({"model_type": null})), Err(Error::MissingKey { key, .. }) if key == "model_type")
    );
}

#[test]
fn names_of_parts_are_unique() {
    for arch in ARCHS {
        for (i, (part, folder, gguf)) in arch.names.iter().enumerate() {
            for (other, f, g) in &arch.names[..i] {
                assert!(folder != f && (gguf != g || gguf.is_empty()), "{}: {part:?} and {other:?}", arch.model_type);
                // Experts lie in folders in several ways.
                assert!(part != other || format!("{part:?}").starts_with("Expert"), "{}: {part:?}", arch.model_type);
            }
        }
    }
}
