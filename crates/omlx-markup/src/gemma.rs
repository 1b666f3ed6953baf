//! Gemma's calls: `call:NAME{key:<escape>text<escape>,other:1}` between marks of their own. A call is given once it is whole.

use serde_json::Value;

use crate::literal::Reader;
use crate::machine::Step;
use crate::marks::Scan;
use crate::piece::Out;
use crate::tool::is_name;

/// The marks of a generation of models.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) open: &'static str,
    pub(crate) end: &'static str,
    pub(crate) quote: &'static str,
}

pub(crate) const FUNCTION_GEMMA: Marks =
    Marks { open: "<start_function_call>", end: "<end_function_call>", quote: "<escape>" };

pub(crate) const GEMMA_4: Marks = Marks { open: "<|tool_call>", end: "<tool_call|>", quote: "<|\"|>" };

/// Reads one block.
#[derive(Debug)]
pub(crate) struct Gemma {
    marks: &'static Marks,
    scan: Scan,
    text: String,
}

impl Gemma {
    pub(crate) fn new(marks: &'static Marks) -> Self {
        Self { marks, scan: Scan::new(vec![marks.end]), text: String::new() }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        if self.scan.take(c, &mut self.text).is_none() {
            return Step::More;
        }
        // A string may hold the mark that ends the block.
        if self.text.matches(self.marks.quote).count() % 2 == 1 {
            self.text.push_str(self.marks.end);
            return Step::More;
        }
        let Some((name, map)) = self.read() else { return Step::Fail };
        out.call(&name, None);
        out.arguments(&map.to_string());
        out.settle();
        Step::Done
    }

    fn read(&self) -> Option<(String, Value)> {
        let inside = self.text.trim().strip_prefix("call:")?;
        let (name, rest) = inside.split_once('{')?;
        let body = rest.trim_end().strip_suffix('}')?;
        let map = Reader::gemma(body, self.marks.quote).arguments()?;
        is_name(name.trim()).then(|| (name.trim().to_owned(), Value::Object(map)))
    }
}
