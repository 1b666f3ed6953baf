//! Any text, however it is cut, says the same; and none of it is lost.
//!
//! Faults planted and seen: a mark looked for in each part alone; a block that is no call dropped.

use omlx_markup::{Format, Markup, Parser, Piece, Start, Tool};
use proptest::prelude::*;

const FORMATS: [&str; 14] = [
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "pythonic",
    "mistral",
    "gemma",
    "glm",
    "kimi_k2",
    "deepseek",
    "deepseek_v32",
    "harmony",
    "step3",
    "minimax_m2",
    "minimax_m1",
];

/// Pieces of what models write, right and wrong.
const SCRAPS: [&str; 62] = [
    "<think>",
    "</think>",
    "\n",
    " ",
    "word",
    "é",
    "<",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "'",
    "(",
    ")",
    "=",
    ";",
    "<tool_call>",
    "</tool_call>",
    "{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}",
    "{\"name\": \"look\", \"parameters\": {}}",
    "\"name\": \"look\"",
    "\"arguments\": ",
    "<function=look>",
    "</function>",
    "<parameter=at>",
    "</parameter>",
    "look",
    "<arg_key>at</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[look(at='x')]",
    "look(at=1)",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|python_tag|>",
    "<start_function_call>",
    "<end_function_call>",
    "call:look{at:<escape>x<escape>}",
    "<escape>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>functions.look:0",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>look<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<｜DSML｜function_calls>",
    "<｜DSML｜invoke name=\"look\">",
    "</｜DSML｜function_calls>",
    "<|channel|>analysis<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
    " to=functions.look<|message|>",
    "<minimax:tool_call>",
    "<invoke name=\"look\">",
];

fn read(markup: Markup, start: Start, parts: &[String], cut: bool) -> Vec<Piece> {
    let tools =
        [Tool { name: "look".to_owned(), parameters: serde_json::json!({"properties": {"at": {"type": "string"}}}) }];
    let mut parser = Parser::new(markup, start, &tools);
    let pieces = parts.iter().flat_map(|part| parser.push(part)).collect::<Vec<_>>();
    let pieces = pieces.into_iter().chain(parser.finish(cut));
    // neighbours of one kind are one
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(a)), Piece::Text(b)) => a.push_str(&b),
            (Some(Piece::Thought(a)), Piece::Thought(b)) => a.push_str(&b),
            (Some(Piece::Arguments(a)), Piece::Arguments(b)) => a.push_str(&b),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_however_it_is_cut(
        format in 0..FORMATS.len(),
        scraps in prop::collection::vec(prop::sample::select(&SCRAPS[..]), 0..14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        start in prop::sample::select(&[Start::Fresh, Start::Thought, Start::Content][..]),
        cut in any::<bool>(),
    ) {
        let format: Format = FORMATS[format].parse().unwrap();
        let markup = Markup { format: Some(format), thinking: Some("think".parse().unwrap()) };
        let text = scraps.concat();
        let chars: Vec<char> = text.chars().collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
        at.extend([0, chars.len()]);
        at.sort_unstable();
        let parts: Vec<String> = at.windows(2).map(|w| chars[w[0]..w[1]].iter().collect()).collect();
        let whole = read(markup, start, std::slice::from_ref(&text), cut);
        prop_assert_eq!(&read(markup, start, &parts, cut), &whole, "{:?}", parts);
        let each: Vec<String> = chars.iter().map(char::to_string).collect();
        prop_assert_eq!(&read(markup, start, &each, cut), &whole);
        // A call comes before its arguments.
        let first = whole.iter().find(|piece| matches!(piece, Piece::Call { .. } | Piece::Arguments(_)));
        prop_assert!(!matches!(first, Some(Piece::Arguments(_))));
    }

    /// Letters of the text that belong to no mark, in their order: all of them come out again.
    #[test]
    fn no_text_is_lost(
        format in 0..FORMATS.len(),
        scraps in prop::collection::vec(prop::sample::select(&SCRAPS[..]), 0..14),
        cut in any::<bool>(),
    ) {
        let format: Format = FORMATS[format].parse().unwrap();
        let markup = Markup { format: Some(format), thinking: Some("think".parse().unwrap()) };
        // Words that no mark and no call has, between all scraps.
        let text: String = scraps.iter().enumerate().map(|(i, scrap)| format!("{scrap}q{i}z")).collect();
        let mut out = String::new();
        for piece in read(markup, Start::Fresh, &[text], cut) {
            match piece {
                Piece::Text(text) | Piece::Thought(text) | Piece::Arguments(text) => out += &text,
                Piece::Call { name, id } => { out += &name; out += &id.unwrap_or_default(); }
            }
        }
        for i in 0..scraps.len() {
            prop_assert!(out.contains(&format!("q{i}z")), "q{}z of {:?} in {:?}", i, scraps, out);
        }
    }
}
