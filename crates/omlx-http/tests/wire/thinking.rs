//! Thoughts: split from the answer in both modes, counted, and steered.
//!
//! Faults planted and seen: the held end of a thought given as content.

use std::path::Path;

use serde_json::{Value, json};

use crate::rig::{CHAT, MODEL, Parts, Rig, say, with};
use crate::tools::{both, template};

/// A model whose template ends so, and that says these tokens.
fn thinking(entries: &[&str], change: fn(&Path)) -> Rig {
    Rig::new(entries, Parts { change, context: 1 << 12, ..Parts::default() })
}

fn asking(patch: &Value) -> Value {
    with(&json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}), patch)
}

#[tokio::test]
async fn tool_5_a_cut_thought_is_no_answer() {
    // The template opens the thought, or the model does.
    let opened: fn(&Path) = |folder| template(folder, "<go><think>\n");
    let open: fn(&Path) = |folder| template(folder, "{#</think>#}<go>");
    for (entries, change) in [
        (&["<think>", "plan ", "more ", "</think>", "done"][..], open),
        (&["plan ", "more ", "</think>", "done"], opened),
        (&["<think>", "plan ", "more ", "</think>", "done"], opened),
    ] {
        let rig = thinking(entries, change);
        let before = entries.len() - 4;
        for (most, thought, text) in
            [(1, "plan ", ""), (2, "plan more ", ""), (3, "plan more ", ""), (4, "plan more ", "done")]
        {
            let most = most + before;
            let said = both(&rig, &asking(&json!({"max_tokens": most}))).await;
            assert_eq!(
                (said["thought"].as_str(), said["text"].as_str()),
                (Some(thought), Some(text)),
                "{entries:?} {most}"
            );
        }
        let (_, answer) = rig.post(CHAT, &asking(&json!({}))).await;
        assert_eq!(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], before + 3, "{entries:?}");
    }
    let cut = thinking(&["<think>", "plan", "\n", "</thi", "nk>", "done"], open);
    let said = both(&cut, &asking(&json!({"max_tokens": 4}))).await;
    assert_eq!((said["thought"].as_str(), said["text"].as_str()), (Some("plan\n</thi"), Some("")));
    let never = thinking(&["<think>", "plan ", "more "], open);
    let said = both(&never, &asking(&json!({}))).await;
    assert_eq!(
        (said["thought"].as_str(), said["text"].as_str(), said["finish"].as_str()),
        (Some("plan more "), Some(""), Some("stop"))
    );
}

/// The second thought needs marks that are no single tokens: no token comes twice in a parrot's script.
#[tokio::test]
async fn tool_5_a_second_thought() {
    let text = "<think>plan </think><think>more </think>done";
    let act = Some(say(text.bytes().map(u32::from).collect()));
    let rig = Rig::new(
        &["x"; 0],
        Parts { act, change: |folder| template(folder, "{#</think>#}<go>"), context: 1 << 12, ..Parts::default() },
    );
    let said = both(&rig, &asking(&json!({}))).await;
    assert_eq!((said["thought"].as_str(), said["text"].as_str()), (Some("plan more "), Some("done")));
}

#[tokio::test]
async fn how_hard_to_think() {
    let knobs: fn(&Path) = |folder| template(folder, "{#</think>#}{{ reasoning_effort }}{{ enable_thinking }}<go>");
    let rig = thinking(&["ok "], knobs);
    let prompt = |rig: &Rig| rig.text.decode(&rig.asked()[0].tokens, false).expect("known ids");
    for (patch, expected) in [
        (json!({"reasoning_effort": "high"}), "highTrue<go>"),
        (json!({"reasoning_effort": "none"}), "noneFalse<go>"),
        (json!({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false}}), "lowFalse<go>"),
        (json!({"chat_template_kwargs": {"enable_thinking": "x"}}), "x<go>"),
        (json!({"reasoning_effort": null}), "<go>"),
    ] {
        let (status, answer) = rig.post(CHAT, &asking(&patch)).await;
        assert_eq!((status, prompt(&rig).as_str()), (200, expected), "{patch} {answer}");
    }
    for bad in [json!({"reasoning_effort": "very"}), json!({"reasoning_effort": 3})] {
        let (status, answer) = rig.post(CHAT, &asking(&bad)).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("reasoning_effort")), "{answer}");
    }
    // A model that thinks, but cannot be told how hard, thinks as it does.
    let (status, _) = thinking(&["ok "], |folder| template(folder, "{#</think>#}<go>"))
        .post(CHAT, &asking(&json!({"reasoning_effort": "high"})))
        .await;
    assert_eq!(status, 200);
}

/// The last message goes on if it is the assistant's.
#[tokio::test]
async fn a_prefill_is_continued() {
    let turns: fn(&Path) = |folder| {
        template(
            folder,
            "{#</think>#}{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
        )
    };
    let rig = thinking(&["ok "], turns);
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "The answer is "}]);
    let prompt = |rig: &Rig| rig.text.decode(&rig.asked()[0].tokens, false).expect("known ids");
    for (patch, expected) in [
        (json!({}), "[user]a[end][assistant]The answer is "),
        (json!({"continue_final_message": true}), "[user]a[end][assistant]The answer is "),
        (
            json!({"continue_final_message": true, "add_generation_prompt": false}),
            "[user]a[end][assistant]The answer is ",
        ),
        (json!({"continue_final_message": false}), "[user]a[end][assistant]The answer is [end][assistant]"),
        (json!({"add_generation_prompt": true}), "[user]a[end][assistant]The answer is [end][assistant]"),
    ] {
        let (status, answer) = rig.post(CHAT, &asking(&with(&patch, &json!({"messages": messages})))).await;
        assert_eq!((status, prompt(&rig).as_str()), (200, expected), "{patch} {answer}");
    }
    // A thought that the prefill leaves open goes on as one.
    let open = json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>So"}]});
    let said = both(&thinking(&[" on", "</think>", "ok"], turns), &asking(&open)).await;
    assert_eq!((said["thought"].as_str(), said["text"].as_str()), (Some(" on"), Some("ok")));
    for bad in [
        json!({"continue_final_message": true}),
        json!({"continue_final_message": true, "add_generation_prompt": true, "messages": messages}),
    ] {
        let (status, answer) = rig.post(CHAT, &asking(&bad)).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("continue_final_message")), "{answer}");
    }
}
