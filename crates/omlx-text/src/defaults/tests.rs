//! Null and zero are different answers.

use super::*;
use serde_json::json;

fn read(value: Value) -> Result<SamplingDefaults> {
    SamplingDefaults::read(&JsonFile { path: "generation_config.json".into(), value })
}

#[test]
fn given_and_not_given() {
    let none = SamplingDefaults::default();
    for (value, expected) in [
        (Value::Null, none),
        (json!({"temperature": null, "top_k": null, "top_p": null, "do_sample": null, "max_new_tokens": null}), none),
        (json!({"temperature": 0, "top_k": 0}), SamplingDefaults { temperature: Some(0.0), top_k: Some(0), ..none }),
        (
            json!({"temperature": 1.0, "top_k": 5, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1,
                   "do_sample": false, "max_new_tokens": 7, "transformers_version": "4"}),
            SamplingDefaults {
                temperature: Some(1.0),
                top_k: Some(5),
                top_p: Some(0.95),
                min_p: Some(0.05),
                repetition_penalty: Some(1.1),
                do_sample: Some(false),
                max_new_tokens: Some(7),
            },
        ),
    ] {
        assert_eq!(read(value.clone()).unwrap(), expected, "{value}");
    }
}

#[test]
fn nonsense_is_an_error() {
    // Such as a penalty of 0, which every request would fail on.
    for value in [
        json!({"temperature": "hot"}),
        json!({"temperature": -1}),
        json!({"temperature": 1e300}),
        json!({"top_k": 1.5}),
        json!({"top_p": -1}),
        json!({"top_p": 1.5}),
        json!({"min_p": 2}),
        json!({"repetition_penalty": 0.0}),
        json!({"repetition_penalty": 1e-60}),
        json!({"repetition_penalty": 1e60}),
        json!({"do_sample": 1}),
    ] {
        assert!(matches!(read(value.clone()), Err(Error::Config { .. })), "{value}");
    }
}
