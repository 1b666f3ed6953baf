//! Chat templates as their authors run them: Jinja2 with the settings and extras of transformers.
//!
//! The engine is minijinja; what differs from Python is mended here and in the files below, each mend
//! against measured output of the reference renderer. A template is work from outside: it has a size
//! limit, a budget of steps, and no way to reach files.
//!
//! Known to differ from Python: `items()` and `keys()` print as lists, a slice of a range as a list, `encode()` as a text, the
//! groups of `groupby` as lists; a constant float joined by `~` prints without an exponent; `{!r}` in `format`, and the filters
//! `urlize` and `random` and the global `lipsum`, are not there.

mod arguments;
mod clock;
mod filters;
mod generation;
mod json;
mod list;
mod methods;
mod numbers;
mod operators;
mod pad;
mod percent;
mod program;
mod python;
mod range;
mod shape;
mod text;
mod wrap;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::folder::MAX_TEMPLATE_BYTES;
use crate::template::program::{OPERATOR, Program};

/// Steps any chat may take; a long conversation gets more, by its size. Real templates take about a
/// thousand per message. A step pays for an instruction or for 64 bytes, and so bounds time and memory.
const BASE_BUDGET: u64 = 500_000;
const BUDGET_PER_MESSAGE: u64 = 4000;
const BUDGET_PER_BYTE: u64 = 1;
const MAX_BUDGET: u64 = 4_000_000;

/// Template texts by name (`default`, `tool_use`), before they are compiled.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<String, Source>);

#[derive(Debug)]
struct Source {
    text: String,
    /// The file, and the key in it.
    origin: String,
}

impl Sources {
    /// Sets or replaces one template.
    pub(crate) fn set(&mut self, name: &str, text: String, origin: String) {
        self.0.insert(name.to_owned(), Source { text, origin });
    }

    /// One template's text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|source| source.text.as_str())
    }

    /// Removes one template.
    pub(crate) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Adds the template or templates of a configuration: a text, or a list of `{name, template}`.
    pub(crate) fn add_config(&mut self, value: &Value, path: &Path) -> Result<()> {
        let origin = || format!("{}: chat_template", path.display());
        match value {
            Value::Null => {}
            Value::String(text) => self.set("default", text.clone(), origin()),
            Value::Array(items) => {
                for item in items {
                    let text = |key: &str| item.get(key).and_then(Value::as_str);
                    let (Some(name), Some(text)) = (text("name"), text("template")) else {
                        return Err(bad_config(value, path));
                    };
                    self.set(name, text.to_owned(), format!("{}, {name}", origin()));
                }
            }
            _ => return Err(bad_config(value, path)),
        }
        Ok(())
    }
}

fn bad_config(value: &Value, path: &Path) -> Error {
    Error::Config {
        path: path.to_path_buf(),
        key: "chat_template",
        expected: "a text, or a list of {name, template}",
        found: value.to_string().chars().take(80).collect(),
    }
}

/// The templates of one model.
#[derive(Debug)]
pub(crate) struct Template {
    env: Environment<'static>,
    syntax: SyntaxConfig,
    // As text: compiling takes a fraction of a millisecond, and what it gives borrows from the text.
    sources: BTreeMap<&'static str, Source>,
    named: Map<String, Value>,
}

/// What a template is rendered with.
pub(crate) struct Context<'a> {
    pub(crate) messages: &'a [Value],
    pub(crate) tools: Option<&'a [Value]>,
    pub(crate) kwargs: &'a Map<String, Value>,
    pub(crate) add_generation_prompt: bool,
    pub(crate) now: SystemTime,
}

impl Template {
    /// Compiles what the sources hold; `named` are the special tokens templates may name. None without a
    /// template for plain chats.
    pub(crate) fn compile(sources: &Sources, named: Map<String, Value>) -> Result<Option<Self>> {
        if !sources.0.contains_key("default") {
            return Ok(None);
        }
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.expect("the default delimiters are valid");
        let mut compiled = BTreeMap::new();
        for name in ["default", "tool_use"] {
            let Some(Source { text, origin }) = sources.0.get(name) else { continue };
            if text.len() > MAX_TEMPLATE_BYTES {
                return Err(Error::TemplateTooLarge {
                    origin: origin.clone(),
                    bytes: text.len(),
                    limit: MAX_TEMPLATE_BYTES,
                });
            }
            let text = generation::strip(text);
            Program::compile(&text, &syntax).map_err(|error| Error::TemplateSyntax {
                origin: origin.clone(),
                line: shape::line(&error),
                reason: python::reason(&error),
            })?;
            compiled.insert(name, Source { text, origin: origin.clone() });
        }
        Ok(Some(Self { env: environment(), syntax, sources: compiled, named }))
    }

    /// The texts of all templates, one after the other.
    pub(crate) fn text(&self) -> String {
        self.sources.values().map(|source| source.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Renders once.
    pub(crate) fn render(&self, context: &Context<'_>) -> Result<String> {
        let tool_use = context.tools.and_then(|_| self.sources.get("tool_use"));
        let source = tool_use.or_else(|| self.sources.get("default")).expect("checked at load");
        let mut values = self.named.clone();
        values.extend(context.kwargs.clone().into_iter().filter(|(name, _)| !name.starts_with(OPERATOR)));
        values.insert("messages".into(), context.messages.into());
        values.insert("tools".into(), context.tools.map_or(Value::Null, Value::from));
        values.entry("documents").or_insert(Value::Null);
        values.insert("add_generation_prompt".into(), context.add_generation_prompt.into());
        let values = Value::Object(values);
        let budget = BASE_BUDGET
            + BUDGET_PER_MESSAGE.saturating_mul(context.messages.len() as u64)
            + BUDGET_PER_BYTE.saturating_mul(json::size(&values));
        let budget = budget.min(MAX_BUDGET);

        let mut env = self.env.clone();
        env.set_fuel(Some(budget));
        let now = context.now;
        env.add_function("strftime_now", move |format: &str| clock::format(now, format));
        let program = Program::compile(&source.text, &self.syntax);
        let rendered = program.and_then(|program| program.run(&env, minijinja::Value::from(Serde(&values))));
        rendered.map_err(|error| {
            if error.kind() == ErrorKind::OutOfFuel {
                return Error::TemplateBudget { budget };
            }
            match python::refusal(&error) {
                Some(message) => Error::Refused { message },
                None => {
                    let (origin, line) = (source.origin.clone(), error.line().unwrap_or(0));
                    Error::TemplateFailed { origin, line, reason: python::reason(&error) }
                }
            }
        })
    }
}

/// Jinja2 as transformers sets it up.
fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_unknown_method_callback(python::method);
    env.add_filter("tojson", json::to_json);
    env.add_filter("escape", python::escape);
    env.add_filter("e", python::escape);
    env.add_test("iterable", python::is_iterable);
    env.add_test("sequence", python::is_sequence);
    env.add_function("raise_exception", python::raise);
    env.add_function("range", range::range);
    operators::install(&mut env);
    filters::install(&mut env);
    env.add_function("namespace", python::namespace);
    env.add_function("dict", python::dict);
    env.set_formatter(|out, state, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(minijinja::Error::from),
        None => out.write_str(&text::text(state, value)?).map_err(minijinja::Error::from),
    });
    env
}

#[cfg(test)]
mod tests;
