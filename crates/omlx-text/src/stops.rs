//! Finds stop strings in text that arrives in parts, and holds back what might become one.
//!
//! The rule: the text is cut before the match that *starts* earliest, whatever the parts. So when a short
//! stop string is complete inside a longer one that is still growing, the longer one is awaited. One
//! automaton per stop string keeps the work per byte constant.

/// One stop string and how much of it the text ends with.
#[derive(Debug)]
struct Matcher {
    stop: Vec<u8>,
    /// `fall[k]`: the longest proper prefix of the stop that its first `k + 1` bytes end with.
    fall: Vec<usize>,
    matched: usize,
}

impl Matcher {
    fn new(stop: &str) -> Self {
        let stop = stop.as_bytes().to_vec();
        let mut fall = vec![0; stop.len()];
        let mut matched = 0;
        for at in 1..stop.len() {
            while matched > 0 && stop[at] != stop[matched] {
                matched = fall[matched - 1];
            }
            matched += usize::from(stop[at] == stop[matched]);
            fall[at] = matched;
        }
        Self { stop, fall, matched: 0 }
    }

    /// Takes one more byte; true when this completes the stop string.
    fn advance(&mut self, byte: u8) -> bool {
        if self.matched == self.stop.len() {
            return false; // no later match of the same text can start earlier
        }
        while self.matched > 0 && byte != self.stop[self.matched] {
            self.matched = self.fall[self.matched - 1];
        }
        self.matched += usize::from(byte == self.stop[self.matched]);
        self.matched == self.stop.len()
    }
}

/// All stop strings of a request and the text held back for them.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    matchers: Vec<Matcher>,
    held: String,
    /// Where `held` starts in the whole text.
    start: usize,
    /// Bytes of the whole text that the automata have seen.
    seen: usize,
    /// Start of the earliest complete match, and which stop string it is.
    best: Option<(usize, usize)>,
    /// Which one was found.
    found: Option<usize>,
    stopped: bool,
}

impl Stops {
    /// Empty stop strings are left out: they would match everywhere.
    pub(crate) fn new(stops: &[String]) -> Self {
        let matchers = stops.iter().filter(|s| !s.is_empty()).map(|s| Matcher::new(s)).collect();
        Self { matchers, ..Self::default() }
    }

    /// Takes more text, appends what is certainly not part of a stop string to `out`; true once stopped.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.stopped {
            return true;
        }
        if self.matchers.is_empty() {
            out.push_str(text);
            return false;
        }
        self.held.push_str(text);
        for byte in text.bytes() {
            self.seen += 1;
            for (which, matcher) in self.matchers.iter_mut().enumerate() {
                if matcher.advance(byte) {
                    let start = self.seen - matcher.stop.len();
                    self.best = Some(self.best.filter(|best| best.0 <= start).unwrap_or((start, which)));
                }
            }
            if self.is_decided() {
                return self.cut(out);
            }
        }
        let sure = self.growing().min(self.best.map_or(self.seen, |(start, _)| start));
        self.release(sure, out);
        false
    }

    /// Ends the text: what was held back comes out, unless a match decides otherwise; true if stopped.
    pub(crate) fn finish(&mut self, out: &mut String) -> bool {
        if self.stopped || self.best.is_some() {
            return self.cut(out);
        }
        self.release(self.seen, out);
        false
    }

    /// The stop string that was found.
    pub(crate) fn found(&self) -> Option<&str> {
        str::from_utf8(&self.matchers.get(self.found?)?.stop).ok()
    }

    /// The earliest place where a stop string may have begun that is not complete.
    fn growing(&self) -> usize {
        let longest = self.matchers.iter().filter(|m| m.matched < m.stop.len()).map(|m| m.matched).max();
        self.seen - longest.unwrap_or(0)
    }

    /// Whether nothing that is still growing could begin before the earliest match.
    fn is_decided(&self) -> bool {
        self.best.is_some_and(|(start, _)| self.growing() >= start)
    }

    fn cut(&mut self, out: &mut String) -> bool {
        if let Some((start, which)) = self.best.take() {
            self.found = Some(which);
            self.release(start, out);
        }
        self.held.clear();
        self.stopped = true;
        true
    }

    /// Lets go of the held text before position `end` of the whole text.
    fn release(&mut self, end: usize, out: &mut String) {
        let sure = self.held.drain(..end - self.start);
        out.push_str(sure.as_str());
        self.start = end;
    }
}

#[cfg(test)]
mod tests;
