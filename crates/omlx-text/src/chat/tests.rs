//! Wire chats against strict templates.

use super::*;
use crate::template::Sources;

/// As strict as templates get: system only first, known roles only, arguments as a map, content a text.
const STRICT: &str = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
{{ raise_exception('System message must be at the beginning.') }}{% endif %}\
{% if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('Unknown role ' ~ m.role) }}{% endif %}\
[{{ m.role }}:{% if 'a' in m.content %}{% endif %}{{ m.content }}\
{% for t in m.tool_calls or [] %}{% for k, v in t.function.arguments|items %} {{ k }}={{ v }}{% endfor %}{% endfor %}]\
{% endfor %}{% if add_generation_prompt %}[assistant:{% endif %}";

fn render_by(template: &str, messages: &Value, continue_final: bool) -> Result<String> {
    let mut sources = Sources::default();
    sources.set("default", template.to_owned(), "x".to_owned());
    let template = Template::compile(&sources, Map::new())?.expect("has a default");
    let messages = messages.as_array().expect("a list").clone();
    let chat = Chat { messages, add_generation_prompt: true, continue_final, ..Chat::default() };
    render(&template, &chat, SystemTime::UNIX_EPOCH)
}

fn check(messages: &Value, expected: &str) {
    assert_eq!(render_by(STRICT, messages, false).unwrap(), expected, "{messages}");
}

fn call(arguments: &Value) -> Value {
    json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}})
}

#[test]
fn content_in_every_shape() {
    for (content, text) in [
        (json!("Hi"), "Hi"),
        (json!(null), ""),
        (json!([]), ""),
        (json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]), "a\nb"),
    ] {
        check(&json!([{"role": "user", "content": content}]), &format!("[user:{text}][assistant:"));
    }
    check(&json!([{"role": "assistant"}]), "[assistant:][assistant:");
}

#[test]
fn tool_rounds() {
    for (arguments, written) in [
        (json!("{\"q\":\"é\"}"), " q=é"),
        (json!({"q": 1}), " q=1"),
        (json!(""), ""),
        (json!("not json"), " arguments=not json"),
        (json!("[1]"), " arguments=[1]"),
    ] {
        check(
            &json!([{"role": "user", "content": "?"}, {"role": "assistant", "content": null, "tool_calls": [call(&arguments)]},
                   {"role": "tool", "content": [{"type": "text", "text": "42"}]}]),
            &format!("[user:?][assistant:{written}][tool:42][assistant:"),
        );
    }
}

#[test]
fn arguments_that_a_template_prints_stay_as_they_were() {
    let template = "{{ messages[0].tool_calls[0].function.arguments }}";
    let messages = json!([{"role": "assistant", "tool_calls": [call(&json!("not json"))]}]);
    assert_eq!(render_by(template, &messages, false).unwrap(), "not json");
}

#[test]
fn null_fields_are_not_there() {
    let template = "{{ messages[0].tool_calls is defined }}{{ messages[0].reasoning_content is defined }}";
    for calls in [json!(null), json!([])] {
        let messages = json!([{"role": "assistant", "content": "", "tool_calls": calls, "reasoning_content": null}]);
        assert_eq!(render_by(template, &messages, false).unwrap(), "FalseFalse");
    }
}

#[test]
fn late_system_messages_are_folded() {
    let (user, late) =
        (|t: &str| json!({"role": "user", "content": t}), json!({"role": "system", "content": "mode on"}));
    let (first, said) = (json!({"role": "developer", "content": "be"}), json!({"role": "assistant", "content": "yo"}));
    check(
        &json!([first, user("a"), said, late, user("b")]),
        "[system:be][user:a][assistant:yo][user:mode on\n\nb][assistant:",
    );
    check(&json!([first, user("a"), said, late]), "[system:be][user:a][assistant:yo][user:mode on][assistant:");
    check(&json!([first, user("a"), late]), "[system:be][user:a\n\nmode on][assistant:");
    // A template without a system role, and one that drops late system messages without a word.
    let none = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}[{{ m.content }}]{% endfor %}";
    assert_eq!(render_by(none, &json!([first, user("a")]), false).unwrap(), "[be\n\na]");
    let silent =
        "{% for m in messages %}{% if m.role != 'system' or loop.first %}[{{ m.content }}]{% endif %}{% endfor %}";
    assert_eq!(
        render_by(silent, &json!([first, user("a"), said, late, user("b")]), false).unwrap(),
        "[be][a][yo][mode on\n\nb]"
    );
    // A template that takes them is not interfered with.
    let lax = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";
    assert_eq!(
        render_by(lax, &json!([user("a"), late, user("b")]), false).unwrap(),
        "[user:a][system:mode on][user:b]"
    );
}

#[test]
fn real_refusals_are_errors() {
    let late = json!([{"role": "user", "content": "a"}, {"role": "system", "content": "x"}, {"role": "robot", "content": "b"}]);
    let error = render_by(STRICT, &late, false).unwrap_err();
    assert_eq!(error.to_string(), "System message must be at the beginning.");
    let error = render_by(STRICT, &json!([{"role": "robot", "content": "b"}]), false).unwrap_err();
    assert!(error.is_request() && error.to_string() == "Unknown role robot", "{error}");
}

#[test]
fn nonsense_is_named() {
    for (message, start) in [
        (json!(3), "messages[0]: expected an object"),
        (json!({"content": "x"}), "messages[0].role: expected a text, found null"),
        (json!({"role": "user", "content": 3}), "messages[0].content: expected"),
        (json!({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0]: expected a part with a text"),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
            "messages[0].content[0]: this model reads text only, found a part of type \"image_url\"",
        ),
        (json!({"role": "assistant", "tool_calls": {}}), "messages[0].tool_calls: expected a list"),
    ] {
        let error = render_by(STRICT, &json!([message]), false).unwrap_err();
        assert!(error.is_request() && error.to_string().starts_with(start), "{error}");
    }
}

#[test]
fn the_last_message_is_continued() {
    let chat = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "The answer is "}]);
    assert_eq!(render_by(STRICT, &chat, true).unwrap(), "[user:a][assistant:The answer is ");
    // A template that trims: the space is gone with the template's own.
    let trimming = "{% for m in messages %}<{{ m.content|trim }}>{% endfor %}";
    assert_eq!(render_by(trimming, &chat, true).unwrap(), "<a><The answer is");
    let user = json!([{"role": "user", "content": "a"}]);
    assert!(matches!(render_by(STRICT, &user, true), Err(Error::Continue { .. })));
    let dropped = json!([{"role": "assistant", "content": "a"}]);
    assert!(matches!(render_by("none", &dropped, true), Err(Error::Continue { .. })));
}

#[test]
fn a_template_that_does_not_end_is_tried_once() {
    let template = "{% if messages[0].role == 'system' %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}\
{% endfor %}{% endif %}{{ messages[0].content }}";
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]);
    let error = render_by(template, &messages, false).unwrap_err();
    assert!(matches!(error, Error::TemplateBudget { .. }), "{error:?}");
}

/// In order, out of order, the same text twice, and one inside another. Seen to fail: looking only behind the text before.
#[test]
fn system_texts_are_found_wherever_they_stand() {
    let system = |texts: &[&str]| -> Vec<Value> {
        texts.iter().map(|text| json!({"role": "system", "content": text})).collect()
    };
    for (texts, complete) in [
        (&["one", "two"][..], true),
        (&["two", "one"], true),
        (&["one", "one"], true),
        (&["three", "two", " ", ""], true),
        (&["hre", "three"], true),
        (&["one", "four"], false),
        (&["four", "one"], false),
    ] {
        assert_eq!(fold::is_complete("<one> <two> <three>", &system(texts)), complete, "{texts:?}");
    }
}
