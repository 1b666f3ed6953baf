//! What was typed, repeated in a complaint: nothing in it reaches the terminal as a command.

use std::fs;

use omlx_fixtures::{RandomLlama, random_llama, tiny};

use crate::server::{Server, command, failure};

/// Characters that end a line, colour it, or turn the direction in which the rest of it is read.
const ACTING: [char; 6] = ['\u{1b}', '\n', '\u{9b}', '\u{202e}', '\u{2066}', '\u{2028}'];

/// Seen to fail: the value as it came.
#[test]
fn what_was_typed_is_repeated_written_out() {
    let shelf = tempfile::tempdir().unwrap();
    random_llama(&shelf.path().join("m"), &RandomLlama::default());
    let shelf = shelf.path().to_str().unwrap();
    for acting in ACTING {
        let odd = format!("a{acting}b");
        let commands: [&[&str]; 9] = [
            &["--model", &odd],
            &["--model", &format!("./{odd}/m.gguf")],
            &["--model", &format!("owner/{odd}")],
            &["--model-dir", &odd],
            &["--model-dir", shelf, "--host", &odd],
            &["--model-dir", shelf, "--set", &format!("{odd}:top_k=5")],
            &["--model-dir", shelf, "--set", &format!("m:{odd}=5")],
            &["--model-dir", shelf, "--port", &odd],
            &["--model-dir", shelf, &odd],
        ];
        for args in commands {
            let said = failure(command().args(["--offline", "--port", "0"]).args(args));
            let written = acting.escape_default().to_string();
            // --port twice is said before its value is
            assert!(said.contains(&written) || args.contains(&"--port"), "{args:?}: {said}");
            let raw = said.matches(acting).count();
            match acting {
                '\n' => assert!(!said.contains(&odd), "{args:?}: {said}"),
                _ => assert_eq!(raw, 0, "{args:?}: {said}"),
            }
        }
    }
}

/// Nor is it offered, listed or invited to, and the log names it in one line.
#[cfg(unix)]
#[test]
fn a_model_whose_name_acts_is_not_offered() {
    let shelf = tempfile::tempdir().unwrap();
    random_llama(&shelf.path().join("good"), &RandomLlama::default());
    for acting in ACTING {
        fs::rename(tiny_copy(shelf.path()), shelf.path().join(format!("x{acting}y"))).unwrap();
    }
    let server = Server::of(shelf.path(), &[]);
    let listed = server.get("/v1/models").ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let output = server.output();
    assert_eq!(output.matches("rename it").count(), ACTING.len(), "{output}");
    for acting in ACTING.into_iter().filter(|acting| *acting != '\n') {
        assert!(!output.contains(acting), "{acting:?}: {output:?}");
    }
}

/// A model in a folder of its own, to be renamed.
fn tiny_copy(shelf: &std::path::Path) -> std::path::PathBuf {
    let fresh = shelf.join("fresh");
    fs::create_dir(&fresh).unwrap();
    for file in fs::read_dir(tiny("llama")).unwrap().flatten() {
        fs::copy(file.path(), fresh.join(file.file_name())).unwrap();
    }
    fresh
}
