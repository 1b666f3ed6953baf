//! A package index: which file it has for a requirement, where, and with which sha256.
//!
//! The page is read in either form that the simple API has, JSON or HTML.
//! <https://packaging.python.org/en/latest/specifications/simple-repository-api/>

use std::io::Read;

use serde_json::Value;
use ureq::{Agent, ResponseExt};

use super::address::Address;

/// The longest page that is read; a file takes some 500 bytes of it.
const MAX_PAGE_BYTES: u64 = 16 << 20;
/// What is asked for: JSON, and HTML of those who do not have it.
const FORMS: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// A wheel on an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wheel {
    pub(super) address: Address,
    /// 64 hexadecimal digits, lower case.
    pub(super) sha256: String,
}

/// Finds the wheel of `name==version`; or says why not, without a full stop.
pub(super) fn find(agent: &Agent, index: &Address, requirement: &str) -> Result<Wheel, String> {
    let (name, version) = requirement.split_once("==").ok_or("the requirement has no version")?;
    let page = index.shown();
    let page = index.join(&format!("{}/{}/", page.trim_end_matches('/'), normal(name)));
    let page = page.ok_or_else(|| format!("{} is no address of an index", index.shown()))?;
    let said = |why: &dyn std::fmt::Display| format!("{}: {why}", page.shown());
    let mut request = agent.get(page.url()).header("accept", FORMS);
    if let Some(authorization) = page.authorization() {
        request = request.header("authorization", authorization);
    }
    let answer = request.config().https_only(page.is_https()).build().call().map_err(|e| said(&e))?;
    if answer.status() != 200 {
        return Err(said(&format_args!("the index answered {}", answer.status().as_u16())));
    }
    let here = page.moved(&answer.get_uri().to_string());
    let mut text = String::new();
    answer.into_body().into_reader().take(MAX_PAGE_BYTES).read_to_string(&mut text).map_err(|e| said(&e))?;
    let links = if text.trim_start().starts_with('{') { of_json(&text) } else { of_html(&text) };
    let mut wheels = links.into_iter().filter(|link| is_of(&link.url, name, version)).peekable();
    if wheels.peek().is_none() {
        return Err(said(&format_args!("no wheel of version {version}")));
    }
    wheels
        .find_map(|link| Some(Wheel { address: here.join(&link.url)?, sha256: link.sha256? }))
        .ok_or_else(|| said(&"the index names no sha256 of the wheel"))
}

/// A link on a page.
struct Link {
    url: String,
    sha256: Option<String>,
}

fn of_json(page: &str) -> Vec<Link> {
    let page: Value = serde_json::from_str(page).unwrap_or_default();
    let link = |file: &Value| {
        let sum = file.pointer("/hashes/sha256").and_then(Value::as_str);
        Some(Link { url: file.get("url")?.as_str()?.to_owned(), sha256: sum.and_then(sum_of) })
    };
    page.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(link).collect()
}

fn of_html(page: &str) -> Vec<Link> {
    // the same length, so that places in one are places in the other
    let lower = page.to_ascii_lowercase();
    let link = |at: usize| {
        let value = page.get(at..)?.trim_start();
        let quote = value.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let url = value[1..].split(quote).next()?.replace("&amp;", "&");
        let fragment = url.split_once('#').map_or("", |(_, fragment)| fragment);
        let sha256 = fragment.split('&').find_map(|f| f.strip_prefix("sha256=")).and_then(sum_of);
        Some(Link { sha256, url })
    };
    lower.match_indices("href=").filter_map(|(at, found)| link(at + found.len())).collect()
}

fn sum_of(text: &str) -> Option<String> {
    let whole = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| text.to_ascii_lowercase())
}

/// Whether an address ends in the name of a wheel of that package and version.
fn is_of(url: &str, name: &str, version: &str) -> bool {
    let file = url.split(['#', '?']).next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let mut words = file.strip_suffix(".whl").unwrap_or_default().split('-');
    words.next().is_some_and(|word| normal(word) == normal(name)) && words.next() == Some(version)
}

/// A package's name as indexes spell it: small letters, and one dash for each run of `-`, `_` and `.`.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().split(['-', '_', '.']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}
