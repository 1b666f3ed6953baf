//! Values as Python and Gemma write them, turned into JSON; and calls in these words.

use serde_json::{Map, Number, Value};

/// How deep values may be nested.
const MOST_DEPTH: usize = 64;

/// Where the reading of a text has come to.
pub(crate) struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    /// What begins and ends a string besides quotes.
    quote: Option<&'static str>,
    /// Between a key and its value.
    colon: char,
}

impl<'a> Reader<'a> {
    /// Python's arguments: `a=1, b='x'`.
    pub(crate) fn python(text: &'a str) -> Self {
        Self { rest: text, depth: 0, quote: None, colon: '=' }
    }

    /// Gemma's: `a:1,b:<escape>x<escape>`.
    pub(crate) fn gemma(text: &'a str, quote: &'static str) -> Self {
        Self { rest: text, depth: 0, quote: Some(quote), colon: ':' }
    }

    /// All of the text as named arguments.
    pub(crate) fn arguments(mut self) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        loop {
            self.blank();
            if self.rest.is_empty() {
                return Some(map);
            }
            let key = self.word()?;
            self.eat(self.colon)?;
            map.insert(key, self.value()?);
            self.blank();
            if !self.rest.is_empty() {
                self.eat(',')?;
            }
        }
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, c: char) -> Option<()> {
        self.blank();
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn word(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '.'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        self.blank();
        let value = match self.rest.chars().next()? {
            '[' => self.list('[', ']'),
            '(' if self.quote.is_none() => self.list('(', ')'),
            '{' => self.map(),
            _ => match self.string() {
                Some(text) => text.map(Value::from),
                None => self.plain(),
            },
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self, open: char, close: char) -> Option<Value> {
        self.eat(open)?;
        let mut items = Vec::new();
        loop {
            if self.eat(close).is_some() {
                return Some(items.into());
            }
            items.push(self.value()?);
            self.blank();
            if !self.rest.starts_with(close) {
                self.eat(',')?;
            }
        }
    }

    fn map(&mut self) -> Option<Value> {
        self.eat('{')?;
        let mut map = Map::new();
        loop {
            if self.eat('}').is_some() {
                return Some(map.into());
            }
            self.blank();
            let key = match self.string() {
                Some(text) => text?,
                None => self.word()?,
            };
            self.eat(':')?;
            map.insert(key, self.value()?);
            self.blank();
            if !self.rest.starts_with('}') {
                self.eat(',')?;
            }
        }
    }

    /// A string if one begins here; an inner `None` where it does not end.
    fn string(&mut self) -> Option<Option<String>> {
        if let Some(quote) = self.quote
            && let Some(rest) = self.rest.strip_prefix(quote)
        {
            let Some((text, rest)) = rest.split_once(quote) else { return Some(None) };
            self.rest = rest;
            return Some(Some(text.to_owned()));
        }
        let raw = self.rest.strip_prefix('r').filter(|rest| rest.starts_with(['"', '\'']));
        let body = raw.unwrap_or(self.rest);
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
        let read = quoted(&body[quote.len()..], quote, raw.is_some());
        Some(read.map(|(text, rest)| {
            self.rest = rest;
            text
        }))
    }

    /// A number or one of the words that are values.
    fn plain(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_+-.".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            "None" | "null" => Some(Value::Null),
            _ => {
                let digits = word.replace('_', "");
                let digits = digits.strip_prefix('+').unwrap_or(&digits);
                if let Ok(number) = serde_json::from_str::<Number>(digits) {
                    return Some(number.into());
                }
                let starts = digits.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c));
                let number = digits.parse::<f64>().ok().filter(|_| starts)?;
                Number::from_f64(number).map(Value::from)
            }
        }
    }
}

/// The text of a string up to its closing quote, and what follows.
fn quoted<'a>(body: &'a str, quote: &str, raw: bool) -> Option<(String, &'a str)> {
    let mut text = String::new();
    let mut rest = body;
    loop {
        if let Some(after) = rest.strip_prefix(quote) {
            return Some((text, after));
        }
        let mut chars = rest.chars();
        let c = chars.next()?;
        rest = chars.as_str();
        if c != '\\' {
            text.push(c);
            continue;
        }
        let escaped = chars.next()?;
        rest = chars.as_str();
        if raw {
            text.extend([c, escaped]);
            continue;
        }
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        match escaped {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' => text.push('\0'),
            '\n' => {}
            '\\' | '\'' | '"' => text.push(escaped),
            'x' | 'u' | 'U' => {
                let code = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = &rest[digits..];
            }
            other => text.extend([c, other]),
        }
    }
}
