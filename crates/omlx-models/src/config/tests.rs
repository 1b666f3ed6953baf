//! Values by key, both spellings of rotary scaling, and what is refused.

use std::path::Path;

use candle_core::{Device, Tensor};
use omlx_ops::{Rope, RopeScaling, RopeSpec, apply_rope};
use serde_json::{Value, json};

use super::{Affine, Config, LayerKind};

fn config(json: Value) -> Config {
    let Value::Object(keys) = json else { panic!("not an object") };
    Config::new(Path::new("m/config.json"), keys).unwrap()
}

#[test]
fn errors_name_file_and_key() {
    let c = config(json!({"a": "x", "b": 7, "n": null, "o": {"p": true}}));
    for (error, expected) in [
        (c.need::<usize>("z").unwrap_err(), "m/config.json: needs the key `z`"),
        (c.need::<usize>("n").unwrap_err(), "m/config.json: needs the key `n`"),
        (c.need::<usize>("a").unwrap_err(), "m/config.json: `a` is \"x\", expected a whole number"),
        (c.count("b", 1..=5).unwrap_err(), "m/config.json: `b` is 7, expected 1 to 5"),
        (c.section("o").unwrap().unwrap().need::<f32>("p").unwrap_err(), "`o.p` is true, expected a number"),
        (c.word("a", "x", &[("y", 1), ("z", 2)]).unwrap_err(), "`a` is \"x\", which omlx does not know; known: y, z"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_text_part_of_a_model_with_several() {
    let c = config(json!({"tie_word_embeddings": false, "hidden_size": 1, "text_config": {"hidden_size": 8}}));
    assert_eq!(c.need::<usize>("hidden_size").unwrap(), 8);
    assert!(!c.need::<bool>("tie_word_embeddings").unwrap());
    let error = c.need::<usize>("vocab_size").unwrap_err().to_string();
    assert!(error.contains("`text_config.vocab_size`"), "{error}");
}

/// The frequencies and the amplitude of a rotation, from what it does to (1, 0) pairs at a small position.
fn turns(spec: RopeSpec) -> Vec<(f32, f32)> {
    let half = spec.dim / 2;
    let x: Vec<f32> = (0..spec.dim).map(|i| if i < half { 1.0 } else { 0.0 }).collect();
    let x = Tensor::from_vec(x, (1, 1, spec.dim), &Device::Cpu).unwrap();
    let y = apply_rope(&x, &Rope::new(spec).unwrap().at(&[1])).unwrap();
    let y: Vec<f32> = y.flatten_all().unwrap().to_vec1().unwrap();
    (0..half).map(|i| (y[i + half].atan2(y[i]), y[i].hypot(y[i + half]))).collect()
}

/// Expected values: `ROPE_INIT_FUNCTIONS` of transformers 5.24, head size 16, context 512.
#[test]
fn scalings_equal_transformers() {
    let yarn = [1.0, 0.2371708, 0.05, 0.007905695, 0.0025, 0.0007905695, 0.00025, 7.905695e-5];
    let cases: [(Value, f32, [f32; 8]); 5] = [
        (
            json!({"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8.0}}),
            1.0,
            [0.125, 0.03952847, 0.0125, 0.003952847, 0.00125, 0.0003952847, 0.000125, 3.952847e-5],
        ),
        (
            json!({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 128}}),
            1.0,
            [1.0, 0.1911265, 0.004700754, 0.0009115831, 0.0001767767, 3.428102e-5, 6.64787e-6, 1.289173e-6],
        ),
        (
            json!({"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                "original_max_position_embeddings": 128}}),
            1.138_629_4,
            yarn,
        ),
        (
            json!({"rope_theta": 150000, "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
                "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096}}),
            1.346_573_6,
            [1.0, 0.225418, 0.05081327, 0.006794959, 0.0004564839, 1.818834e-5, 4.099978e-6, 9.24209e-7],
        ),
        (
            json!({"rope_scaling": {"rope_type": "yarn", "factor": 40.0, "beta_fast": 16, "beta_slow": 2, "mscale": 1.0,
                "mscale_all_dim": 0.707, "original_max_position_embeddings": 64}}),
            1.085_726_4,
            [1.0, 0.1620667, 0.0025, 0.0007905695, 0.00025, 7.905695e-5, 2.5e-5, 7.905694e-6],
        ),
    ];
    for (json, amplitude, frequencies) in cases {
        let spec = config(json.clone()).rope(16, 512).unwrap();
        for ((frequency, factor), expected) in turns(spec).into_iter().zip(frequencies) {
            assert!((frequency / expected - 1.0).abs() < 1e-5, "{json}: {frequency} and not {expected}");
            assert!((factor / amplitude - 1.0).abs() < 1e-5, "{json}: amplitude {factor} and not {amplitude}");
        }
    }
}

#[test]
fn both_spellings_say_the_same() {
    let scaling = json!({"rope_type": "linear", "factor": 8.0});
    let old = config(json!({"rope_theta": 5e5, "rope_scaling": scaling}));
    let new = config(json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 8.0}}));
    let expected = RopeSpec { dim: 16, base: 5e5, scaling: RopeScaling::Linear { factor: 8.0 } };
    assert_eq!(old.rope(16, 512).unwrap(), expected);
    assert_eq!(new.rope(16, 512).unwrap(), expected);
}

#[test]
fn per_kind_of_layer_only_full_layers_are_scaled() {
    let old = config(
        json!({"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8}}),
    );
    let new = config(json!({"rope_parameters": {
        "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8},
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}}));
    let bare = config(json!({"rope_scaling": {"rope_type": "linear", "factor": 8}}));
    for c in [old, new, bare] {
        let full = c.rope_of(LayerKind::Full, 16, 1e6, 512).unwrap();
        let sliding = c.rope_of(LayerKind::Sliding, 16, 1e4, 512).unwrap();
        assert_eq!(full, RopeSpec { dim: 16, base: 1e6, scaling: RopeScaling::Linear { factor: 8.0 } });
        assert_eq!(sliding, RopeSpec { dim: 16, base: 1e4, scaling: RopeScaling::None });
    }
}

/// Expected values: `_compute_longrope_parameters` of transformers 5.24.
#[test]
fn longrope_by_the_length_of_the_model() {
    let (short, long) = (vec![1.0f32; 8], (2..10).map(|d| d as f32).collect::<Vec<_>>());
    let scaling = json!({"type": "longrope", "short_factor": short, "long_factor": long});
    let check = |mut keys: Value, context, divisors: &[f32], amplitude: f32| {
        keys["rope_scaling"] = scaling.clone();
        let RopeScaling::Long { divisors: d, amplitude: a } = config(keys).rope(16, context).unwrap().scaling else {
            panic!()
        };
        assert_eq!(*d, *divisors);
        assert!((a - amplitude).abs() < 1e-6, "{a}");
    };
    // sqrt(1 + ln 32 / ln 4096)
    check(json!({"original_max_position_embeddings": 4096}), 131_072, &long, 1.190_238);
    check(json!({"original_max_position_embeddings": 4096}), 4096, &short, 1.0);
}

#[test]
fn packing_of_all_modules_and_of_some() {
    let c =
        config(json!({"quantization": {"bits": 4, "group_size": 64, "a.gate": {"bits": 8}, "a.b": {"group_size": 32},
        "a.c": false, "a.d": true, "made_by": "decoration"}}));
    let q = c.quantization().unwrap();
    for (path, expected) in
        [("a.gate", Some((8, 64))), ("a.b", Some((4, 32))), ("a.c", None), ("a.d", Some((4, 64))), ("x", Some((4, 64)))]
    {
        assert_eq!(q.of(path), expected.map(|(bits, group)| Affine { bits, group }), "{path}");
    }
    assert_eq!(config(json!({})).quantization().unwrap().of("x"), None);
    for (json, expected) in [
        (json!({"quantization": {"group_size": 64}}), "`quantization` is an object that names neither method nor bits"),
        (
            json!({"quantization_config": {"quant_method": "awq", "bits": 4}}),
            "`quantization_config.quant_method` is \"awq\"",
        ),
        (json!({"quantization": {"bits": 4}}), "needs the key `quantization.group_size`"),
    ] {
        let error = config(json).quantization().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_part_of_each_head() {
    for keys in [
        json!({"partial_rotary_factor": 0.75}),
        json!({"rope_parameters": {"partial_rotary_factor": 0.75, "rope_theta": 1e4}}),
        json!({"rope_scaling": {"partial_rotary_factor": 0.75, "type": "default"}}),
    ] {
        assert_eq!(config(keys).rope_of_part(128, 0.5, 512).unwrap().dim, 96);
    }
    assert_eq!(config(json!({})).rope_of_part(128, 0.5, 512).unwrap().dim, 64);
    // 0.7 is no f32; the reference cuts 0.7 x 80 to 56.
    assert_eq!(config(json!({"partial_rotary_factor": 0.7})).rope_of_part(80, 0.5, 512).unwrap().dim, 56);
    for part in [0.0, 1.5, 0.1] {
        let error = config(json!({"partial_rotary_factor": part})).rope_of_part(16, 1.0, 512).unwrap_err().to_string();
        assert!(error.contains("`partial_rotary_factor` is "), "{part}: {error}");
    }
}

#[test]
fn unknown_meanings_of_rotation_are_refused() {
    for (json, key) in [
        (json!({"rope_scaling": {"rope_type": "ntk", "factor": 4.0}}), "`rope_scaling.rope_type` is \"ntk\""),
        (json!({"rope_scaling": {"rope_type": "longrope"}}), "needs the key `rope_scaling.short_factor`"),
        (
            json!({"original_max_position_embeddings": 64,
                "rope_scaling": {"rope_type": "longrope", "long_factor": [1, 2], "short_factor": [1]}}),
            "`rope_scaling.long_factor` is 2 numbers, expected 8, one per rotated pair",
        ),
        (
            json!({"rope_scaling": {"type": "su", "long_factor": [1], "short_factor": [1, 1, 1, 1, 1, 1, 0, 1]}}),
            "`rope_scaling.short_factor` is 0, expected numbers above zero",
        ),
        (json!({"rope_scaling": {"type": "dynamic", "factor": 4.0}}), "`rope_scaling.type` is \"dynamic\""),
        (json!({"rope_scaling": {"type": "linear"}}), "needs the key `rope_scaling.factor`"),
        (json!({"rope_scaling": {"type": "linear", "factor": 0.5}}), "`rope_scaling.factor` is 0.5"),
        (json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}), "partial_rotary_factor"),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        (
            json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": -32}}),
            "`rope_scaling.beta_fast` is -32, expected 0 or more",
        ),
        (json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 0}}), "attention_factor` is 0"),
        (json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": -1}}), "`rope_scaling.mscale` is -1"),
        (
            json!({"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 0, "high_freq_factor": 4}}),
            "`rope_scaling.low_freq_factor` is 0, expected a number above zero",
        ),
        (
            json!({"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1}}),
            "needs the key `rope_scaling.high_freq_factor`",
        ),
        (json!({"rope_theta": -1.0}), "`rope_theta` is -1"),
        (json!({"rope_theta": "1e4"}), "`rope_theta` is \"1e4\""),
    ] {
        let error = config(json.clone()).rope(16, 512).unwrap_err().to_string();
        assert!(error.contains(key), "{json}: {error}");
    }
    let flat = config(json!({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}));
    let error = flat.rope_of(LayerKind::Sliding, 16, 1e4, 512).unwrap_err().to_string();
    assert!(error.contains("one object per kind of layer"), "{error}");
}
