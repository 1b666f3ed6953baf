//! A tokenizer file is tried before anybody depends on it: the library panics on some that it has read without complaint.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokenizers::Tokenizer as Library;

/// Letters, digits, spaces, composed and decomposed marks, scripts without spaces, what normalizers rewrite.
const TEXT: &str = "Hello, wörld! It's 12,345\n\n\t  «안녕 가격» ﷺ e\u{301} 漢字 𝔘 ☺\u{fe0f} <s>";

type Fault = Box<dyn Error + Send + Sync>;

thread_local! {
    static TRYING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is trying a tokenizer file, so that a panic of it is caught and becomes an [`Error`](crate::Error). A program
/// asks in its panic hook, which need not report such a panic a second time.
#[must_use]
pub fn is_trying() -> bool {
    // a panic while a thread ends is none of ours
    TRYING.try_with(Cell::get).unwrap_or(false)
}

/// What `work` comes to, where a panic of the library is an error like any other.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    TRYING.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    TRYING.set(false);
    done.unwrap_or_else(|panic| Err(Panic(words(&*panic)).into()))
}

/// Encodes texts as plain prompts and as parts of a chat, with an added token in between if there are any.
pub(super) fn encode(library: &Library) -> Result<(), Fault> {
    let added = library.get_added_vocabulary().get_added_tokens_decoder().values().map(|token| token.content.as_str());
    let added = added.min().unwrap_or_default();
    for text in ["", added, TEXT, &[TEXT, added, added, TEXT].concat()] {
        for special in [true, false] {
            guarded(|| library.encode_fast(text, special).map(drop))?;
        }
    }
    Ok(())
}

/// The library gave up on the file.
#[derive(Debug, thiserror::Error)]
#[error("the tokenizer library fails on it ({0})")]
struct Panic(String);

fn words(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".to_owned())
}

#[cfg(test)]
mod tests;
