//! The rules for one source file: caption, length, functions, and what only some rooms may write.

use std::path::Path;

use super::Finding;
use super::text::code_of;

/// The most lines of a file and of a function.
const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 70;
/// Names that say nothing about what is inside.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "types"];
/// The rooms that may ask which device they were built for.
const DEVICE_ROOMS: &[&str] = &["crates/omlx-ops", "kernels"];
/// The rooms that may be unsafe.
const UNSAFE_ROOMS: &[&str] = &["crates/omlx-ops", "crates/omlx-models"];

/// All rules over one file; `path` is counted from the root.
pub(super) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let place = path.display().to_string();
    let code = code_of(text);
    let mut found = Vec::new();
    let mut say = |line: Option<usize>, rule: String| {
        let place = line.map_or(place.clone(), |line| format!("{place}:{line}"));
        found.push(Finding::new(place, rule));
    };
    if !has_caption(text) {
        say(None, "opens without a `//!` caption".into());
    }
    if path.iter().any(|step| DRAWERS.iter().any(|d| Path::new(step).file_stem().is_some_and(|s| s == *d))) {
        say(None, "is a drawer; give it the name of what is inside".into());
    }
    if !is_test(path) {
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            say(None, format!("{lines} lines, at most {MAX_FILE_LINES}"));
        }
        for function in functions(&code).into_iter().filter(|f| f.lines > MAX_FUNCTION_LINES) {
            say(
                Some(function.line),
                format!("`{}` has {} lines, at most {MAX_FUNCTION_LINES}", function.name, function.lines),
            );
        }
    }
    let within = |rooms: &[&str]| rooms.iter().any(|room| path.starts_with(room));
    if !within(UNSAFE_ROOMS)
        && let Some(line) = line_with_word(&code, "unsafe")
    {
        say(Some(line), "`unsafe` belongs in omlx-ops and omlx-models only".into());
    }
    if !within(DEVICE_ROOMS)
        && let Some(line) = device_line(text, &code)
    {
        say(Some(line), "a question about the device belongs in omlx-ops and kernels only".into());
    }
    found
}

fn has_caption(text: &str) -> bool {
    // a script's first line may be an attribute of the file, but no code
    text.lines().find(|l| !l.trim().is_empty()).is_some_and(|l| l.starts_with("//! ") && l.len() > 8)
}

/// Tests may be as long as their tables.
fn is_test(path: &Path) -> bool {
    path.iter().any(|step| step == "tests" || step == "tests.rs")
}

/// A function: its name, the line it begins on and how many lines its body has, braces included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// All functions with a body. Braces are counted, which is enough for code that compiles.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // `fn` as a word of its own, and followed by a name: not a function's type
        if name.is_empty() || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        if let Some((open, close)) = body(&code[at..]) {
            let lines = code[at + open..at + close].matches('\n').count() + 1;
            found.push(Function { name, line: code[..at].matches('\n').count() + 1, lines });
        }
    }
    found
}

/// Where the body of a function begins and ends; `None` if it has none.
fn body(code: &str) -> Option<(usize, usize)> {
    let mut depth = 0usize;
    let mut open = None;
    // a bracket holds array lengths such as `[u8; 4]`, whose semicolon ends nothing
    let mut brackets = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '[' | '(' if open.is_none() => brackets += 1,
            ']' | ')' if open.is_none() => brackets = brackets.saturating_sub(1),
            ';' if open.is_none() && brackets == 0 => return None,
            '{' => {
                open.get_or_insert(at);
                depth += 1;
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((open?, at));
                }
            }
            _ => {}
        }
    }
    None
}

/// The first line that has a word.
fn line_with_word(code: &str, word: &str) -> Option<usize> {
    let is_word = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word);
    code.lines().position(is_word).map(|n| n + 1)
}

/// The first line of code that asks for a device feature. The feature's name is a text, so the line is looked up in the source.
fn device_line(text: &str, code: &str) -> Option<usize> {
    let asks = |(line, code): (&str, &str)| {
        code.contains("feature") && ["cuda", "metal"].iter().any(|d| line.contains(&format!("feature = \"{d}\"")))
    };
    text.lines().zip(code.lines()).position(asks).map(|n| n + 1)
}
