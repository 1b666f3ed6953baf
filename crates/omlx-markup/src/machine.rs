//! One block of calls, in any format. A machine sees one character after the other, so where a text was cut cannot matter.

use crate::gemma::Gemma;
use crate::headed::Headed;
use crate::json::Json;
use crate::piece::Out;
use crate::python::Python;
use crate::tagged::Tagged;

/// What a machine says to a character.
#[derive(Debug)]
pub(crate) enum Step {
    /// It was taken.
    More,
    /// It was taken, and the block ends with it.
    Done,
    /// What has come since the last call that is complete is no call.
    Fail,
    /// It was taken, and another machine goes on.
    Become(Box<Machine>),
}

/// Any machine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// The first character decides between the formats that share `<tool_call>`.
    Fork(Box<Fork>),
    Json(Json),
    Headed(Headed),
    Tagged(Tagged),
    Python(Python),
    Gemma(Gemma),
}

/// What a block of `<tool_call>` may hold.
#[derive(Debug)]
pub(crate) struct Fork {
    pub(crate) json: Option<Json>,
    pub(crate) tagged: Option<Tagged>,
    /// GLM's, which begins with a name.
    pub(crate) named: Option<Tagged>,
}

impl Fork {
    fn take(&mut self, c: char, out: &mut Out) -> Step {
        let machine = match c {
            c if c.is_whitespace() => return Step::More,
            '{' | '[' => self.json.take().map(Machine::Json),
            '<' => self.tagged.take().map(Machine::Tagged),
            _ => self.named.take().map(Machine::Tagged),
        };
        let Some(mut machine) = machine else { return Step::Fail };
        match machine.take(c, out) {
            Step::More => Step::Become(Box::new(machine)),
            other => other,
        }
    }
}

impl Machine {
    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        match self {
            Machine::Fork(fork) => fork.take(c, out),
            Machine::Json(json) => json.take(c, out),
            Machine::Headed(headed) => headed.take(c, out),
            Machine::Tagged(tagged) => tagged.take(c, out),
            Machine::Python(python) => python.take(c, out),
            Machine::Gemma(gemma) => gemma.take(c, out),
        }
    }

    /// The text has ended, `cut` or by itself. Whether a call is under way; what it still held has been given then.
    pub(crate) fn finish(&mut self, cut: bool, out: &mut Out) -> bool {
        match self {
            Machine::Json(json) => json.finish(),
            Machine::Headed(headed) => headed.finish(),
            Machine::Tagged(tagged) => tagged.finish(cut, out),
            Machine::Fork(_) | Machine::Python(_) | Machine::Gemma(_) => false,
        }
    }
}
