//! Templates that would take all memory, all time or the whole stack: each ends in an error, soon.
//!
//! Fault seen caught: lists concatenated by the engine itself, which takes memory until the system ends the process.

use std::time::{Duration, Instant};

use super::{Error, rendered};

const NS: &str = "{% set ns = namespace(l=[1], s='x', d={}) %}";

/// What a debug build on a busy machine may take; a release build takes a tenth.
const SOON: Duration = Duration::from_secs(20);

fn refused(source: &str) -> Error {
    let start = Instant::now();
    let shown: String = source.chars().take(200).collect();
    let error = rendered(source).expect_err(&shown);
    assert!(start.elapsed() < SOON, "{shown}: {:?}", start.elapsed());
    error
}

#[test]
fn nothing_grows_without_limit() {
    for body in [
        "{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.l = ns.l * 2 %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ ns.l ~ '' }}",
        "{% for i in range(60) %}{% set ns.d = {'a': ns.d, 'b': ns.d} %}{% endfor %}{{ ns.d|string }}",
        "{% for i in range(60) %}{% set ns.d = dict(a=ns.d, b=ns.d) %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l]|sum(start=[]) %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = ns.s|replace('x', 'xx') %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = [ns.s, ns.s]|join(ns.s) %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = ns.s.join([ns.s, ns.s, ns.s]) %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
        "{% for i in range(60) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}",
        "{{ 'x' * 10**9 }}",
        "{{ ns.l * 10**9 }}",
        "{{ (ns.s,) * 10**9 }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ 'x'|center(10**9) }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ 'x'.zfill(10**9) }}",
        "{{ '\t'.expandtabs(10**9) }}",
        "{{ 'a\nb'|indent(10**9) }}",
        "{{ range(10**9)|list }}",
        "{{ ns.l|batch(10**9, 'x')|list }}",
        "{{ 'a b'|wordwrap(1, wrapstring='x' * 10**9) }}",
        "{{ ([ns.s * 1000000] * 1000) ~ '' }}",
        "{{ [ns.s * 1000000] * 1000 }}",
        "{% set ns.me = ns %}{{ ns }}",
        "{% set ns.me = ns %}{{ ns|tojson }}",
        "{% for i in range(300) %}{% set ns.l = [ns.l] %}{% endfor %}",
        "{% for i in range(300) %}{% set ns.d = {'a': ns.d} %}{% endfor %}",
        "{% for i in range(300) %}{% set ns.l = ns.l|batch(1)|list %}{% endfor %}",
        "{% for i in range(300) %}{% set ns.d = namespace(a=ns.d) %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    ] {
        let error = refused(&format!("{NS}{body}"));
        assert!(matches!(error, Error::TemplateBudget { .. } | Error::TemplateFailed { .. }), "{body}: {error:?}");
    }
}

#[test]
fn what_the_compiler_cannot_bear_is_refused_before() {
    let big = vec!["([0] * 100000000)"; 40].join(" + ");
    for source in [
        format!("{{{{ ({big})|length }}}}"),
        "{{ [0] * 10**9 }}".to_owned(),
        "{{ 1 in 100000000 * [0, 1] }}".to_owned(),
        "{% if [] + [0] * 100000000 == [1] %}{% endif %}".to_owned(),
        format!("{{{{ v + {} }}}}", vec!["1"; 100_000].join("+")),
        format!("{{{{ {}1 }}}}", "not ".repeat(40_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(40_000), ")".repeat(40_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(40_000)),
        format!("{{{{ x{} }}}}", ".a".repeat(100_000)),
        format!("{{{{ x{} }}}}", "[0]".repeat(100_000)),
        format!("{{{{ x{} }}}}", "()".repeat(100_000)),
        format!("{{{{ x{} }}}}", "|list".repeat(100_000)),
        format!("{{{{ x{} }}}}", " if x else x".repeat(40_000)),
        format!("{{{{ {}1 }}}}", "1 and ".repeat(40_000)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(40_000)),
        "{% if a %}".repeat(40_000),
    ] {
        let error = refused(&source);
        assert!(matches!(error, Error::TemplateSyntax { line: 1, .. }), "{error:?}");
    }
}

#[test]
fn the_limits_leave_room() {
    for (source, expected) in [
        (
            "{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l|length }}",
            "2000",
        ),
        (
            "{% set ns = namespace(l=[1]) %}{% for i in range(15) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l|length }}",
            "32768",
        ),
        (
            "{% set ns = namespace(s='') %}{% for i in range(2000) %}{% set ns.s = ns.s ~ 'abc' %}{% endfor %}{{ ns.s|length }}",
            "6000",
        ),
        (
            "{% set ns = namespace(l=[]) %}{% for i in range(100) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|string|length }}",
            "202",
        ),
        ("{{ ('=' * 1000)|length }}{{ 'x'|center(1000)|length }}{{ ([0] * 1000)|length }}", "100010001000"),
        ("{{ 1000 * 1000 * 1000 }}{{ [0, 1] * 3 }}", "1000000000[0, 1, 0, 1, 0, 1]"),
    ] {
        assert_eq!(rendered(source).unwrap(), expected, "{source}");
    }
    let branches = "{% elif a %}".repeat(100);
    assert_eq!(rendered(&format!("{{% if a %}}{branches}{{% else %}}x{{% endif %}}")).unwrap(), "x");
    assert_eq!(rendered(&format!("{{{{ {} }}}}", vec!["1"; 100].join(" + "))).unwrap(), "100");
}
