//! A chat's way to a prompt, the same for every API: templates render it, tools are offered in it, and where the answer begins is read
//! from its end.

use omlx_markup::{Format, Markup};
use omlx_text::Chat;
use serde_json::Value;

use crate::answer::Reading;
use crate::catalog::Served;
use crate::error::Error;
use crate::offer::Offer;
use crate::prepare::prepare;
use crate::router::App;

/// A chat, and what is offered to the model in it.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    pub(crate) chat: Chat,
    pub(crate) offer: Offer,
    /// How hard the model is to think, in OpenAI's words.
    pub(crate) effort: Option<String>,
    /// Whether a model that cannot be told so is none the worse for it.
    pub(crate) lenient: bool,
}

/// The words for it.
pub(crate) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

const NO_TOOLS: &str = "this model's chat template tells it nothing of tools; leave them out, send `tool_choice: \"none\"`, or use a model \
                        that was made for tools";
const NO_FORMAT: &str = "how this model writes its calls is not known; its owner can say so (--set MODEL:tool_format=NAME), else leave them \
                         out";
const NO_EFFORT: &str = "this model does not think, or cannot be told how hard; leave it out";

impl Talk {
    /// The tokens of the prompt, and how the answer is to be read. `param` is where the chat stands in the request, `context` how many tokens
    /// it may have, `bytes` how large the request was.
    pub(crate) async fn encode(
        self,
        app: &App,
        served: &Served,
        (param, context): (&'static str, usize),
        bytes: usize,
    ) -> Result<(Vec<u32>, Reading), Error> {
        let Talk { mut chat, offer, effort, lenient } = self;
        let unsupported = |param: &'static str, way_out| Error::Unsupported { param: param.into(), way_out };
        if let Some(effort) = effort {
            let told = think(&mut chat, served, &effort);
            if !told && !lenient {
                return Err(unsupported("reasoning_effort", NO_EFFORT));
            }
        }
        let wanted = !offer.wire.is_empty();
        if wanted && served.markup.format.is_none() && served.text.has_template() {
            let told = served.text.template_text().contains("tools");
            return Err(unsupported("tools", if told { NO_FORMAT } else { NO_TOOLS }));
        }
        chat.tools = wanted.then(|| offer.wire.clone());
        // Without tools, calls are no concern of this answer; the channels of harmony always are.
        let format = served.markup.format.filter(|format| wanted || *format == Format::Harmony);
        let markup = Markup { format, ..served.markup };
        let text = served.text.clone();
        let continued = chat.continue_final.then(|| last_text(&chat.messages));
        let work = move || {
            let prompt = text.render_chat(&chat)?;
            let start = markup.start(&prompt, continued.as_deref());
            let told = offer.stands_in(&prompt);
            Ok((text.encode_within(&prompt, false, context)?, start, told, offer))
        };
        let (tokens, start, told, offer) = prepare(app, (param, context), bytes, work).await?;
        if !told {
            return Err(unsupported("tools", NO_TOOLS));
        }
        Ok((tokens, Reading { markup, start, tools: offer.tools, one_call: offer.one_call }))
    }
}

/// Tells the template how hard to think, where it can be told; a model that thinks anyway does so. False where it can do neither.
fn think(chat: &mut Chat, served: &Served, effort: &str) -> bool {
    let template = served.text.template_text();
    // A vocabulary with the marks of thoughts is no sign that a model thinks.
    let mut told = Markup::of_template(&template, |_| false).thinking.is_some() || effort == "none";
    // gpt-oss knows three words.
    let word = match effort {
        "none" | "minimal" if served.markup.format == Some(Format::Harmony) => "low",
        "xhigh" | "max" if served.markup.format == Some(Format::Harmony) => "high",
        word => word,
    };
    for (name, value) in [
        ("reasoning_effort", Value::from(word)),
        ("enable_thinking", Value::from(effort != "none")),
        ("thinking", Value::from(effort != "none")),
    ] {
        if template.contains(name) {
            told = true;
            chat.kwargs.entry(name).or_insert(value);
        }
    }
    told
}

/// The text of the last message.
fn last_text(messages: &[Value]) -> String {
    let content = messages.last().and_then(|message| message.get("content"));
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
