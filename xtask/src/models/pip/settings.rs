//! What the user has told pip about indexes, certificates and a proxy, asked of pip itself.
//!
//! `pip config list` merges its files and the environment; the index of somebody who set none stands in the help. Nothing is
//! known here about any host, so a mirror is used wherever pip would use it.

use std::path::PathBuf;
use std::process::Command;

use super::address::Address;
use crate::children;

/// pip's settings, as far as another client can follow them.
pub(super) struct Settings {
    /// The indexes in pip's order.
    pub(super) indexes: Vec<Address>,
    /// A file of root certificates.
    pub(super) certificates: Option<PathBuf>,
    pub(super) proxy: Option<String>,
}

/// Asks pip; or says why only pip itself can follow what it is set to.
pub(super) fn ask() -> Result<Settings, String> {
    let list = pip(&["config", "list"])?;
    let help = if look_up(&list, "index-url").is_none() { pip(&["download", "--help"])? } else { String::new() };
    let mut settings = read(&list, &help)?;
    let named = ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"];
    let of_environment = || named.iter().find_map(|name| std::env::var_os(name).filter(|v| !v.is_empty()));
    settings.certificates = settings.certificates.or_else(|| of_environment().map(PathBuf::from));
    Ok(settings)
}

fn pip(args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("python3");
    // wide lines: the help breaks at them
    command.args(["-m", "pip"]).args(args).env("COLUMNS", "4000");
    let output = children::output(&mut command).map_err(|e| format!("python3 cannot be started ({e})"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("`pip {}` does not tell pip's settings ({})", args.join(" "), output.status))
}

/// Reads what `pip config list` and, for the default index, `pip download --help` print.
pub(super) fn read(list: &str, help: &str) -> Result<Settings, String> {
    if look_up(list, "no-index").is_some_and(|v| ["1", "true", "yes", "on"].contains(&v.to_lowercase().as_str())) {
        return Err("pip is set to use no index".to_owned());
    }
    let first = look_up(list, "index-url").or_else(|| default_index(help));
    let first = first.ok_or("pip does not say which index it uses")?;
    let more = look_up(list, "extra-index-url").unwrap_or_default();
    let indexes = std::iter::once(first.as_str()).chain(more.split_whitespace());
    // an index that is a folder, say
    let indexes = indexes.map(|index| Address::parse(index).ok_or("pip is set to an index that is no http address"));
    Ok(Settings {
        indexes: indexes.collect::<Result<_, _>>()?,
        certificates: look_up(list, "cert").map(PathBuf::from),
        proxy: look_up(list, "proxy"),
    })
}

/// The value that counts for `pip download`: the environment's, the command's own, the one for all commands.
fn look_up(list: &str, key: &str) -> Option<String> {
    [":env:", "download", "global"].iter().find_map(|section| {
        let value =
            list.lines().find_map(|l| l.strip_prefix(section)?.strip_prefix('.')?.strip_prefix(key)?.strip_prefix('='));
        value.map(unquoted).filter(|value| !value.is_empty())
    })
}

/// A text out of the quotes and escapes that Python shows it with.
fn unquoted(shown: &str) -> String {
    let shown = shown.trim();
    let inner = ['\'', '"'].iter().find_map(|q| shown.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(shown);
    let (mut text, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        match if c == '\\' { chars.next() } else { None } {
            None => text.push(c),
            Some('n' | 'r' | 't') => text.push(' '),
            Some(escaped) => text.push(escaped),
        }
    }
    text.trim().to_owned()
}

/// The index that the help names as the default.
fn default_index(help: &str) -> Option<String> {
    let (_, option) = help.split_once("-i, --index-url")?;
    let (_, shown) = option.split_once("(default ")?;
    // a line may have been broken inside of the address
    let address: String = shown.split(')').next()?.split_whitespace().collect();
    // pip shows stars for a password, with which nobody can ask
    (!address.contains("****")).then_some(address)
}
