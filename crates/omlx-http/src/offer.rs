//! The tools that a chat offers to the model, whichever API they came by.

use std::sync::Arc;

use omlx_markup::Tool;
use serde_json::Value;

/// What is offered to the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    /// As templates read them; empty where none are offered.
    pub(crate) wire: Vec<Value>,
    /// As the reader of the answer needs them.
    pub(crate) tools: Arc<[Tool]>,
    /// Whether the model may make no more than one call.
    pub(crate) one_call: bool,
}

impl Offer {
    /// The tools in OpenAI's form, all of them checked.
    pub(crate) fn of(wire: Vec<Value>, one_call: bool) -> Self {
        let tools = wire.iter().filter_map(Tool::of_wire).collect();
        Self { wire, tools, one_call }
    }

    /// What was told of the tools to a model is what stands in its prompt. Templates that know none leave them out without a word.
    pub(crate) fn stands_in(&self, prompt: &str) -> bool {
        self.tools.iter().all(|tool| prompt.contains(&tool.name))
    }
}
