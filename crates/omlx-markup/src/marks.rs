//! Marks: fixed texts that are looked for while the text comes in, one character after the other.
//!
//! No mark of a set may be the beginning of another one, or the shorter would hide the longer.

/// Looks for any mark of a set.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    set: Vec<&'static str>,
    /// The text's end that may become a mark.
    held: String,
}

impl Scan {
    pub(crate) fn new(set: Vec<&'static str>) -> Self {
        Self { set, held: String::new() }
    }

    /// Takes a character. A mark that is now complete is answered by its place in the set; what turned out not to be one goes to `free`.
    pub(crate) fn take(&mut self, c: char, free: &mut String) -> Option<usize> {
        if self.held.is_empty() && !self.set.iter().any(|mark| mark.starts_with(c)) {
            free.push(c);
            return None;
        }
        self.held.push(c);
        while !self.held.is_empty() {
            if let Some(at) = self.set.iter().position(|mark| *mark == self.held) {
                self.held.clear();
                return Some(at);
            }
            if self.set.iter().any(|mark| mark.starts_with(&self.held)) {
                return None;
            }
            free.push(self.held.remove(0));
        }
        None
    }

    /// What may still become a mark, taken out.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    pub(crate) fn is_growing(&self) -> bool {
        !self.held.is_empty()
    }
}

/// What stands at a place where only a mark may stand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// More is needed.
    Growing,
    /// The mark at this place of the set.
    Mark(usize),
    /// None of them.
    Other,
}

/// Takes a character at such a place; `held` is what came before it there.
pub(crate) fn here(set: &[&'static str], held: &mut String, c: char) -> Here {
    held.push(c);
    if let Some(at) = set.iter().position(|mark| mark == held) {
        held.clear();
        Here::Mark(at)
    } else if set.iter().any(|mark| mark.starts_with(held.as_str())) {
        Here::Growing
    } else {
        Here::Other
    }
}
