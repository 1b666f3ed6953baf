//! The JSON shapes of Anthropic's Messages, and nothing else.
//!
//! As with OpenAI's: every field is optional, `null` means "not given", unknown fields are left alone.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `POST /v1/messages` takes. Blocks are looked at where they are read.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) messages: Option<Vec<Value>>,
    pub(super) system: Option<Value>,
    pub(super) stop_sequences: Option<Vec<String>>,
    pub(super) stream: Option<bool>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) thinking: Option<Thinking>,
    pub(super) output_config: Option<OutputConfig>,
    pub(super) service_tier: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolChoice {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) disable_parallel_tool_use: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Thinking {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutputConfig {
    pub(super) effort: Option<String>,
    pub(super) format: Option<Value>,
}

/// A whole answer, or the beginning of a streamed one.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<Block>,
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<String>,
    pub(super) usage: Usage,
}

/// A block of an answer.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text { text: String },
    Thinking { thinking: String, signature: &'static str },
    ToolUse { id: String, name: String, input: Value },
}

/// More of a block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names of the API")]
pub(super) enum Delta {
    TextDelta { text: String },
    ThinkingDelta { thinking: String },
    SignatureDelta { signature: &'static str },
    InputJsonDelta { partial_json: String },
}

/// Tokens: the prompt's are those that were computed and those that were found in the cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Usage {
    pub(super) input_tokens: usize,
    pub(super) cache_creation_input_tokens: usize,
    pub(super) cache_read_input_tokens: usize,
    pub(super) output_tokens: usize,
}

/// An event of a stream, under the name that is also its type.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: usize, content_block: Block },
    ContentBlockDelta { index: usize, delta: Delta },
    ContentBlockStop { index: usize },
    MessageDelta { delta: Ending, usage: Usage },
    MessageStop,
}

impl Event<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Event::MessageStart { .. } => "message_start",
            Event::ContentBlockStart { .. } => "content_block_start",
            Event::ContentBlockDelta { .. } => "content_block_delta",
            Event::ContentBlockStop { .. } => "content_block_stop",
            Event::MessageDelta { .. } => "message_delta",
            Event::MessageStop => "message_stop",
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Ending {
    pub(super) stop_reason: &'static str,
    pub(super) stop_sequence: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ModelList {
    pub(super) data: Vec<Model>,
    pub(super) has_more: bool,
    pub(super) first_id: Option<String>,
    pub(super) last_id: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Model {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) display_name: String,
    pub(super) created_at: String,
    pub(super) lifecycle: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_input_tokens: Option<usize>,
}
