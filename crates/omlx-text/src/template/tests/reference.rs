//! Expressions with what the reference renderer (transformers 5.24, Jinja2) printed for each, in `reference.json`.
//! Fault seen caught: a dict literal built as a list of pairs.

use super::rendered;

/// Known to print otherwise; the caption of the renderer says so too.
const KNOWN: [&str; 6] = [
    "{{ 'x' ~ 1e20 }}",
    "{{ range(5)[1:3] }}",
    "{{ [{'k':'a','v':1},{'k':'b','v':2},{'k':'a','v':3}]|groupby('k') }}{% for k, g in [{'k':'a'},{'k':'b'}]|groupby('k') %}{{ k }}{{ g }}{% endfor %}",
    "{{ 'abc'.encode() }}",
    "{{ {'a':1}.items() }}",
    "{{ {'a':1}.keys() }}",
];

#[test]
fn expressions_print_what_the_reference_prints() {
    let table: Vec<(String, String)> = serde_json::from_str(include_str!("reference.json")).unwrap();
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(source, expected)| match rendered(source) {
            Ok(text) if (text == *expected) != KNOWN.contains(&source.as_str()) => None,
            other => Some(format!("{source}\n  expected {expected:?}\n  found    {other:?}")),
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
