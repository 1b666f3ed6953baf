//! The command line read, and a mistake in it told with what was probably meant.
//!
//! Whoever comes from another server types that one's flags; their spelling is often too far from ours for clap to see it.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::cli::Cli;
use crate::shown::shown;
use crate::stored::Stored;

/// What other servers call a thing, and what it is called here.
const ELSEWHERE: [(&str, &str); 24] = [
    ("--ctx", "--context"),
    ("--ctx-size", "--context"),
    ("--n-ctx", "--context"),
    ("--num-ctx", "--context"),
    ("--context-length", "--context"),
    ("--max-model-len", "--context"),
    ("-c", "--context"),
    ("-m", "--model"),
    ("--model-path", "--model"),
    ("--models-dir", "--model-dir"),
    ("--alias", "--name"),
    ("--served-model-name", "--name"),
    ("--parallel", "--max-concurrent"),
    ("--max-num-seqs", "--max-concurrent"),
    ("--batch-size", "--step-tokens"),
    ("--max-num-batched-tokens", "--step-tokens"),
    ("--block-size", "--block"),
    ("--cache-type-k", "--kv-dtype"),
    ("--cache-type-v", "--kv-dtype"),
    ("--kv-cache-dtype", "--kv-dtype"),
    ("--listen", "--host"),
    ("--n-threads", "--threads"),
    ("-t", "--threads"),
    ("--log", "--log-level"),
];

/// What was typed.
pub(crate) enum Typed {
    /// Serve.
    Serve(Box<Cli>),
    /// Look at a folder of the prefix cache. No subcommand of [`Cli`], which would take every lone word for a mistyped one.
    Cache(Stored),
}

/// What was typed, or the complaint about it.
pub(crate) fn read() -> Result<Typed, clap::Error> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|word| word == "cache") {
        return Stored::try_parse_from(&args[1..]).map(Typed::Cache);
    }
    let key = std::env::var_os("OMLX_API_KEY");
    read_from(args, key.is_some_and(|key| key.to_str().is_none())).map(|cli| Typed::Serve(Box::new(cli)))
}

fn read_from(args: impl IntoIterator<Item = OsString>, key_is_no_text: bool) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(args).map_err(|error| match error.kind() {
        ErrorKind::UnknownArgument => hinted(error),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => plain(error),
        // clap would speak of arguments, and there may be none
        ErrorKind::InvalidUtf8 if key_is_no_text => Cli::command().error(
            ErrorKind::InvalidUtf8,
            "the environment variable OMLX_API_KEY is not valid UTF-8; set it to a key of ASCII letters, digits and signs, \
             or unset it",
        ),
        _ => error,
    })
}

/// The same complaint, in which what was typed is safe to print.
fn plain(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
        if let Some(ContextValue::String(typed)) = error.get(kind) {
            let typed = shown(typed).into_owned();
            error.insert(kind, ContextValue::String(typed));
        }
    }
    error
}

/// The same complaint with a tip, where one comes to mind.
fn hinted(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return error };
    let typed = typed.clone();
    let mut error = plain(error);
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == typed) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String((*ours).to_owned()));
    } else if !typed.starts_with('-') {
        let tip = format!("a model is given by a flag: omlx-server {}", shown(&flagged(&typed)));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// A word that stands alone, behind the flag that it was probably meant for.
fn flagged(word: &str) -> String {
    let path = Path::new(word);
    let shelf = path.is_dir() && !path.join("config.json").is_file();
    let quoted = if word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() };
    format!("{} {quoted}", if shelf { "--model-dir" } else { "--model" })
}

#[cfg(test)]
mod tests {
    //! What somebody may type, and what is said to it. Seen to fail: without the table, clap says nothing to `--ctx`.

    use super::*;

    fn told(args: &[&str]) -> String {
        let args = ["omlx-server"].iter().chain(args).map(OsString::from);
        read_from(args, false).unwrap_err().to_string()
    }

    #[test]
    fn flags_of_other_servers_lead_to_ours() {
        for (theirs, ours) in ELSEWHERE {
            let said = told(&["--model", "m", theirs, "5"]);
            assert!(said.contains(&format!("'{ours}'")), "{theirs}: {said}");
            let known = Cli::command();
            assert!(known.get_arguments().any(|arg| arg.get_long() == ours.strip_prefix("--")), "{ours}");
        }
        assert!(told(&["--ctx=5"]).contains("'--context'"));
    }

    #[test]
    fn a_model_without_a_flag() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = dir.path().to_str().unwrap();
        for (typed, meant) in [
            ("foo.gguf", "omlx-server --model foo.gguf"),
            ("o/n", "omlx-server --model o/n"),
            ("my model.gguf", "--model 'my model.gguf'"),
            (shelf, &format!("--model-dir {shelf}")),
        ] {
            assert!(told(&[typed]).contains(meant), "{}", told(&[typed]));
        }
        assert!(!told(&["--frobnicate"]).contains("omlx-server --model --"));
    }
}
