//! An http address with its credentials kept apart: what is shown and what is sent to other hosts never holds them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Where something is, and who asks for it there.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `https://host:port`, without a user.
    origin: String,
    /// From the first slash on, with a query if there is one.
    path: String,
    /// The value of an `Authorization` header; for this origin alone.
    authorization: Option<String>,
}

impl Address {
    /// Reads an address as users write it, `https://user:password@host/path`; none if it is not one of http.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") || text.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return None;
        }
        let rest = rest.split('#').next()?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if host.is_empty() {
            return None;
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let origin = format!("{scheme}://{}", host.to_ascii_lowercase());
        Some(Self { origin, path, authorization: user.map(basic) })
    }

    /// Where a link on the page of this address leads. Credentials go along within one origin.
    pub(super) fn join(&self, link: &str) -> Option<Self> {
        let link = link.split('#').next()?;
        let scheme = self.origin.split("://").next()?;
        let whole = match link {
            _ if link.contains("://") => link.to_owned(),
            _ if link.starts_with("//") => format!("{scheme}:{link}"),
            _ if link.starts_with('/') => format!("{}{link}", self.origin),
            _ => format!("{}{}", self.origin, relative(self.without_query(), link)),
        };
        let mut there = Self::parse(&whole)?;
        if there.origin == self.origin && there.authorization.is_none() {
            there.authorization.clone_from(&self.authorization);
        }
        Some(there)
    }

    /// The address of what a redirect led to, for links on that page.
    pub(super) fn moved(&self, to: &str) -> Self {
        self.join(to).unwrap_or_else(|| self.clone())
    }

    /// What the HTTP client is given.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The `Authorization` to ask with.
    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Whether everything on the way has to be encrypted, redirects too.
    pub(super) fn is_https(&self) -> bool {
        self.origin.starts_with("https:")
    }

    /// What may be shown: neither a user nor a query, which is how stores sign their addresses.
    pub(super) fn shown(&self) -> String {
        format!("{}{}", self.origin, self.without_query())
    }

    fn without_query(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

// credentials must not reach a message by way of a derived Debug
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// `user:password`, percent-encoded as in an address, as Basic credentials.
fn basic(user: &str) -> String {
    let whole = if user.contains(':') { decoded(user) } else { [decoded(user), b":".to_vec()].concat() };
    format!("Basic {}", BASE64_STANDARD.encode(whole))
}

/// Takes percent-encoding away; what is none stays.
fn decoded(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|d| bytes[at] == b'%' && d.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    out
}

/// A path relative to a page's: `../` goes up, never above the root.
fn relative(page: &str, link: &str) -> String {
    let (path, query) = link.split_at(link.find('?').unwrap_or(link.len()));
    let mut steps: Vec<&str> = page.split('/').skip(1).collect();
    steps.pop();
    for step in path.split('/') {
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}{query}", steps.join("/"))
}
