//! Every format as its models write it, cut at every character.
//!
//! Faults planted and seen: a mark looked for in each part alone; a block that is no call dropped; the character behind an object that
//! was not closed lost.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test, and says why")]

use omlx_markup::{Format, Markup, Parser, Piece, Start, Tool};
use serde_json::{Value, json};

/// What an answer comes to: content, thoughts, and calls with their arguments.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    thought: String,
    calls: Vec<(String, String)>,
    /// Ids that the model gave.
    ids: Vec<String>,
}

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Value| Tool { name: name.to_owned(), parameters };
    vec![
        tool(
            "look",
            json!({"type": "object", "properties": {"at": {"type": "string"}, "n": {"type": "integer"}, "all": {"type": "boolean"}, "opt": {"type": "object"}, "maybe": {"type": ["string", "null"]}}}),
        ),
        tool("wait", json!({"type": "object", "properties": {}})),
    ]
}

fn fold(pieces: Vec<Piece>) -> Said {
    let mut said = Said::default();
    for piece in pieces {
        match piece {
            Piece::Text(text) => said.text += &text,
            Piece::Thought(text) => said.thought += &text,
            Piece::Call { name, id } => {
                said.calls.push((name, String::new()));
                said.ids.extend(id);
            }
            Piece::Arguments(text) => said.calls.last_mut().unwrap().1 += &text,
        }
    }
    said
}

fn read(markup: Markup, start: Start, parts: &[&str], cut: bool) -> Said {
    let mut parser = Parser::new(markup, start, &tools());
    let mut pieces: Vec<Piece> = parts.iter().flat_map(|part| parser.push(part)).collect();
    pieces.extend(parser.finish(cut));
    fold(pieces)
}

/// The whole text, every cut in two, and character by character have to say the same.
#[track_caller]
fn said(markup: Markup, start: Start, text: &str, cut: bool) -> Said {
    let whole = read(markup, start, &[text], cut);
    for (at, _) in text.char_indices() {
        assert_eq!(read(markup, start, &[&text[..at], &text[at..]], cut), whole, "cut at {at}: {text}");
    }
    let each: Vec<&str> = text.split("").collect();
    assert_eq!(read(markup, start, &each, cut), whole, "in single characters: {text}");
    whole
}

fn markup(name: &str) -> Markup {
    Markup { format: Some(name.parse::<Format>().unwrap()), thinking: Some("think".parse().unwrap()) }
}

/// The calls of a text and its content; arguments have to be JSON.
#[track_caller]
fn check(format: &str, text: &str, content: &str, calls: &[(&str, Value)]) {
    let said = said(markup(format), Start::Fresh, text, false);
    let found: Vec<(&str, Value)> = said
        .calls
        .iter()
        .map(|(name, arguments)| (name.as_str(), serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments))))
        .collect();
    assert_eq!(found, calls, "{text}");
    assert_eq!(said.text, content, "{text}");
    assert_eq!(said.thought, "", "{text}");
}

#[test]
fn hermes() {
    let f = "hermes";
    check(
        f,
        "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"é }\\\"\"}}\n</tool_call>",
        "",
        &[("look", json!({"at": "é }\""}))],
    );
    check(
        f,
        "I look. \n\n<tool_call>{\"name\":\"look\",\"arguments\":{}}</tool_call>",
        "I look.",
        &[("look", json!({}))],
    );
    // Two calls, in two blocks, in one, and in a list.
    let two = [("look", json!({"n": 1})), ("wait", json!({}))];
    let (a, b) = ("{\"name\": \"look\", \"arguments\": {\"n\": 1}}", "{\"name\": \"wait\", \"arguments\": {}}");
    check(f, &format!("<tool_call>\n{a}\n</tool_call>\n<tool_call>\n{b}\n</tool_call>"), "", &two);
    check(f, &format!("<tool_call>{a}\n{b}</tool_call>"), "", &two);
    check(f, &format!("<tool_call>[{a}, {b}]</tool_call>\n"), "", &two);
    // Arguments before the name, in a string, left out, with other keys beside them.
    check(
        f,
        "<tool_call>{\"arguments\": {\"n\": 2}, \"name\": \"look\"}</tool_call>",
        "",
        &[("look", json!({"n": 2}))],
    );
    check(
        f,
        "<tool_call>{\"name\": \"look\", \"arguments\": \"{\\\"n\\\": 2}\"}</tool_call>",
        "",
        &[("look", json!({"n": 2}))],
    );
    check(f, "<tool_call>{\"name\": \"wait\"}</tool_call>", "", &[("wait", json!({}))]);
    check(
        f,
        "<tool_call>{\"id\": 3, \"name\": \"wait\", \"arguments\": null, \"x\": [1]}</tool_call>",
        "",
        &[("wait", json!({}))],
    );
    // A line break in a string, which JSON does not allow and models write.
    check(
        f,
        "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"a\nb\"}}</tool_call>",
        "",
        &[("look", json!({"at": "a\nb"}))],
    );
    // A brace too few, one too many, the end mark missing.
    check(f, "<tool_call>{\"name\": \"look\", \"arguments\": {\"n\": 1}</tool_call>", "", &[("look", json!({"n": 1}))]);
    check(
        f,
        "<tool_call>{\"name\": \"look\", \"arguments\": {\"n\": 1} so</tool_call>",
        "so",
        &[("look", json!({"n": 1}))],
    );
    check(
        f,
        "<tool_call>{\"name\": \"look\", \"arguments\": {\"n\": 1}}}</tool_call>ok",
        "}ok",
        &[("look", json!({"n": 1}))],
    );
    check(f, &format!("<tool_call>{a}<tool_call>{b}"), "", &two);
    check(f, &format!("<tool_call>{a}</tool_call>\n\nDone."), "Done.", &two[..1]);
}

#[test]
fn what_is_no_call_is_content() {
    for (format, text) in [
        ("hermes", "<tool_call>look</tool_call>"),
        ("hermes", "a <tool_call>\n{\"nome\": \"look\"}</tool_call> b"),
        ("hermes", "a <tool_call>"),
        ("hermes", "a \n<tool_c"),
        ("hermes", "<tool_call></tool_call>"),
        ("hermes", "<tool_call>{\"name\": \"lo"),
        ("hermes", "<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>"),
        ("hermes", "{\"name\": \"look\", \"arguments\": {}}"),
        ("llama3_json", "{\"name\": \"Bob\", \"parameters\": {\"age\": 3}}"),
        ("llama3_json", "{\"a\": 1}"),
        ("llama3_json", "See {\"name\": \"look\", \"parameters\": {}}"),
        ("pythonic", "[1, 2, 3]"),
        ("pythonic", "[nobody(at='x')]"),
        ("pythonic", "[look(at=)]"),
        ("pythonic", "[look(at='x'"),
        ("mistral", "[TOOL_CALLS]look"),
        ("gemma", "<|tool_call>look{}<tool_call|>"),
        ("glm", "<tool_call>two words\n</tool_call>"),
        ("kimi_k2", "<|tool_calls_section_begin|> none <|tool_calls_section_end|>"),
        ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look"),
        ("minimax_m2", "<minimax:tool_call>\nlook\n</minimax:tool_call>"),
        ("qwen3_coder", "<tool_call>\n<func"),
        ("qwen3_coder", "if a <function b"),
    ] {
        check(format, text, text, &[]);
    }
}

/// A call behind one that failed is still found.
#[test]
fn a_later_call_is_found() {
    check(
        "hermes",
        "<tool_call>oops <tool_call>{\"name\": \"wait\"}</tool_call>",
        "<tool_call>oops",
        &[("wait", json!({}))],
    );
}

#[test]
fn qwen3_coder() {
    let f = "qwen3_coder";
    let call = "<tool_call>\n<function=look>\n<parameter=at>\na \"b\"\n\nc\n</parameter>\n<parameter=n>\n3\n</parameter>\n<parameter=all>\nTrue\n</parameter>\n<parameter=opt>\n{\"x\": [1]}\n</parameter>\n<parameter=new>\n7 up\n</parameter>\n</function>\n</tool_call>";
    let arguments = json!({"at": "a \"b\"\n\nc", "n": 3, "all": true, "opt": {"x": [1]}, "new": "7 up"});
    check(f, call, "", &[("look", arguments.clone())]);
    check(f, &format!("Now.\n{call}\n{call}"), "Now.", &[("look", arguments.clone()), ("look", arguments.clone())]);
    check(f, call.trim_start_matches("<tool_call>\n"), "", &[("look", arguments)]);
    check(f, "<tool_call>\n<function=wait>\n</function>\n</tool_call>", "", &[("wait", json!({}))]);
    // Numbers stay strings where the schema wants strings; tags inside a value that end nothing.
    check(f, "<function=look><parameter=at>42</parameter></function>", "", &[("look", json!({"at": "42"}))]);
    check(f, "<function=look><parameter=at></p></parameter></function>", "", &[("look", json!({"at": "</p>"}))]);
    // JSON in its place, and the ends left out.
    check(f, "<tool_call>{\"name\": \"wait\", \"arguments\": {}}</tool_call>", "", &[("wait", json!({}))]);
    check(f, "<tool_call><function=look><parameter=at>x</parameter></tool_call>", "", &[("look", json!({"at": "x"}))]);
    check(f, "<tool_call><function=look><parameter=at>x", "", &[("look", json!({"at": "x"}))]);
    check(f, "<function=look>note<parameter=n>1</parameter></function>", "note", &[("look", json!({"n": 1}))]);
}

#[test]
fn llama_3() {
    let f = "llama3_json";
    check(f, "{\"name\": \"look\", \"parameters\": {\"at\": \"x\"}}", "", &[("look", json!({"at": "x"}))]);
    check(f, "\n{\"type\": \"function\", \"name\": \"wait\", \"parameters\": {}}", "", &[("wait", json!({}))]);
    check(
        f,
        "<|python_tag|>{\"name\": \"look\", \"parameters\": {\"n\": 1}}; {\"name\": \"wait\", \"parameters\": {}}",
        "",
        &[("look", json!({"n": 1})), ("wait", json!({}))],
    );
    check(
        f,
        "{\"type\": \"function\", \"function\": \"look\", \"parameters\": {\"n\": 1}}",
        "",
        &[("look", json!({"n": 1}))],
    );
}

#[test]
fn pythonic() {
    let f = "pythonic";
    check(
        f,
        "[look(at='a(\\'b', n=-3, all=True, opt={'x': [1, None]}), wait()]",
        "",
        &[("look", json!({"at": "a('b", "n": -3, "all": true, "opt": {"x": [1, null]}})), ("wait", json!({}))],
    );
    check(
        f,
        "<|tool_call_start|>[look(at=\"x\", n=1.5)]<|tool_call_end|>Looking.",
        "Looking.",
        &[("look", json!({"at": "x", "n": 1.5}))],
    );
    check(f, "<|python_start|>[wait()]<|python_end|>", "", &[("wait", json!({}))]);
}

#[test]
fn mistral() {
    let f = "mistral";
    check(
        f,
        "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"n\": 1}}, {\"name\": \"wait\", \"arguments\": {}}]",
        "",
        &[("look", json!({"n": 1})), ("wait", json!({}))],
    );
    check(
        f,
        "So [TOOL_CALLS]look[ARGS]{\"n\": 1}[TOOL_CALLS]wait[ARGS]{}",
        "So",
        &[("look", json!({"n": 1})), ("wait", json!({}))],
    );
    check(f, "[TOOL_CALLS]look{\"n\": 1}", "", &[("look", json!({"n": 1}))]);
    let given = said(markup(f), Start::Fresh, "[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{\"n\": 1}", false);
    assert_eq!((given.ids, given.calls.len()), (vec!["abcdefghi".to_owned()], 1));
}

#[test]
fn gemma() {
    let f = "gemma";
    check(
        f,
        "<start_function_call>call:look{at:<escape>a, b}<escape>,n:2}<end_function_call>",
        "",
        &[("look", json!({"at": "a, b}", "n": 2}))],
    );
    check(
        f,
        "<|tool_call>call:look{at:<|\"|>x<tool_call|><|\"|>,opt:{k:[1,true]}}<tool_call|><|tool_call>call:wait{}<tool_call|>",
        "",
        &[("look", json!({"at": "x<tool_call|>", "opt": {"k": [1, true]}})), ("wait", json!({}))],
    );
}

#[test]
fn glm() {
    let f = "glm";
    let two = [("look", json!({"at": "7", "n": 7, "opt": {"a": 1}})), ("wait", json!({}))];
    check(
        f,
        "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>7</arg_value>\n<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n<arg_key>opt</arg_key>\n<arg_value>{\"a\": 1}</arg_value>\n</tool_call>\n<tool_call>wait\n</tool_call>",
        "",
        &two,
    );
    check(
        f,
        "<tool_call>look<arg_key>at</arg_key><arg_value>7</arg_value><arg_key>n</arg_key><arg_value>7</arg_value><arg_key>opt</arg_key><arg_value>{\"a\": 1}</arg_value></tool_call><tool_call>wait</tool_call>",
        "",
        &two,
    );
}

#[test]
fn kimi_k2() {
    let text = "On it.<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_call_begin|>functions.wait:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
    check("kimi_k2", text, "On it.", &[("look", json!({"n": 1})), ("wait", json!({}))]);
    let given = said(markup("kimi_k2"), Start::Fresh, text, false);
    assert_eq!(given.ids, ["functions.look:0", "functions.wait:1"]);
    // The section ends a thought that was not closed.
    let given = said(markup("kimi_k2"), Start::Thought, text, false);
    assert_eq!((given.thought.as_str(), given.text.as_str(), given.calls.len()), ("On it.", "", 2));
}

#[test]
fn deepseek() {
    let f = "deepseek";
    check(
        f,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{\"n\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>wait\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        &[("look", json!({"n": 1})), ("wait", json!({}))],
    );
    check(
        f,
        "Hm.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Hm.",
        &[("look", json!({"n": 1}))],
    );
    for word in ["function_calls", "tool_calls"] {
        check(
            "deepseek_v32",
            &format!(
                "<｜DSML｜{word}>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"at\" string=\"true\">7</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" string=\"false\">[7]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"wait\">\n</｜DSML｜invoke>\n</｜DSML｜{word}>"
            ),
            "",
            &[("look", json!({"at": "7", "x": [7]})), ("wait", json!({}))],
        );
    }
}

#[test]
fn step_and_minimax() {
    check(
        "step3",
        "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"look\"><steptml:parameter name=\"at\">x</steptml:parameter></steptml:invoke><｜tool_call_end｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"wait\"></steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>",
        "",
        &[("look", json!({"at": "x"})), ("wait", json!({}))],
    );
    check(
        "minimax_m2",
        "<minimax:tool_call>\n<invoke name=\"look\">\n<parameter name=\"at\">x</parameter>\n<parameter name=\"n\">3</parameter>\n</invoke>\n<invoke name=\"wait\">\n</invoke>\n</minimax:tool_call>",
        "",
        &[("look", json!({"at": "x", "n": 3})), ("wait", json!({}))],
    );
    check(
        "minimax_m1",
        "<tool_calls>\n{\"name\": \"look\", \"arguments\": {\"n\": 3}}\n{\"name\": \"wait\", \"arguments\": {}}\n</tool_calls>",
        "",
        &[("look", json!({"n": 3})), ("wait", json!({}))],
    );
}

#[test]
fn harmony() {
    let harmony = Markup { format: Some(Format::Harmony), thinking: None };
    let text = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"n\": 1}<|call|>";
    let given = said(harmony, Start::Fresh, text, false);
    assert_eq!((given.thought.as_str(), given.text.as_str()), ("Let me see.", "I look."));
    assert_eq!(given.calls, [("look".to_owned(), "{\"n\": 1}".to_owned())]);
    let given = said(harmony, Start::Fresh, " to=functions.wait<|channel|>commentary json<|message|>{}", false);
    assert_eq!(given.calls, [("wait".to_owned(), "{}".to_owned())]);
    let given = said(
        harmony,
        Start::Fresh,
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
        false,
    );
    assert_eq!((given.thought.as_str(), given.text.as_str()), ("a", "b"));
    // Without a head, and with one that never ends.
    for text in ["plain <text>", "assist me", "assistants", "<|channel|>final"] {
        assert_eq!(said(harmony, Start::Fresh, text, true).text, text);
    }
    assert_eq!(said(harmony, Start::Content, "more", true).text, "more");
}

#[test]
fn tool_5_thoughts() {
    for format in [None, Some(Format::Hermes)] {
        let markup = Markup { format, thinking: Some("think".parse().unwrap()) };
        for (start, text, thought, content) in [
            (Start::Fresh, "<think>plan more </think>done", "plan more ", "done"),
            (Start::Thought, "plan more </think>done", "plan more ", "done"),
            (Start::Thought, "<think>plan</think>done", "plan", "done"),
            (Start::Fresh, "<think>plan ", "plan ", ""),
            (Start::Fresh, "<think>plan</thi", "plan</thi", ""),
            (Start::Fresh, "\n<think>\nplan\n\nb\n</think>\n\ndone\n", "plan\n\nb", "done\n"),
            (Start::Fresh, "<think>a</think><think>b</think>c", "ab", "c"),
            (Start::Fresh, "<think>a</think>x<think>b</think>c", "ab", "xc"),
            (Start::Fresh, "<think></think>c", "", "c"),
            (Start::Fresh, "a < b <th", "", "a < b <th"),
            (Start::Fresh, "no thought", "", "no thought"),
        ] {
            let given = said(markup, start, text, true);
            assert_eq!((given.thought.as_str(), given.text.as_str()), (thought, content), "{text}");
        }
    }
}

#[test]
fn a_thought_before_a_call() {
    let given = said(
        markup("hermes"),
        Start::Fresh,
        "<think>\nmaybe <tool_call>?\n</think>\n\n<tool_call>{\"name\": \"wait\"}</tool_call>",
        false,
    );
    assert_eq!((given.thought.as_str(), given.text.as_str(), given.calls.len()), ("maybe <tool_call>?", "", 1));
}

/// A call that a limit cuts is a call whose arguments end early: in any format, never content that looks like markup.
#[test]
fn a_call_that_is_cut() {
    for (format, text, arguments) in [
        ("hermes", "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"x", "{\"at\": \"x"),
        ("qwen3_coder", "<tool_call>\n<function=look>\n<parameter=at>\nx\ny\n", "{\"at\": \"x\\ny\\n"),
        ("qwen3_coder", "<tool_call>\n<function=look>\n<parameter=n>\n1", "{\"n\": 1"),
        (
            "kimi_k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"n",
            "{\"n",
        ),
    ] {
        let given = said(markup(format), Start::Fresh, text, true);
        assert_eq!((given.calls, given.text.as_str()), (vec![("look".to_owned(), arguments.to_owned())], ""), "{text}");
    }
}

#[test]
fn without_tools_nothing_is_a_call() {
    let text = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let mut parser = Parser::new(markup("hermes"), Start::Fresh, &[]);
    let mut pieces = parser.push(text);
    pieces.extend(parser.finish(false));
    assert_eq!(fold(pieces).text, text);
}

/// Arguments go out while they come in.
#[test]
fn arguments_come_in_parts() {
    for (format, parts) in [
        ("hermes", ["<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"one ", "two ", "three\"}}</tool_call>"]),
        ("qwen3_coder", ["<function=look><parameter=at>one ", "two ", "three</parameter></function>"]),
        ("glm", ["<tool_call>look<arg_key>at</arg_key><arg_value>one ", "two ", "three</arg_value></tool_call>"]),
        ("mistral", ["[TOOL_CALLS]look[ARGS]{\"at\": \"one ", "two ", "three\"}"]),
    ] {
        let mut parser = Parser::new(markup(format), Start::Fresh, &tools());
        let first = parser.push(parts[0]);
        assert!(matches!(&first[..], [Piece::Call { .. }, Piece::Arguments(_)]), "{format}: {first:?}");
        assert_eq!(parser.push(parts[1]), [Piece::Arguments("two ".to_owned())], "{format}");
    }
}

#[test]
fn formats_by_template() {
    for (template, format, thinking) in [
        ("{{ '<tool_call>' }} {{ '</think>' }}", Some("hermes"), Some("think")),
        ("<tool_call> <function=example>", Some("qwen3_coder"), None),
        ("<tool_call>{function-name}<arg_key>", Some("glm"), None),
        ("[TOOL_CALLS] [THINK]", Some("mistral"), Some("mistral")),
        ("<|channel|>analysis<think>", Some("harmony"), None),
        ("<|im_start|>", None, None),
    ] {
        let markup = Markup::of_template(template, |_| false);
        assert_eq!(markup.format.map(|f| f.to_string()), format.map(str::to_owned), "{template}");
        assert_eq!(markup.thinking.map(|t| t.to_string()), thinking.map(str::to_owned), "{template}");
    }
    assert!(Markup::of_template("", |token| token.contains("think>")).thinking.is_some());
    let error = "quen".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("`quen`") && error.contains("qwen3_coder"), "{error}");
    assert_eq!("Qwen3-Coder".parse::<Format>(), Ok(Format::QwenXml));
}
