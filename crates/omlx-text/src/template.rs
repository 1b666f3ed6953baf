//! Chat templates as their authors run them: Jinja2 with the settings and extras of transformers.
//!
//! The engine is minijinja; what differs from Python is mended here and in the files below, each mend
//! against measured output of the reference renderer. A template is work from outside: it has a size
//! limit, a budget of steps, and no way to reach files.
//!
//! Known to differ from Python: `'%s' % x` is refused (the filter `format` works), very large and very small
//! floats are printed without an exponent, and joining a `safe` text with another does not escape the other.
//! A template that nests lists tens of thousands deep, as no chat can make one do, overflows the stack.

mod clock;
mod generation;
mod json;
mod python;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::folder::MAX_TEMPLATE_BYTES;

/// Steps any chat may take; a long conversation gets more, by its size. Real templates take about a
/// thousand per message.
const BASE_BUDGET: u64 = 4_000_000;
const BUDGET_PER_BYTE: u64 = 4;

/// Template texts by name (`default`, `tool_use`), before they are compiled.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Sets or replaces one template.
    pub(crate) fn set(&mut self, name: &str, text: String) {
        self.0.insert(name.to_owned(), text);
    }

    /// One template's text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Removes one template.
    pub(crate) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Adds the template or templates of a configuration: a text, or a list of `{name, template}`.
    pub(crate) fn add_config(&mut self, value: &Value, path: &Path) -> Result<()> {
        match value {
            Value::Null => {}
            Value::String(text) => self.set("default", text.clone()),
            Value::Array(items) => {
                for item in items {
                    let text = |key: &str| item.get(key).and_then(Value::as_str);
                    let (Some(name), Some(text)) = (text("name"), text("template")) else {
                        return Err(bad_config(value, path));
                    };
                    self.set(name, text.to_owned());
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

/// Compiled templates of one model.
#[derive(Debug)]
pub(crate) struct Template {
    env: Environment<'static>,
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
        let mut env = environment();
        for name in ["default", "tool_use"] {
            let Some(text) = sources.0.get(name) else { continue };
            if text.len() > MAX_TEMPLATE_BYTES {
                return Err(Error::TemplateTooLarge { bytes: text.len(), limit: MAX_TEMPLATE_BYTES });
            }
            env.add_template_owned(name, generation::strip(text)).map_err(|error| Error::TemplateSyntax {
                line: error.line().unwrap_or(0),
                reason: python::reason(&error),
            })?;
        }
        Ok(Some(Self { env, named }))
    }

    /// Renders once.
    pub(crate) fn render(&self, context: &Context<'_>) -> Result<String> {
        let name =
            if context.tools.is_some() && self.env.get_template("tool_use").is_ok() { "tool_use" } else { "default" };
        let mut values = self.named.clone();
        values.extend(context.kwargs.clone());
        values.insert("messages".into(), context.messages.into());
        values.insert("tools".into(), context.tools.map_or(Value::Null, Value::from));
        values.entry("documents").or_insert(Value::Null);
        values.insert("add_generation_prompt".into(), context.add_generation_prompt.into());
        let values = Value::Object(values);
        let budget = BASE_BUDGET + BUDGET_PER_BYTE * json::size(&values);

        let mut env = self.env.clone();
        env.set_fuel(Some(budget));
        let now = context.now;
        env.add_function("strftime_now", move |format: &str| clock::format(now, format));
        let template = env.get_template(name).expect("compiled at load");
        template.render(Serde(&values)).map_err(|error| {
            if error.kind() == ErrorKind::OutOfFuel {
                return Error::TemplateBudget { budget };
            }
            match python::refusal(&error) {
                Some(message) => Error::Refused { message },
                None => Error::TemplateFailed { line: error.line().unwrap_or(0), reason: python::reason(&error) },
            }
        })
    }
}

/// Jinja2 as transformers sets it up.
fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    env.set_syntax(syntax.expect("the default delimiters are valid"));
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_unknown_method_callback(python::method);
    env.add_filter("tojson", json::to_json);
    env.add_filter("escape", python::escape);
    env.add_filter("e", python::escape);
    env.add_test("iterable", python::is_iterable);
    env.add_test("sequence", python::is_sequence);
    env.add_function("raise_exception", python::raise);
    env
}

#[cfg(test)]
mod tests;
