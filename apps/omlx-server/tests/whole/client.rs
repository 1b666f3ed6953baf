//! The smallest HTTP client that shows everything: statuses, headers, chunks, and sockets that can be dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The JSON of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The error object of a failure.
    #[track_caller]
    pub(crate) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        let error = self.json()["error"].clone();
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
        error
    }

    /// The chunks of a stream, which must end in `[DONE]`.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        assert!(self.header("content-type").starts_with("text/event-stream"), "{self:?}");
        let mut data: Vec<&str> = self.body.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        data.iter().map(|d| serde_json::from_str(d).unwrap()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|h| h.0 == name).map_or("", |h| &h.1)
    }
}

/// One request to a server on loopback.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    port: u16,
    head: String,
    body: String,
}

pub(crate) fn get(port: u16, path: &str) -> Request {
    Request { port, head: format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"), body: String::new() }
}

pub(crate) fn post(port: u16, path: &str, body: &Value) -> Request {
    post_text(port, path, &body.to_string())
}

pub(crate) fn post_text(port: u16, path: &str, body: &str) -> Request {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    Request { port, head, body: body.to_owned() }
}

impl Request {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    /// Sends the request and gives the socket back, for reading later, in part or not at all.
    pub(crate) fn open(&self) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("{}Connection: close\r\n\r\n{}", self.head, self.body).as_bytes()).unwrap();
        BufReader::new(stream)
    }

    pub(crate) fn send(&self) -> Answer {
        finish(self.open())
    }
}

/// Reads an answer to its end.
pub(crate) fn finish(mut stream: BufReader<TcpStream>) -> Answer {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let status =
        first.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status in {first:?}"));
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut body = Vec::new();
    if headers.iter().any(|h| h.0 == "transfer-encoding" && h.1 == "chunked") {
        while chunk(&mut stream, &mut body) {}
    } else {
        stream.read_to_end(&mut body).unwrap();
    }
    Answer { status, headers, body: String::from_utf8(body).unwrap() }
}

/// Reads one chunk; false after the last.
fn chunk(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> bool {
    let mut size = String::new();
    stream.read_line(&mut size).unwrap();
    let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("the stream broke off: {size:?}"));
    let start = body.len();
    body.resize(start + size, 0);
    stream.read_exact(&mut body[start..]).unwrap();
    let mut end = [0; 2];
    stream.read_exact(&mut end).unwrap();
    size > 0
}

/// Waits for the first piece of text of a stream.
pub(crate) fn first_event(stream: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before its first event");
    }
}
