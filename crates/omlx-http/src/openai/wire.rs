//! The JSON shapes of OpenAI's chat and completions routes, and nothing else.
//!
//! Requests: every field is optional, `null` means "not given", unknown fields are left alone; what is required and what
//! is in range is checked where the request is read. The fields both routes share stand in [`Common`], and a body is
//! read once as `Common` and once as the route's own part.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// What both routes take.
#[derive(Debug, Deserialize)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<Object<StreamOptions>>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_completion_tokens: Option<u64>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) min_p: Option<f64>,
    pub(super) repetition_penalty: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) logit_bias: Option<BTreeMap<String, f64>>,
    pub(super) seed: Option<Seed>,
    pub(super) stop: Option<OneOrMore>,
    pub(super) n: Option<u64>,
    pub(super) ignore_eos: Option<bool>,
    pub(super) response_format: Option<Object<ResponseFormat>>,
    pub(super) service_tier: Option<String>,
    pub(super) priority: Option<i64>,
    pub(super) best_of: Option<u64>,
}

/// A JSON object and nothing else: by itself, serde would take a list of the fields' values too.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseFormat {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a whole number of at most 64 bits")]
pub(super) enum Seed {
    Unsigned(u64),
    Signed(i64),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// What the chat route takes besides.
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    pub(super) messages: Option<Vec<Value>>,
    pub(super) logprobs: Option<bool>,
    pub(super) top_logprobs: Option<u64>,
    pub(super) chat_template_kwargs: Option<Map<String, Value>>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) add_generation_prompt: Option<bool>,
    pub(super) continue_final_message: Option<bool>,
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<Value>,
}

/// What the completions route takes besides.
#[derive(Debug, Deserialize)]
pub(super) struct CompletionRequest {
    pub(super) prompt: Option<Prompt>,
    pub(super) logprobs: Option<u64>,
    pub(super) echo: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a string, a list of strings, a list of token ids or a list of lists of token ids"
)]
pub(super) enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Ids(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

/// A whole answer, or one chunk of a stream.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a, C> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: Vec<C>,
    /// Absent, `null` (a chunk of a stream that will give its usage last) or given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<Usage>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) completion_tokens: usize,
    pub(super) total_tokens: usize,
    pub(super) prompt_tokens_details: PromptTokens,
    pub(super) completion_tokens_details: CompletionTokens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PromptTokens {
    pub(super) cached_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CompletionTokens {
    pub(super) reasoning_tokens: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatChoice {
    pub(super) index: usize,
    pub(super) message: Message,
    pub(super) logprobs: Option<ChatLogprobs>,
    pub(super) finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Message {
    pub(super) role: &'static str,
    /// `null` where there are calls alone.
    pub(super) content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function,
}

#[derive(Debug, Serialize)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) arguments: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatChunkChoice {
    pub(super) index: usize,
    pub(super) delta: Delta,
    pub(super) logprobs: Option<ChatLogprobs>,
    pub(super) finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[ToolCallDelta; 1]>,
}

/// A call that begins, or more of its arguments.
#[derive(Debug, Default, Serialize)]
pub(super) struct ToolCallDelta {
    pub(super) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) function: FunctionDelta,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct FunctionDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatLogprobs {
    pub(super) content: Vec<TokenLogprob>,
}

#[derive(Debug, Serialize)]
pub(super) struct TokenLogprob {
    #[serde(flatten)]
    pub(super) chosen: TopLogprob,
    pub(super) top_logprobs: Vec<TopLogprob>,
}

#[derive(Debug, Serialize)]
pub(super) struct TopLogprob {
    pub(super) token: String,
    pub(super) logprob: f32,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, Serialize)]
pub(super) struct TextChoice {
    pub(super) index: usize,
    pub(super) text: String,
    pub(super) logprobs: Option<TextLogprobs>,
    pub(super) finish_reason: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct TextLogprobs {
    pub(super) tokens: Vec<String>,
    pub(super) token_logprobs: Vec<f32>,
    pub(super) top_logprobs: Vec<TopMap>,
    pub(super) text_offset: Vec<usize>,
}

/// Tokens and their log-probabilities as a JSON object, in the order given.
#[derive(Debug)]
pub(super) struct TopMap(pub(super) Vec<(String, f32)>);

impl Serialize for TopMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (token, logprob) in &self.0 {
            map.serialize_entry(token, logprob)?;
        }
        map.end()
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ModelList {
    pub(crate) object: &'static str,
    pub(crate) data: Vec<Model>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Model {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) owned_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_model_len: Option<usize>,
}
