//! Every parameter: what reaches the engine, and what is refused with its name.
//!
//! Faults planted and seen: `max_tokens` preferred over `max_completion_tokens`; a given 0 temperature treated as absent;
//! the same seed for all of `n`; a range check with the wrong bound.

use omlx_api::{Fault, Finish, Generate, Priority, Refusal, Usage};
use omlx_http::{Owner, Settings};
use serde_json::{Value, json};

use crate::rig::{Act, CHAT, CONTEXT, Parts, Rig, TEXT, least, texts, with};

/// The one request that the engine sees for `patch`.
async fn asked(rig: &Rig, path: &str, patch: &Value) -> Generate {
    let (status, answer) = rig.post(path, &with(&least(path), patch)).await;
    assert_eq!(status, 200, "{patch} {answer}");
    let mut asked = rig.asked();
    assert_eq!(asked.len(), 1, "{patch}");
    asked.remove(0)
}

/// `patch` is refused with 400 and names `param`, on each of `paths`; the engine hears nothing.
async fn refused(rig: &Rig, paths: &[&str], patch: &Value, param: &str) {
    for path in paths {
        let (status, answer) = rig.post(path, &with(&least(path), patch)).await;
        assert_eq!(status, 400, "{path} {patch} {answer}");
        assert_eq!(answer["error"]["param"], param, "{path} {patch} {answer}");
        assert_eq!(answer["error"]["type"], "invalid_request_error");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains(param)), "{answer}");
        assert!(rig.asked().is_empty());
    }
}

const BOTH: &[&str] = &[CHAT, TEXT];

#[tokio::test]
async fn sampling_values_reach_the_engine() {
    let rig = Rig::saying(&["ok "]);
    for path in BOTH {
        let patch = json!({"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.3,
            "presence_penalty": -2, "frequency_penalty": 2, "logit_bias": {"7": -100, "9": 0.5}, "seed": 42});
        let s = asked(&rig, path, &patch).await.sampling;
        assert_eq!((s.temperature, s.top_p, s.top_k, s.min_p), (0.5, 0.9, 7, 0.1));
        assert_eq!((s.repetition_penalty, s.presence_penalty, s.frequency_penalty), (1.3, -2.0, 2.0));
        assert_eq!((s.logit_bias, s.seed), (vec![(7, -100.0), (9, 0.5)], 42));
    }
}

#[tokio::test]
async fn mod_6_nothing_given_null_and_zero() {
    let rig = Rig::saying(&["ok "]);
    let names = [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
        "stop",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "stream",
        "stream_options",
        "ignore_eos",
        "response_format",
        "tools",
        "tool_choice",
        "functions",
        "chat_template_kwargs",
        "logprobs",
        "top_logprobs",
        "echo",
        "suffix",
        "best_of",
        "user",
    ];
    let nulls: Value = names.into_iter().map(|name| (name.to_owned(), Value::Null)).collect();
    for path in BOTH {
        for patch in [&json!({}), &nulls] {
            let s = asked(&rig, path, patch).await.sampling;
            assert_eq!((s.temperature, s.top_p, s.top_k, s.min_p), (1.0, 1.0, 0, 0.0));
        }
        assert_eq!(asked(&rig, path, &json!({"temperature": 0})).await.sampling.temperature, 0.0);
    }
    let model = Settings { max_tokens: Some(16), ..Settings::default() };
    let all = Settings { temperature: Some(0.25), max_tokens: Some(8), ..Settings::default() };
    let rig = Rig::new(&["ok "], Parts { owner: Owner { model, all }, ..Parts::default() });
    let owners = asked(&rig, CHAT, &json!({"temperature": null})).await;
    assert_eq!((owners.sampling.temperature, owners.limit), (0.25, 16));
    let clients = asked(&rig, CHAT, &json!({"temperature": 0, "max_tokens": 4})).await;
    assert_eq!((clients.sampling.temperature, clients.limit), (0.0, 4));
}

#[tokio::test]
async fn top_k_off() {
    let rig = Rig::saying(&["ok "]);
    for off in [-1, 0] {
        assert_eq!(asked(&rig, CHAT, &json!({"top_k": off})).await.sampling.top_k, 0);
    }
}

#[tokio::test]
async fn seeds() {
    let rig = Rig::saying(&["ok "]);
    for (given, expected) in [(json!(0), 0), (json!(u64::MAX), u64::MAX), (json!(-1), u64::MAX)] {
        assert_eq!(asked(&rig, CHAT, &json!({"seed": given})).await.sampling.seed, expected);
    }
    let (one, two) = (asked(&rig, CHAT, &json!({})).await, asked(&rig, CHAT, &json!({})).await);
    assert_ne!(one.sampling.seed, two.sampling.seed, "an open seed differs per request");

    let (status, _) = rig.post(TEXT, &with(&least(TEXT), &json!({"prompt": ["a", "b"], "n": 3, "seed": 5}))).await;
    let seeds: Vec<u64> = rig.asked().iter().map(|request| request.sampling.seed).collect();
    assert_eq!((status, seeds[0]), (200, 5), "the first answer has the seed itself");
    assert_eq!(seeds[..3], seeds[3..], "the same for each prompt");
    assert!(seeds[1] > 1000 && seeds[2] > 1000 && seeds[1] != seeds[2], "no neighbours: {seeds:?}");
    let _ = rig.post(TEXT, &with(&least(TEXT), &json!({"prompt": ["a", "b"]}))).await;
    let open = rig.asked();
    assert_ne!(open[0].sampling.seed, open[1].sampling.seed, "prompts of a list are drawn apart");
}

#[tokio::test]
async fn api_9_limits() {
    let rig = Rig::saying(&["ok "]);
    let chat = async |patch: Value| asked(&rig, CHAT, &patch).await;
    let prompt = chat(json!({})).await.tokens.len();
    let rest = CONTEXT - prompt;
    assert_eq!(chat(json!({})).await.limit, rest, "chat: what the context leaves");
    assert_eq!(asked(&rig, TEXT, &json!({})).await.limit, 16, "completions: OpenAI's default");
    assert_eq!(chat(json!({"max_tokens": 1})).await.limit, 1);
    assert_eq!(chat(json!({"max_completion_tokens": 3})).await.limit, 3);
    assert_eq!(chat(json!({"max_tokens": 9, "max_completion_tokens": 3})).await.limit, 3);
    assert_eq!(chat(json!({"max_tokens": 9, "max_completion_tokens": null})).await.limit, 9);
    assert_eq!(chat(json!({"max_tokens": u64::MAX})).await.limit, rest);
}

#[tokio::test]
async fn api_9_max_tokens_0_needs_no_engine() {
    let rig = Rig::saying(&["ok "]);
    for path in BOTH {
        let (status, answer) = rig.post(path, &with(&least(path), &json!({"max_tokens": 0}))).await;
        assert_eq!((status, texts(&answer)), (200, vec![String::new()]));
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 0);
        assert!(answer["usage"]["prompt_tokens"].as_u64() > Some(0));
        let (events, done) = rig.stream(path, &with(&least(path), &json!({"max_tokens": 0}))).await;
        assert_eq!((events.last().expect("one")["choices"][0]["finish_reason"].as_str(), done), (Some("length"), true));
    }
    let (_, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"max_tokens": 0, "echo": true}))).await;
    assert_eq!(texts(&answer), ["hello"]);
    // what the engine would refuse is refused without it; seen to fail: not looked at without `echo`
    let vocab = rig.text.vocab();
    for prompt in [json!([97, vocab]), json!([[97], [u32::MAX]])] {
        let (status, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"max_tokens": 0, "prompt": prompt}))).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("invalid_value")), "{answer}");
        assert_eq!(answer["error"]["param"], "prompt");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(&format!("outside the vocabulary of {vocab} tokens")), "{message}");
    }
    let (status, _) = rig.post(TEXT, &with(&least(TEXT), &json!({"max_tokens": 0, "prompt": [97, vocab - 1]}))).await;
    assert_eq!(status, 200);
    assert!(rig.asked().is_empty());
}

#[tokio::test]
async fn stop_ids_and_ignore_eos() {
    let rig = Rig::saying(&["ok "]);
    assert_eq!(asked(&rig, CHAT, &json!({})).await.stop, rig.text.stop_ids());
    assert_eq!(asked(&rig, CHAT, &json!({"ignore_eos": true, "max_tokens": 8})).await.stop, Vec::<u32>::new());
}

#[tokio::test]
async fn prompts_in_four_shapes() {
    let rig = Rig::saying(&["ok "]);
    let encode = |text: &str| rig.text.encode(text, true).expect("plain text");
    let cases = [
        (json!("ab"), vec![encode("ab")]),
        (json!(["ab", "c"]), vec![encode("ab"), encode("c")]),
        (json!([97, 98]), vec![vec![97, 98]]),
        (json!([[97], [98, 99]]), vec![vec![97], vec![98, 99]]),
    ];
    for (prompt, expected) in cases {
        let (status, answer) =
            rig.post(TEXT, &with(&least(TEXT), &json!({"prompt": prompt, "n": 2, "echo": true}))).await;
        assert_eq!(status, 200, "{answer}");
        let twice: Vec<_> = expected.iter().flat_map(|tokens| [tokens.clone(), tokens.clone()]).collect();
        assert_eq!(rig.asked().into_iter().map(|request| request.tokens).collect::<Vec<_>>(), twice);
        let echoed: Vec<_> = twice.iter().map(|ids| rig.text.decode(ids, true).expect("known ids") + "ok ").collect();
        assert_eq!(texts(&answer), echoed, "{prompt}");
        let indices: Vec<_> = (0..twice.len()).collect();
        assert_eq!(
            answer["choices"]
                .as_array()
                .expect("list")
                .iter()
                .map(|c| c["index"].as_u64().expect("index") as usize)
                .collect::<Vec<_>>(),
            indices
        );
    }
}

#[tokio::test]
async fn template_arguments_and_unknown_fields() {
    let rig = Rig::saying(&["ok "]);
    let patch = json!({"chat_template_kwargs": {"enable_thinking": false}, "user": "u", "store": true, "metadata": {},
        "service_tier": "auto", "parallel_tool_calls": true, "made_up": [1]});
    assert_eq!(asked(&rig, CHAT, &patch).await.tokens, asked(&rig, CHAT, &json!({})).await.tokens);
}

#[tokio::test]
async fn ranges() {
    let rig = Rig::saying(&["ok "]);
    let cases = [
        ("temperature", json!([-0.1, 2.1, "1", true, [], 1e300])),
        ("top_p", json!([0, -0.5, 1.01, "x", 1e-60])),
        ("top_k", json!([-2, 1.5, "5"])),
        ("min_p", json!([-0.1, 1.1])),
        ("repetition_penalty", json!([0, -1, 11])),
        ("presence_penalty", json!([-2.1, 2.1])),
        ("frequency_penalty", json!([-2.1, 2.1])),
        ("max_tokens", json!([-1, "5", 1.5, true])),
        ("max_completion_tokens", json!([-1, "5"])),
        ("seed", json!(["5", 1.5, 1e30])),
        ("n", json!([0, 17, -1, "2"])),
        ("stop", json!([[""], "", ["a", "b", "c", "d", "e"], 5, [5], "x".repeat(4097), ["a", "x".repeat(4097)]])),
        ("logit_bias", json!([[], 3, {"x": 1}, {"-1": 1}, {"1.5": 1}])),
        ("logit_bias.7", json!([{"7": 101}, {"7": -101}, {"7": "1"}])),
        ("stream", json!(["true", 1])),
        ("stream_options", json!([true, [true], [], "x"])),
        ("stream_options.include_usage", json!([{"include_usage": 1}])),
        ("ignore_eos", json!([1])),
        ("model", json!([5, null, ""])),
        (
            "response_format",
            json!([{"type": "json_object"}, {"type": "json_schema", "json_schema": {}}, ["text"], "text"]),
        ),
        ("response_format.type", json!([{}])),
    ];
    for (param, values) in cases {
        let field = param.split('.').next().expect("a name");
        for value in values.as_array().expect("a list") {
            refused(&rig, BOTH, &json!({field: value}), param).await;
        }
    }
    for fine in [
        json!({"temperature": 2}),
        json!({"top_p": 1}),
        json!({"min_p": 1}),
        json!({"stop": []}),
        json!({"stop": ["a", "b", "c", "d"]}),
        json!({"response_format": {"type": "text"}}),
        json!({"repetition_penalty": 0.1}),
    ] {
        asked(&rig, CHAT, &fine).await;
    }
}

/// No word of Rust, and no long value repeated.
#[tokio::test]
async fn wrong_types_are_told_in_the_words_of_the_api() {
    let rig = Rig::saying(&["ok "]);
    let cases = [
        (TEXT, json!({"temperature": "hot"}), "`temperature` has to be a number, found \"hot\""),
        (TEXT, json!({"temperature": true}), "`temperature` has to be a number, found true"),
        (TEXT, json!({"max_tokens": -1}), "`max_tokens` has to be a whole number of 0 or more, found -1"),
        (TEXT, json!({"max_tokens": 1.5}), "`max_tokens` has to be a whole number of 0 or more, found 1.5"),
        (TEXT, json!({"top_k": "5"}), "`top_k` has to be a whole number, found \"5\""),
        (TEXT, json!({"stream": "yes, expected u64"}), "`stream` has to be true or false, found \"yes, expected u64\""),
        (TEXT, json!({"stream_options": [true]}), "`stream_options` has to be an object, found [true]"),
        (TEXT, json!({"logit_bias": [1]}), "`logit_bias` has to be an object, found [1]"),
        (TEXT, json!({"logit_bias": {"7": "1"}}), "`logit_bias.7` has to be a number, found \"1\""),
        (TEXT, json!({"stop": 5}), "`stop` has to be a string or a list of strings, found 5"),
        (TEXT, json!({"seed": 1.5}), "`seed` has to be a whole number of at most 64 bits, found 1.5"),
        (TEXT, json!({"response_format": {}}), "`response_format.type` is missing"),
        (TEXT, json!({"echo": "x".repeat(100)}), "`echo` has to be true or false, found a string of 100 bytes"),
        (
            TEXT,
            json!({"prompt": {}}),
            "`prompt` has to be a string, a list of strings, a list of token ids or a list of lists of token ids, found {}",
        ),
        (CHAT, json!({"messages": "hi"}), "`messages` has to be a list, found \"hi\""),
        (CHAT, json!({"top_logprobs": "3"}), "`top_logprobs` has to be a whole number of 0 or more, found \"3\""),
        (CHAT, json!({"chat_template_kwargs": []}), "`chat_template_kwargs` has to be an object, found []"),
    ];
    for (path, patch, expected) in cases {
        let (status, answer) = rig.post(path, &with(&least(path), &patch)).await;
        assert_eq!((status, answer["error"]["message"].as_str()), (400, Some(expected)), "{patch}");
    }
}

#[tokio::test]
async fn what_only_chat_takes() {
    let rig = Rig::saying(&["ok "]);
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let cases = [
        ("messages", json!({"messages": null})),
        ("messages", json!({"messages": []})),
        ("messages", json!({"messages": "hi"})),
        ("tools", json!({"tools": tool})),
        ("tools", json!({"tools": tool, "tool_choice": "auto"})),
        ("tool_choice", json!({"tool_choice": "required"})),
        ("tool_choice", json!({"tool_choice": {"type": "function", "function": {"name": "f"}}})),
        ("functions", json!({"functions": [{"name": "f"}]})),
        ("chat_template_kwargs", json!({"chat_template_kwargs": [1]})),
        ("logprobs", json!({"logprobs": 1})),
    ];
    for (param, patch) in cases {
        refused(&rig, &[CHAT], &patch, param).await;
    }
    for fine in [json!({"tools": []}), json!({"tools": tool, "tool_choice": "none"}), json!({"tool_choice": "auto"})] {
        asked(&rig, CHAT, &fine).await;
    }
}

#[tokio::test]
async fn a_message_of_the_wrong_shape() {
    let rig = Rig::saying(&["ok "]);
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]);
    let user = json!({"role": "user", "content": "x"});
    for (messages, param, code) in [
        (json!([5]), "messages[0]", "invalid_value"),
        (json!([{"content": "x"}]), "messages[0].role", "missing_required_parameter"),
        (json!([user, {"role": 5, "content": "x"}]), "messages[1].role", "invalid_value"),
        (json!([{"role": "User", "content": "x"}]), "messages[0].role", "invalid_value"),
        (json!([{"role": "user"}]), "messages[0].content", "missing_required_parameter"),
        (json!([user, {"role": "user", "content": null}]), "messages[1].content", "missing_required_parameter"),
        (json!([{"role": "user", "content": 5}]), "messages[0].content", "invalid_value"),
        (json!([{"role": "user", "content": []}]), "messages[0].content", "invalid_value"),
        (json!([{"role": "user", "content": [5]}]), "messages[0].content[0]", "invalid_value"),
        (
            json!([{"role": "user", "content": [{"type": 5, "text": "q"}]}]),
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (json!([{"role": "assistant"}]), "messages[0].content", "missing_required_parameter"),
        (json!([{"role": "assistant", "tool_calls": []}]), "messages[0].content", "missing_required_parameter"),
        (json!([{"role": "assistant", "tool_calls": 5}]), "messages[0].tool_calls", "invalid_value"),
        (json!([{"role": "assistant", "tool_calls": [5]}]), "messages[0].tool_calls[0]", "invalid_value"),
        (json!([{"role": "assistant", "function_call": {}}]), "messages[0].function_call", "invalid_value"),
        (json!([{"role": "assistant", "audio": {"id": "a"}}]), "messages[0].audio", "unsupported_parameter"),
        (json!([{"role": "user", "content": "x", "name": 5}]), "messages[0].name", "invalid_value"),
        (json!([user, {"role": "tool", "tool_call_id": "a"}]), "messages[1].content", "missing_required_parameter"),
        (image, "messages[0].content[0]", "unsupported_content"),
    ] {
        let (status, answer) = rig.post(CHAT, &with(&least(CHAT), &json!({"messages": messages}))).await;
        let error = &answer["error"];
        assert_eq!(
            (status, error["param"].as_str(), error["code"].as_str()),
            (400, Some(param), Some(code)),
            "{messages} {answer}"
        );
    }
    let robot = json!({"messages": [{"role": "robot", "content": "x"}]});
    let (_, answer) = rig.post(CHAT, &with(&least(CHAT), &robot)).await;
    assert_eq!(
        answer["error"]["message"],
        "`messages[0].role` has to be one of system, developer, user, assistant, tool, function, found \"robot\""
    );
}

/// Seen to fail: an assistant's call held to have a content, its refusal dropped.
#[tokio::test]
async fn messages_of_every_kind() {
    let rig = Rig::saying(&["ok "]);
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let user = json!({"role": "user", "content": [{"type": "text", "text": "hi"}]});
    for messages in [
        json!([{"role": "system", "content": "s"}, user]),
        json!([{"role": "developer", "content": "s"}, user]),
        json!([user, {"role": "assistant", "tool_calls": call}, {"role": "tool", "tool_call_id": "c", "content": "4"}]),
        json!([user, {"role": "assistant", "content": null, "tool_calls": call}]),
        json!([user, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": ""}}]),
        json!([user, {"role": "assistant", "content": "", "refusal": null, "audio": null, "tool_calls": null}]),
        json!([user, {"role": "function", "name": "f", "content": "4"}]),
    ] {
        asked(&rig, CHAT, &json!({"messages": messages})).await;
    }
    let said = async |message: Value| asked(&rig, CHAT, &json!({"messages": [user, message]})).await.tokens;
    assert_eq!(
        said(json!({"role": "assistant", "refusal": "no"})).await,
        said(json!({"role": "assistant", "content": "no"})).await
    );
}

#[tokio::test]
async fn what_only_completions_takes() {
    let rig = Rig::saying(&["ok "]);
    let many = vec!["a"; 129];
    let cases = [
        ("prompt", json!({"prompt": null})),
        ("prompt", json!({"prompt": ""})),
        ("prompt", json!({"prompt": []})),
        ("prompt", json!({"prompt": [[]]})),
        ("prompt", json!({"prompt": 5})),
        ("prompt", json!({"prompt": ["a", 5]})),
        ("prompt", json!({"prompt": [-1]})),
        ("prompt", json!({"prompt": many})),
        ("prompt", json!({"prompt": ["a", "b", "c", "d", "e", "f", "g", "h", "i"], "n": 16})),
        ("echo", json!({"echo": true, "logprobs": 1})),
        ("echo", json!({"echo": "yes"})),
        ("suffix", json!({"suffix": "end"})),
        ("best_of", json!({"best_of": 2})),
        ("logprobs", json!({"logprobs": 21})),
        ("logprobs", json!({"logprobs": true})),
    ];
    for (param, patch) in cases {
        refused(&rig, &[TEXT], &patch, param).await;
    }
    for fine in [json!({"suffix": ""}), json!({"best_of": 1})] {
        asked(&rig, TEXT, &fine).await;
    }
}

/// What would change the answer and cannot be done is never dropped in silence.
///
/// Seen to fail: with the table of fields left out.
#[tokio::test]
async fn what_cannot_be_honoured_is_refused() {
    let rig = Rig::saying(&["ok "]);
    let schema = json!({"type": "object"});
    for patch in [
        json!({"modalities": ["audio"]}),
        json!({"modalities": ["text", "audio"]}),
        json!({"modalities": 5}),
        json!({"audio": {"voice": "alloy", "format": "wav"}}),
        json!({"reasoning_effort": "high"}),
        json!({"verbosity": "low"}),
        json!({"web_search_options": {}}),
        json!({"functions": [{"name": "f"}]}),
        json!({"function_call": {"name": "f"}}),
        json!({"suffix": "end"}),
        json!({"best_of": 2}),
        json!({"stream_options": {"include_usage": true}}),
        json!({"stream_options": {}, "stream": false}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        json!({"tool_choice": "required"}),
        json!({"guided_json": schema}),
        json!({"structured_outputs": {"json": schema}}),
        json!({"grammar": "root ::= \"a\""}),
        json!({"min_tokens": 3}),
        json!({"stop_token_ids": [7]}),
        json!({"skip_special_tokens": false}),
        json!({"repeat_penalty": 1.1}),
        json!({"typical_p": "x"}),
    ] {
        let param = patch.as_object().and_then(|map| map.keys().next()).expect("a field").clone();
        refused(&rig, BOTH, &patch, &param).await;
    }
    for patch in [json!({"echo": true}), json!({"prompt": "x"}), json!({"continue_final_message": true})] {
        let param = patch.as_object().and_then(|map| map.keys().next()).expect("a field").clone();
        refused(&rig, &[CHAT], &patch, &param).await;
    }
    refused(&rig, &[TEXT], &json!({"messages": []}), "messages").await;
    refused(&rig, &[TEXT], &json!({"top_logprobs": 2}), "top_logprobs").await;
    let (_, answer) = rig.post(CHAT, &with(&least(CHAT), &json!({"stream_options": {}}))).await;
    assert_eq!(answer["error"]["message"], "The 'stream_options' parameter is only allowed when 'stream' is enabled.");
}

/// Seen to fail: a field refused whatever it holds.
#[tokio::test]
async fn what_asks_for_nothing_or_changes_nothing_is_let_through() {
    let rig = Rig::saying(&["ok "]);
    let idle = json!({"modalities": ["text"], "audio": null, "reasoning_effort": "none", "verbosity": "medium",
        "functions": [], "function_call": "auto", "suffix": "", "best_of": 1, "tools": [], "tool_choice": "auto",
        "min_tokens": 0, "stop_token_ids": [], "skip_special_tokens": true, "repeat_penalty": 1, "typical_p": 1.0});
    let decoration = json!({"user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "default",
        "prediction": {"type": "content", "content": "x"}, "safety_identifier": "s", "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "parallel_tool_calls": false});
    for path in BOTH {
        let plain = asked(&rig, path, &json!({"seed": 1})).await;
        for patch in [&idle, &decoration] {
            let found = asked(&rig, path, &with(patch, &json!({"seed": 1}))).await;
            assert_eq!((found.tokens, found.sampling), (plain.tokens.clone(), plain.sampling.clone()), "{patch}");
        }
    }
}

/// Seen to fail: an unknown id's error without a parameter.
#[tokio::test]
async fn ids_outside_the_vocabulary_name_their_parameter() {
    let act = || -> Option<Act> {
        Some(Box::new(|request: &Generate, reply| {
            let ids = request.tokens.iter().chain(request.sampling.logit_bias.iter().map(|(id, _)| id));
            match ids.copied().find(|id| *id >= 300) {
                Some(id) => reply.fail(Fault::Refused(Refusal::UnknownToken { id, vocab: 300 })),
                None => reply.done(Finish::Length, Usage::default()),
            }
        }))
    };
    let rig = Rig::new(&["ok "], Parts { act: act(), ..Parts::default() });
    let bias = json!({"logit_bias": {"999": 1}});
    for (path, patch, param) in [
        (TEXT, json!({"prompt": [97, 4000]}), "prompt"),
        (TEXT, json!({"prompt": [[97], [4000]]}), "prompt"),
        (TEXT, with(&bias, &json!({"prompt": [97]})), "logit_bias"),
        (TEXT, with(&bias, &json!({"max_tokens": 0})), "logit_bias"),
        (CHAT, bias.clone(), "logit_bias"),
    ] {
        // of several prompts, the first may have begun to stream by then
        let manners: &[bool] = if patch["prompt"][0].is_array() { &[false] } else { &[false, true] };
        for stream in manners {
            let (status, answer) = rig.post(path, &with(&least(path), &with(&patch, &json!({"stream": stream})))).await;
            assert_eq!((status, answer["error"]["param"].as_str()), (400, Some(param)), "{patch} {answer}");
            assert_eq!(answer["error"]["code"], "invalid_value");
        }
    }
}

/// Seen to fail: a tier that is not known taken for batch work.
#[tokio::test]
async fn batch_work_says_so() {
    let rig = Rig::saying(&["ok "]);
    let cases = [
        (json!({}), Priority::Interactive),
        (json!({"service_tier": null, "priority": null}), Priority::Interactive),
        (json!({"service_tier": "auto"}), Priority::Interactive),
        (json!({"service_tier": "default", "priority": 0}), Priority::Interactive),
        (json!({"service_tier": "priority"}), Priority::Interactive),
        (json!({"service_tier": "on_demand"}), Priority::Interactive),
        (json!({"service_tier": "flex"}), Priority::Batch),
        (json!({"service_tier": "batch"}), Priority::Batch),
        (json!({"priority": 1}), Priority::Batch),
        (json!({"priority": -1}), Priority::Interactive),
    ];
    for path in BOTH {
        for (patch, expected) in &cases {
            assert_eq!(asked(&rig, path, patch).await.priority, *expected, "{patch}");
        }
    }
    refused(&rig, BOTH, &json!({"priority": "high"}), "priority").await;
    refused(&rig, BOTH, &json!({"service_tier": 3}), "service_tier").await;
}
