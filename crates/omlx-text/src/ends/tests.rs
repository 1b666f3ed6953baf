//! End tokens from every source and in every shape.

use super::*;
use serde_json::json;

fn file(value: Value) -> JsonFile {
    JsonFile { path: "config.json".into(), value }
}

#[test]
fn ids_in_every_shape() {
    for (value, expected) in [
        (json!({"eos_token_id": 2}), &[2][..]),
        (json!({"eos_token_id": [2, 1, 2]}), &[2, 1]),
        (json!({"eos_token_id": null}), &[]),
        (json!({"eos_token_id": -1}), &[]),
        (json!({}), &[]),
        (Value::Null, &[]),
        (json!({"text_config": {"eos_token_id": [7]}}), &[7]),
        (json!({"eos_token_id": 1, "text_config": {"eos_token_id": 7}}), &[1, 7]),
    ] {
        let mut ends = Vec::new();
        from_ids(&file(value.clone()), &mut ends).unwrap();
        assert_eq!(ends, expected, "{value}");
    }
}

#[test]
fn nonsense_is_an_error() {
    for value in [json!("2"), json!({"a": 1}), json!([2, "x"]), json!(1.5), json!(4_294_967_296_u64)] {
        let error = from_ids(&file(json!({"eos_token_id": value})), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("config.json: eos_token_id should be a token id"), "{error}");
    }
}

#[test]
fn token_as_text_or_object() {
    let id_of = |name: &str| (name == "<e2>").then_some(9);
    for (value, expected) in [
        (json!({"eos_token": "<e2>"}), &[9][..]),
        (json!({"eos_token": {"content": "<e2>", "lstrip": false}}), &[9]),
        (json!({"eos_token": null}), &[]),
        (json!({"eos_token": "<unknown>"}), &[]),
    ] {
        let mut ends = Vec::new();
        from_token(&file(value.clone()), id_of, &mut ends);
        assert_eq!(ends, expected, "{value}");
    }
}
