//! An index and a file store on the loopback, which cut connections as they are told and write down what was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as far as these tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) path: String,
    /// The first byte of its range.
    pub(super) from: Option<usize>,
    pub(super) authorization: Option<String>,
}

/// What is answered to the n-th request.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
    /// The length that is announced; the connection is cut where the body is shorter.
    pub(super) announced: usize,
}

impl Answer {
    pub(super) fn whole(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { status: 200, headers: String::new(), announced: body.len(), body }
    }

    pub(super) fn status(status: u16) -> Self {
        Self { status, ..Self::whole("") }
    }

    /// The file from a byte on, as a server that knows ranges answers; its last `missing` bytes never come.
    pub(super) fn part(file: &[u8], from: Option<usize>, missing: usize) -> Self {
        let first = from.unwrap_or(0);
        let headers = format!("Content-Range: bytes {first}-{}/{}\r\n", file.len() - 1, file.len());
        let (status, headers) = if from.is_some() { (206, headers) } else { (200, String::new()) };
        Self { status, headers, announced: file.len() - first, body: file[first..file.len() - missing].to_vec() }
    }
}

/// A running server; it ends with the test.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// `answer` is given the number of requests before this one, and the request.
    pub(super) fn start(answer: impl Fn(usize, &Asked) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let log = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                let mut log = log.lock().unwrap();
                let reply = answer(log.len(), &request);
                log.push(request);
                drop(log);
                write(stream, &reply);
            }
        });
        Self { address, asked }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The ranges that were asked of one path.
    pub(super) fn ranges(&self, path: &str) -> Vec<Option<usize>> {
        self.asked().into_iter().filter(|a| a.path == path).map(|a| a.from).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut asked = Asked { path, from: None, authorization: None };
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => asked.from = value.trim().strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok(),
            "authorization" => asked.authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Some(asked)
}

fn write(mut stream: TcpStream, reply: &Answer) {
    let Answer { status, headers, body, announced } = reply;
    // who was told to stop hangs up, which is no fault here
    let _ = write!(stream, "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {announced}\r\n{headers}\r\n");
    let _ = stream.write_all(body).and_then(|()| stream.flush());
}
