//! Rust source with everything that is not code blanked out, so that a word in a comment is not taken for one in the code.

/// Replaces comments, texts and characters by spaces; lines stay where they are.
pub(super) fn code_of(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => text(rest),
            'r' | 'b' | 'c' if !ends_in_word(&out) => prefixed(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let taken = skipped.max(c.len_utf8());
        if skipped == 0 {
            out.push(c);
        } else {
            out.extend(rest[..taken].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[taken..];
    }
    out
}

fn ends_in_word(code: &str) -> bool {
    code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The length of a block comment, which may hold others.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a text that begins here with its quote.
fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a text with a prefix: `r"`, `r#"`, `b"`, `br#"` and so on; 0 if this is a word.
fn prefixed(rest: &str) -> usize {
    let letters = rest.bytes().take_while(|b| b"rbc".contains(b)).count().min(2);
    let prefix = &rest[..letters];
    let after = &rest[letters..];
    let hashes = after.bytes().take_while(|b| *b == b'#').count();
    if !after[hashes..].starts_with('"') || (hashes > 0 && !prefix.ends_with('r')) {
        return if prefix == "b" && after.starts_with('\'') { letters + character(after) } else { 0 };
    }
    if !prefix.ends_with('r') {
        return letters + text(after);
    }
    let open = letters + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len())
}

/// The length of a character; 0 if this is a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(0, |at| at + 4),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}
