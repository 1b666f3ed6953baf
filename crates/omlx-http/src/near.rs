//! The model that was probably meant by a name that no model has.
//!
//! Only a hint for a person: a request is never answered by a model that it did not name.

/// Longer names are not compared: the time goes with the product of the lengths.
const MOST_CHARS: usize = 200;
/// Most names that one is compared with.
const MOST_NAMES: usize = 1000;

/// The name among `known` that `name` is most like, if it is like one at all: the same but for case, folder or extension,
/// or what the other begins with, or a few letters away.
pub(crate) fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let wanted = essence(name);
    if wanted.is_empty() || wanted.len() > MOST_CHARS {
        return None;
    }
    let full = |name: &str| name.to_lowercase().chars().take(MOST_CHARS).collect::<Vec<_>>();
    let given = full(name);
    // of names that are as near, the one whose folder is nearer, and of those the first
    let far = |known: &str| Some((distance(&wanted, &essence(known))?, edits(&given, &full(known))));
    let near = known.iter().take(MOST_NAMES).filter_map(|known| Some((far(known)?, known.as_str())));
    near.min_by_key(|(far, _)| *far).map(|(_, known)| known)
}

/// The letters that tell models apart: the last part of the name, without its extension and in lower case.
fn essence(name: &str) -> Vec<char> {
    let last = name.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
    // others write a tag behind a colon
    let last = last.split(':').next().unwrap_or_default();
    let stem = [".gguf", ".safetensors"].iter().find_map(|extension| last.strip_suffix(extension)).unwrap_or(last);
    stem.chars().take(MOST_CHARS + 1).map(|c| if matches!(c, '_' | ' ') { '-' } else { c }).collect()
}

/// How far two names are apart; `None` where they have nothing to do with each other.
fn distance(wanted: &[char], known: &[char]) -> Option<usize> {
    if known.len() > MOST_CHARS {
        return None;
    }
    // "smollm2-135m-instruct" for "smollm2-135m-instruct.q4-1"; three letters begin too much
    if wanted.len() > 3 && (known.starts_with(wanted) || wanted.starts_with(known)) {
        return Some(usize::from(known.len() != wanted.len()));
    }
    let most = (wanted.len().min(known.len()) / 4).max(1);
    let found = edits(wanted, known);
    (found <= most && found < wanted.len()).then_some(found)
}

/// Letters to add, drop or change (Levenshtein).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
