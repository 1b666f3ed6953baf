//! The house itself, and each rule against a fault made for it.

use std::path::Path;

use super::layers::{self, Dependency, LAYERS, Package};
use super::source::{check, functions};
use super::text::code_of;
use super::tree::check_top;

#[test]
fn the_house_is_tidy() {
    let found = super::check(&crate::shell::root()).unwrap();
    assert!(found.is_empty(), "{}", found.iter().map(|f| format!("\n{f}")).collect::<String>());
}

/// What is said about one arrow.
fn arrow(from: &str, to: &str, dev: bool, versioned: bool) -> Option<String> {
    let ours = to.starts_with("omlx-");
    let dependency = Dependency { name: to.into(), dev, ours, versioned };
    layers::check(&[Package { name: from.into(), dependencies: vec![dependency] }]).pop().map(|f| f.rule)
}

#[test]
fn arrows() {
    let good = [
        ("omlx-kv", "omlx-ops"),
        ("omlx-text", "omlx-gguf"),
        ("omlx-server", "omlx-engine"),
        ("omlx-kv", "candle-core"),
        ("omlx-server", "anyhow"),
    ];
    for (from, to) in good {
        assert_eq!(arrow(from, to, false, true), None, "{from} -> {to}");
    }
    let bad = [
        ("omlx-kv", "omlx-models"),
        ("omlx-http", "omlx-engine"),
        ("omlx-text", "omlx-hub"),
        ("omlx-gguf", "omlx-text"),
        ("omlx-blocks", "candle-core"),
        ("omlx-sched", "tokio"),
        ("omlx-engine", "serde_json"),
        ("omlx-engine", "axum"),
        ("omlx-models", "ureq"),
        ("omlx-engine", "anyhow"),
        ("omlx-kv", "omlx-fixtures"),
        ("omlx-new", "serde"),
    ];
    for (from, to) in bad {
        assert!(arrow(from, to, false, true).is_some(), "{from} -> {to}");
    }
    assert_eq!(arrow("omlx-http", "omlx-fixtures", true, false), None);
    assert_eq!(arrow("omlx-blocks", "tokio", true, true), None);
    assert!(arrow("omlx-kv", "omlx-models", true, false).unwrap().contains("higher layer"));
    assert!(arrow("omlx-http", "omlx-fixtures", true, true).unwrap().contains("carries a version"));
    assert!(arrow("omlx-kv", "omlx-ops", false, false).unwrap().contains("carries no version"));
}

#[test]
fn the_table_goes_down() {
    for room in LAYERS {
        assert_eq!(LAYERS.iter().filter(|r| r.name == room.name).count(), 1);
    }
}

/// What is said about a file.
fn said(path: &str, text: &str) -> Vec<String> {
    check(Path::new(path), text).into_iter().map(|f| f.to_string()).collect()
}

#[test]
fn captions_and_names() {
    let good = "//! What this is.\n";
    assert!(said("crates/omlx-kv/src/x.rs", good).is_empty());
    assert!(said("crates/omlx-kv/src/x.rs", "use std::fs;\n")[0].contains("caption"));
    assert!(said("crates/omlx-kv/src/x.rs", "//!\n")[0].contains("caption"));
    for drawer in ["crates/omlx-kv/src/utils.rs", "crates/omlx-kv/tests/common/mod.rs", "apps/a/src/types.rs"] {
        assert!(said(drawer, good)[0].contains("drawer"), "{drawer}");
    }
}

#[test]
fn sizes() {
    let file = |lines: usize| format!("//! What this is.\n{}", "const A: u8 = 1;\n".repeat(lines - 1));
    let function = |lines: usize| format!("//! What this is.\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
    assert!(said("crates/a/src/x.rs", &file(600)).is_empty());
    assert!(said("crates/a/src/x.rs", &file(601))[0].contains("601 lines"));
    assert!(said("crates/a/src/x/tests.rs", &file(601)).is_empty());
    assert!(said("crates/a/src/x.rs", &function(70)).is_empty());
    assert_eq!(said("crates/a/src/x.rs", &function(71)), ["crates/a/src/x.rs:2: `f` has 71 lines, at most 70"]);
    assert!(said("crates/a/tests/x.rs", &function(71)).is_empty());
}

#[test]
fn what_only_some_rooms_may_write() {
    let text = |line: &str| format!("//! What this is.\n{line}\n");
    let block = text("fn f() { unsafe { g() } }");
    assert_eq!(said("crates/omlx-kv/src/x.rs", &block).len(), 1);
    assert!(said("crates/omlx-ops/src/x.rs", &block).is_empty());
    assert!(
        said("crates/omlx-kv/src/x.rs", &text("// unsafe\nconst S: &str = \"unsafe\"; const U: u8 = not_unsafe;"))
            .is_empty()
    );
    let asks = text(&format!("#[cfg(feature = \"{}\")]", "cuda"));
    assert!(said("crates/omlx-models/src/x.rs", &asks)[0].contains(":2: a question about the device"));
    assert!(said("crates/omlx-ops/src/x.rs", &asks).is_empty());
    assert!(said("kernels/build.rs", &asks).is_empty());
}

#[test]
fn functions_are_found() {
    let code = code_of(
        "fn a() {}\ntrait T { fn none(&self); fn some(x: [u8; 4]) -> Vec<u8> {\n x\n } }\ntype F = fn(u8) -> u8;\nfn w<T>() where T: Fn() { let f = || { 1 };\n}\n",
    );
    let found: Vec<_> = functions(&code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    assert_eq!(found, [("a".into(), 1, 1), ("some".into(), 2, 3), ("w".into(), 6, 2)]);
}

#[test]
fn only_code_is_left() {
    // source, and what remains of it without its spaces
    let cases = [
        ("a // b { \nc", "ac"),
        ("a /* b /* { */ } */ c", "ac"),
        ("x(\"}\\\"{\") y", "x()y"),
        ("r#\"a\"{\"# b", "b"),
        ("b\"{\" br\"{\" 'x' b'{' '\\'' '\\u{7b}' '{'", ""),
        ("fn f<'a>(x: &'a str) { 'é' }", "fnf<'a>(x:&'astr){}"),
        ("for r in b { c }", "forrinb{c}"),
        ("var\"{\"", "var"),
    ];
    for (source, expected) in cases {
        let code = code_of(source);
        assert_eq!(code.split_whitespace().collect::<String>(), expected, "{source}");
        assert_eq!(code.chars().count(), source.chars().count(), "{source}");
    }
}

/// A folder too many, a folder too few; dot-files and what a build leaves are nobody's business.
#[test]
fn the_top_level() {
    let root = tempfile::tempdir().unwrap();
    let rules = || -> Vec<String> { check_top(root.path()).unwrap().iter().map(ToString::to_string).collect() };
    let missing = rules();
    assert!(missing.iter().any(|f| f.contains("crates") && f.contains("missing")), "{missing:?}");
    for name in ["apps", "crates", "docs", "fixtures", "kernels", "xtask", ".git", "target"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    for name in ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "rust-toolchain.toml"] {
        std::fs::write(root.path().join(name), "").unwrap();
    }
    assert_eq!(rules(), [""; 0]);
    std::fs::create_dir(root.path().join("utils")).unwrap();
    let strange = rules();
    assert!(strange.len() == 1 && strange[0].contains("utils"), "{strange:?}");
}
