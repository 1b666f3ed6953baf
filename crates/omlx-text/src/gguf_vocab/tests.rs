//! Small GGUF vocabularies written by hand: what loads, and how the rest is refused.

use super::*;
use crate::TextModel;

/// A metadata value for the writer below.
enum V {
    Text(&'static str),
    Id(u32),
    Flag(bool),
    Texts(&'static [&'static str]),
    Floats(&'static [f32]),
    Ints(&'static [i32]),
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn head(out: &mut Vec<u8>, kind: u32, count: usize) {
    out.extend(9u32.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend((count as u64).to_le_bytes());
}

/// A version 3 container with metadata only.
fn container(pairs: &[(&str, V)]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend((pairs.len() as u64).to_le_bytes());
    for (key, value) in pairs {
        text(&mut out, key);
        match value {
            V::Text(t) => {
                out.extend(8u32.to_le_bytes());
                text(&mut out, t);
            }
            V::Id(id) => {
                out.extend(4u32.to_le_bytes());
                out.extend(id.to_le_bytes());
            }
            V::Flag(flag) => {
                out.extend(7u32.to_le_bytes());
                out.push(u8::from(*flag));
            }
            V::Texts(texts) => {
                head(&mut out, 8, texts.len());
                texts.iter().for_each(|t| text(&mut out, t));
            }
            V::Floats(floats) => {
                head(&mut out, 6, floats.len());
                floats.iter().for_each(|f| out.extend(f.to_le_bytes()));
            }
            V::Ints(ints) => {
                head(&mut out, 5, ints.len());
                ints.iter().for_each(|i| out.extend(i.to_le_bytes()));
            }
        }
    }
    out
}

fn load(pairs: &[(&str, V)]) -> Result<TextModel> {
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
    std::fs::write(file.path(), container(pairs)).unwrap();
    TextModel::load(file.path())
}

fn bytes(pre: &'static str, change: (&'static str, V)) -> Result<TextModel> {
    let mut pairs = vec![
        ("general.architecture", V::Text("llama")),
        ("tokenizer.ggml.model", V::Text("gpt2")),
        ("tokenizer.ggml.pre", V::Text(pre)),
        (TOKENS, V::Texts(&["a", "b", "ab", "Ġ", "<e1>", "<e2>", "[PAD6]", "Ġb"])),
        (TYPES, V::Ints(&[1, 1, 1, 1, 3, 4, 5, 1])),
        (MERGES, V::Texts(&["a b", "Ġ b"])),
        ("tokenizer.ggml.bos_token_id", V::Id(4)),
        ("tokenizer.ggml.eos_token_id", V::Id(4)),
        ("tokenizer.ggml.eot_token_id", V::Id(5)),
        ("tokenizer.chat_template", V::Text("{{ bos_token }}{{ messages[0].content }}")),
    ];
    pairs.retain(|(key, _)| *key != change.0);
    pairs.push(change);
    load(&pairs)
}

#[test]
fn byte_level_vocabulary() {
    let model = bytes("gpt-2", ("x", V::Flag(true))).unwrap();
    assert_eq!(model.stop_ids(), [4, 5]);
    assert_eq!(model.vocab(), 8);
    assert_eq!(model.encode("ab b<e1>a<e2>", true).unwrap(), [2, 7, 4, 0, 5]);
    assert_eq!(model.encode("[PAD6]", false).unwrap(), [] as [u32; 0], "an unused token is not text");
    assert_eq!(model.decode(&[2, 7, 4, 6, 5], true).unwrap(), "ab b<e2>");
    let chat =
        crate::Chat { messages: vec![serde_json::json!({"role": "user", "content": "ab"})], ..Default::default() };
    assert_eq!(model.encode_chat(&chat).unwrap(), [4, 2]);
    let model = bytes("gpt-2", ("tokenizer.ggml.add_bos_token", V::Flag(true))).unwrap();
    assert_eq!(model.encode("ab", true).unwrap(), [4, 2]);
    assert_eq!(bytes("llama-bpe", ("x", V::Flag(true))).unwrap().encode("ab", true).unwrap(), [4, 2]);
}

#[test]
fn sentence_piece_vocabulary() {
    let model = load(&[
        ("general.architecture", V::Text("llama")),
        ("tokenizer.ggml.model", V::Text("llama")),
        (TOKENS, V::Texts(&["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "▁a", "<t>"])),
        (SCORES, V::Floats(&[0.0, 0.0, 0.0, 0.0, -5.0, -5.0, -1.0, 0.0])),
        (TYPES, V::Ints(&[2, 3, 3, 6, 1, 1, 1, 4])),
        ("tokenizer.ggml.bos_token_id", V::Id(1)),
        ("tokenizer.ggml.eos_token_id", V::Id(2)),
        ("tokenizer.ggml.unknown_token_id", V::Id(0)),
        ("tokenizer.ggml.add_eos_token", V::Flag(true)),
    ])
    .unwrap();
    assert!(!model.has_template());
    assert_eq!(model.encode("a a\n", true).unwrap(), [1, 6, 6, 3, 2]);
    assert_eq!(model.decode(&[1, 6, 6, 3, 2], true).unwrap(), "a a\n");
    let mut session = model.session(&[]);
    assert_eq!(session.push(6).text, " a", "an answer continues a prompt: its space is text");
}

#[test]
fn what_is_not_known_is_refused() {
    let book: &[&str] = vec![&*"a".repeat(MAX_TOKEN_BYTES + 1).leak(); 8].leak();
    for (change, start) in [
        ((TOKENS, V::Texts(&[])), "tokenizer.ggml.tokens: expected a vocabulary with tokens, found none"),
        (
            (TOKENS, V::Texts(book)),
            "tokenizer.ggml.tokens: expected texts of at most 4096 bytes, found 4097 bytes for token 0",
        ),
        (
            ("tokenizer.ggml.pre", V::Text("frob")),
            "tokenizer.ggml.pre is \"frob\"; known are default, gpt-2, phi-2, smollm",
        ),
        (("tokenizer.ggml.model", V::Text("rwkv")), "tokenizer.ggml.model is \"rwkv\""),
        ((TYPES, V::Ints(&[1])), "tokenizer.ggml.token_type: expected one entry for each of the 8 tokens, found 1"),
        ((TYPES, V::Ints(&[1, 1, 1, 1, 3, 4, 5, 9])), "tokenizer.ggml.token_type: expected types 1 to 6, found 9"),
        ((MERGES, V::Texts(&["ab"])), "tokenizer.ggml.merges: expected two pieces"),
        (
            ("tokenizer.ggml.eot_token_id", V::Id(8)),
            "tokenizer.ggml.eot_token_id: expected a token id below 8, found 8",
        ),
    ] {
        let key = change.0;
        let error = bytes("gpt-2", change).unwrap_err();
        let said = error.to_string();
        assert!(said.split_once(".gguf: ").is_some_and(|(_, fault)| fault.starts_with(start)), "{key}: {said}");
        assert!(!error.is_request(), "{key}");
    }
    assert!(matches!(bytes("gpt-2", (MERGES, V::Texts(&["a zz"]))), Err(Error::Tokenizer { .. })));
    assert!(matches!(load(&[]), Err(Error::In { fault, .. }) if matches!(*fault, Error::Gguf(_))));
}

#[test]
fn a_file_without_a_vocabulary_is_told_by_its_key() {
    for (pairs, key) in [
        (&[][..], TOKENS),
        (&[(TOKENS, V::Texts(&["a", "b"]))], "tokenizer.ggml.model"),
        (&[(TOKENS, V::Texts(&["a", "b"])), ("tokenizer.ggml.model", V::Text("gpt2"))], MERGES),
        (&[(TOKENS, V::Texts(&["a", "b"])), ("tokenizer.ggml.model", V::Text("llama"))], SCORES),
    ] {
        let said = load(pairs).unwrap_err().to_string();
        assert!(said.contains(".gguf: ") && said.contains(&format!("`{key}` is missing")), "{said}");
        assert!(said.contains("load the model's own folder with its tokenizer.json"), "{said}");
    }
}

#[test]
fn every_known_way_of_cutting_compiles_and_loses_nothing() {
    let odd = "Hello, DON'T 12345 naïve 한국 \u{1F600}\r\n\t x=1;  #a ÀB e\u{301} 龥ぁ\u{2003}z  ";
    for name in pre::names() {
        let mut library = Library::new(BPE::default());
        pre::find(name).unwrap().install(&mut library).unwrap();
        let mut text = tokenizers::PreTokenizedString::from(odd);
        tokenizers::PreTokenizer::pre_tokenize(library.get_pre_tokenizer().unwrap(), &mut text).unwrap();
        let splits = text.get_splits(tokenizers::OffsetReferential::Original, tokenizers::OffsetType::Byte);
        let spelled: String = splits.iter().map(|(part, ..)| *part).collect();
        assert_eq!(Spelling::ByteLevel.bytes(&spelled), odd.as_bytes(), "{name}");
        assert!(splits.len() > 12, "{name}: {splits:?}");
    }
}
