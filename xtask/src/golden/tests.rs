//! What counts as a difference, and what is done about it; nothing here runs the script.

use std::fs;

use serde_json::json;

use super::compare::{Verdict, values};
use super::{settle, wanted};
use crate::models;

#[test]
fn names_are_sorted_into_kinds() {
    let all: Vec<&str> = models::names().collect();
    assert_eq!(wanted(vec![]), (Some(vec![]), all.clone()));
    assert_eq!(wanted(vec!["llama", all[0]]), (Some(vec!["llama"]), vec![all[0]]));
    assert_eq!(wanted(vec![all[1]]), (None, vec![all[1]]));
}

#[test]
fn only_last_digits_may_differ() {
    let old = json!({"torch": "2.15.0+a", "ids": [1, 2], "logits": [20.0, 0.5], "l2": 3.0, "sum": 7495.8,
        "greedy_margins": [3.475, 0.01], "prefill_cache_vs_nocache_max_abs": 1e-6});
    let check = |key: &str, value: serde_json::Value, expected: &str| {
        let mut new = old.clone();
        new[key] = value;
        let verdict = values(&old, &new);
        let found = format!("{}{}", verdict.word(), verdict.detail().replace('\n', ""));
        assert!(found.starts_with(expected), "{key}: {found}");
    };
    check("ids", json!([1, 2]), "same");
    check("torch", json!("2.15.0+b"), "same");
    check("torch", json!("2.16.0"), "DIFFERS");
    check("torch", json!(null), "DIFFERS");
    check("prefill_cache_vs_nocache_max_abs", json!(9e-5), "same");
    check("prefill_cache_vs_nocache_max_abs", json!(0.1), "DIFFERS");
    // beside 20.0 a ten-thousandth is a last digit, alone it is not
    check("logits", json!([20.0, 0.5001]), "digits (by 5e-6)");
    check("logits", json!([20.1, 0.5]), "DIFFERS          logits[0]: 20.1, was 20.0");
    check("logits", json!([20.0]), "DIFFERS");
    check("l2", json!(3.00001), "digits");
    check("l2", json!(3.001), "DIFFERS");
    check("sum", json!(7496.5), "digits");
    check("sum", json!(7595.8), "DIFFERS");
    check("greedy_margins", json!([3.474, 0.0101]), "digits");
    check("greedy_margins", json!([3.475, 0.011]), "DIFFERS");
    check("ids", json!([1, 3]), "DIFFERS          ids[1]: 3, was 2");
    check("more", json!(1), "DIFFERS          more: 1, was null");
}

#[test]
fn a_check_writes_nothing_and_a_run_only_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let (made, here) = (dir.path().join("made"), dir.path().join("here"));
    for (folder, name, text) in [
        (&made, "same", "{\"a\": 1.0}"),
        (&here, "same", "{\"a\": 1.00001}"),
        (&made, "other", "{\"a\": 2.0}"),
        (&here, "other", "{\"a\": 1.0}"),
        (&made, "tiny/new", "x"),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let read = |name: &str| fs::read_to_string(here.join(name)).unwrap_or_default();
    assert!(settle(&made, &here, true).is_err_and(|e| e.to_string().starts_with("2 files differ")));
    assert_eq!((read("other").as_str(), read("tiny/new").as_str()), ("{\"a\": 1.0}", ""));
    settle(&made, &here, false).unwrap();
    assert_eq!((read("same").as_str(), read("other").as_str()), ("{\"a\": 1.00001}", "{\"a\": 2.0}"));
    assert_eq!(read("tiny/new"), "x");
    settle(&made, &here, true).unwrap();
    assert_eq!(values(&json!({"a": f64::MAX}), &json!({"a": f64::MAX})), Verdict::Same);
}
