//! `wordwrap`, by the rules of Python's `textwrap`.

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State};

use crate::template::arguments::Arguments;
use crate::template::text::text;

/// `value | wordwrap(width, break_long_words, wrapstring, break_on_hyphens)`.
pub(crate) fn wordwrap(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = Arguments::of(args)?;
    let width = args.count(0, "width", 79)?;
    let break_long = args.flag(1, "break_long_words", true)?;
    let between = args.value(2, "wrapstring")?.filter(|between| !between.is_none());
    let between = between.map_or(Ok("\n".to_owned()), |between| text(state, &between))?;
    let hyphens = args.flag(3, "break_on_hyphens", true)?;
    args.end(4)?;
    if width == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "wordwrap: the width must be above 0"));
    }
    let text = text(state, value)?;
    // each word is a piece of its own on the way
    state.consume_fuel(text.len() as u64 / 4)?;
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let before = lines.len();
        wrap(paragraph, width, break_long, hyphens, &mut lines);
        if lines.len() == before {
            lines.push(String::new());
        }
    }
    state.consume_fuel((lines.len() as u64).saturating_mul(between.len() as u64) / 64)?;
    Ok(lines.join(&between))
}

fn wrap(paragraph: &str, width: usize, break_long: bool, hyphens: bool, lines: &mut Vec<String>) {
    let mut line: Vec<char> = Vec::new();
    for chunk in chunks(paragraph, hyphens) {
        let space = chunk[0].is_whitespace();
        let mut rest = &chunk[..];
        if line.len() + rest.len() > width {
            if rest.len() > width && !space && break_long {
                let (head, tail) = rest.split_at((width - line.len().min(width)).min(rest.len()));
                line.extend(head);
                rest = tail;
                while rest.len() > width {
                    push(&mut line, lines);
                    let (head, tail) = rest.split_at(width);
                    line.extend(head);
                    rest = tail;
                }
            }
            if !rest.is_empty() {
                push(&mut line, lines);
            }
        }
        // white space at the start of a line is dropped, but for the first
        if !(space && line.is_empty() && !lines.is_empty()) {
            line.extend(rest);
        }
    }
    push(&mut line, lines);
}

fn push(line: &mut Vec<char>, lines: &mut Vec<String>) {
    let text: String = line.drain(..).collect();
    let text = text.trim_end();
    if !text.is_empty() {
        lines.push(text.to_owned());
    }
}

/// Words, the spaces between them, and with `hyphens` the parts of words up to a hyphen between letters.
fn chunks(text: &str, hyphens: bool) -> Vec<Vec<char>> {
    let chars: Vec<char> = text.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let mut chunks: Vec<Vec<char>> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| chars[before]);
        let hyphen = hyphens && before == Some('-') && c.is_alphabetic() && at >= 2 && chars[at - 2].is_alphabetic();
        let same = before.is_some_and(|before| before.is_whitespace() == c.is_whitespace());
        match chunks.last_mut() {
            Some(last) if same && !hyphen => last.push(*c),
            _ => chunks.push(vec![*c]),
        }
    }
    chunks
}
