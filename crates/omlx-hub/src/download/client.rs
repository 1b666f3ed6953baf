//! Requests to the hub. Redirects are followed here and not by the HTTP client, because the token must not travel with them.

use ureq::http::{Response, Uri, header};
use ureq::{Agent, Body, Proxy};

use super::Hub;
use crate::error::{Error, Result};

/// The most hops from a file's address to its bytes; the real hub makes one or two.
const MAX_REDIRECTS: usize = 5;

/// A connection to one hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    origin: Origin,
    token: Option<String>,
    pub(super) retries: u32,
}

/// Who answers an address: the token goes to one origin alone.
#[derive(PartialEq, Eq, Clone)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        Some(Self { host: uri.host()?.to_ascii_lowercase(), port: uri.port_u16().unwrap_or(default_port), scheme })
    }
}

impl Client {
    pub(super) fn new(hub: &Hub) -> Result<Self> {
        let network = |source| Error::Network { url: hub.endpoint.clone(), source: Box::new(source) };
        let origin = Origin::of(&hub.endpoint).ok_or_else(|| network(ureq::Error::BadUri(hub.endpoint.clone())))?;
        let proxy = hub.proxy.as_deref().map(Proxy::new).transpose().map_err(network)?;
        let agent = Agent::config_builder()
            .proxy(proxy)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_resolve(Some(hub.connect_timeout))
            .timeout_connect(Some(hub.connect_timeout))
            .timeout_recv_response(Some(hub.read_timeout))
            .timeout_per_read(Some(hub.read_timeout))
            .user_agent(concat!("omlx/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self {
            agent,
            endpoint: hub.endpoint.trim_end_matches('/').to_owned(),
            origin,
            token: hub.token.clone(),
            retries: hub.retries,
        })
    }

    /// The address of the hub's listing of a repository.
    pub(super) fn listing_url(&self, repo: &str, revision: &str) -> String {
        format!("{}/api/models/{repo}/revision/{}?blobs=true", self.endpoint, encoded(revision))
    }

    /// The address of a file at a commit.
    pub(super) fn file_url(&self, repo: &str, commit: &str, file: &str) -> String {
        format!("{}/{repo}/resolve/{}/{}", self.endpoint, encoded(commit), encoded(file))
    }

    /// Asks for an address, from byte `from` on. The answer is 200, 206 or 416; every other status is an error.
    pub(super) fn get(&self, url: &str, from: u64) -> Result<Response<Body>> {
        let mut at = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.ask(&at, from)?;
            match answer.status().as_u16() {
                200 | 206 | 416 => return Ok(answer),
                301 | 302 | 303 | 307 | 308 => at = next(&at, &answer)?,
                status @ (401 | 403) => {
                    return Err(Error::Denied { url: url.to_owned(), status });
                }
                404 => {
                    return Err(Error::NotOnHub { url: url.to_owned() });
                }
                status => {
                    return Err(Error::Status { url: url.to_owned(), status });
                }
            }
        }
        Err(Error::Redirect { url: url.to_owned(), to: at, why: "too many redirects" })
    }

    fn ask(&self, url: &str, from: u64) -> Result<Response<Body>> {
        // identity: a range of a compressed body is of no use
        let mut request = self.agent.get(url).header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = self.token.as_ref().filter(|_| Origin::of(url).as_ref() == Some(&self.origin)) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        request.call().map_err(|source| Error::Network { url: url.to_owned(), source: Box::new(source) })
    }
}

/// Where a redirect leads, if it may be followed.
fn next(from: &str, answer: &Response<Body>) -> Result<String> {
    let to = answer.headers().get(header::LOCATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let refuse = |why| Error::Redirect { url: from.to_owned(), to: to.to_owned(), why };
    let here = Origin::of(from).ok_or_else(|| refuse("the address it came from cannot be read"))?;
    let whole = match to {
        _ if to.starts_with("//") => format!("{}:{to}", here.scheme),
        _ if to.starts_with('/') => format!("{}://{}:{}{to}", here.scheme, here.host, here.port),
        _ => to.to_owned(),
    };
    let there = Origin::of(&whole).ok_or_else(|| refuse("not an http or https address"))?;
    if here.scheme == "https" && there.scheme != "https" {
        return Err(refuse("from https to http"));
    }
    Ok(whole)
}

/// Percent-encodes a path; slashes stay.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for b in path.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}
