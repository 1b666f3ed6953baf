//! Post-processors that would multiply, drop or spoil a prompt, and those of real files.

use std::path::Path;

use serde_json::{Value, json};

use super::{FEW, MAX_ADDED, MAX_STEPS, SHORT};
use crate::error::Error;
use crate::tokenizer::Tokenizer;

/// A tokenizer of two tokens, `a` and `<s>`, with this post-processor.
fn with(post: &Value) -> Result<Tokenizer, Error> {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let file = json!({"version": "1.0", "normalizer": null, "pre_tokenizer": byte_level, "decoder": byte_level, "post_processor": post,
        "added_tokens": [{"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "model": {"type": "BPE", "vocab": {"a": 0, "<s>": 1}, "merges": []}});
    Tokenizer::from_json(&serde_json::to_vec(&file).unwrap(), Path::new("m/tokenizer.json"))
}

fn sequence(id: &str) -> Value {
    json!({"Sequence": {"id": id, "type_id": 0}})
}

fn special() -> Value {
    json!({"SpecialToken": {"id": "<s>", "type_id": 0}})
}

/// A template of these pieces, where `<s>` stands for these ids.
fn template(single: &[Value], ids: &[u32]) -> Value {
    let token = json!({"id": "<s>", "ids": ids, "tokens": vec!["<s>"; ids.len()]});
    json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {"<s>": token}})
}

fn steps(processors: &[Value]) -> Value {
    json!({"type": "Sequence", "processors": processors})
}

fn bert(kind: &str, cls: u32, sep: u32) -> Value {
    json!({"type": kind, "cls": ["<s>", cls], "sep": ["<s>", sep], "trim_offsets": true, "add_prefix_space": false})
}

fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true})
}

/// Seen to fail: `Sequence A` not counted; the ids of a token counted once for all its uses; steps inside of steps not counted.
#[test]
fn what_no_prompt_can_stand_is_refused() {
    let (a, b, s) = (sequence("A"), sequence("B"), special());
    let uses = [vec![s.clone(); 1000], vec![a.clone()]].concat();
    let undefined = json!({"SpecialToken": {"id": "x".repeat(50), "type_id": 0}});
    let one = template(&[s.clone(), a.clone()], &[1]);
    let single = "post_processor.single";
    for (post, key, found) in [
        (template(&vec![a.clone(); 50_000], &[1]), single, "A 50000 times and B 0 times"),
        (template(std::slice::from_ref(&s), &[1]), single, "A 0 times and B 0 times"),
        (template(&[], &[1]), single, "A 0 times"),
        (template(&[a.clone(), b], &[1]), single, "A 1 times and B 1 times"),
        (template(&uses, &vec![1; 20_000]), single, "20000 or more"),
        (template(&uses, &[1]), single, "257 or more"),
        (template(&[s.clone(), a.clone()], &[2]), "post_processor.special_tokens", "found 2"),
        (template(&[s, a.clone()], &[1, u32::MAX]), "post_processor.special_tokens", "found 4294967295"),
        (template(&[undefined, a], &[1]), single, "x\".., which special_tokens has not"),
        (bert("BertProcessing", 1, 102), "post_processor.sep", "found 102"),
        (bert("RobertaProcessing", 7, 1), "post_processor.cls", "found 7"),
        (steps(&[byte_level(), bert("BertProcessing", 7, 1)]), "post_processor.cls", "found 7"),
        (steps(&[one.clone(), one]), "post_processor.processors", "2 TemplateProcessing"),
        (steps(&vec![steps(&[byte_level()]); MAX_STEPS + 1]), "post_processor.processors", "17 steps"),
    ] {
        let shown = post.to_string();
        let shown = &shown[..shown.len().min(200)];
        let error = with(&post).expect_err(shown);
        assert!(matches!(&error, Error::Config { key: k, .. } if *k == key), "{shown}: {error:?}");
        let text = error.to_string();
        assert!(text.starts_with("m/tokenizer.json: ") && text.contains(found), "{shown}: {text}");
        assert!(text.ends_with("; correct it, or fetch the file again"), "{text}");
        assert!(text.len() < 300, "{text}");
    }
}

#[test]
fn real_ones_are_taken() {
    let one = template(&[special(), sequence("A")], &[1]);
    let many = [vec![special(); MAX_ADDED], vec![sequence("A")]].concat();
    for (post, ids) in [
        (Value::Null, vec![0, 0]),
        (byte_level(), vec![0, 0]),
        (one.clone(), vec![1, 0, 0]),
        (template(&[special(), sequence("A"), special()], &[1]), vec![1, 0, 0, 1]),
        (template(&[special(), sequence("A")], &[1, 0]), vec![1, 0, 0, 0]),
        (steps(&[byte_level(), one]), vec![1, 0, 0]),
        (bert("BertProcessing", 1, 1), vec![1, 0, 0, 1]),
        (bert("RobertaProcessing", 1, 0), vec![1, 0, 0, 0]),
        (template(&many, &[1]), [vec![1; MAX_ADDED], vec![0, 0]].concat()),
        // a token that no template uses is nobody's
        (template(&[sequence("A")], &[999]), vec![0, 0]),
    ] {
        let tokenizer = with(&post).unwrap_or_else(|error| panic!("{post}: {error}"));
        assert_eq!(tokenizer.encode("aa", true).unwrap(), ids, "{post}");
        assert_eq!(tokenizer.encode("aa", false).unwrap(), [0, 0], "{post}");
    }
}

#[test]
fn messages_say_the_limits() {
    assert!(FEW.contains(&format!(" {MAX_ADDED} ")) && SHORT.contains(&format!(" {MAX_STEPS} ")));
}
