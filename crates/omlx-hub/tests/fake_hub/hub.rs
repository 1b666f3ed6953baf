//! A hub on loopback that misbehaves as told: one thread per connection, one request per connection.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use sha2::{Digest, Sha256};

/// What the hub does with one request for a file.
#[derive(Debug)]
pub(crate) enum Act {
    /// Announces all and sends the first bytes only.
    Cut(usize),
    /// Sends 200 and everything, whatever range was asked for.
    IgnoreRange,
    /// Answers with a status and no body.
    Status(u16),
    /// Sends other bytes of the same length.
    Wrong,
    /// Sends more bytes than the listing says.
    TooLong,
    /// Sends the client elsewhere.
    Redirect(String),
    /// Says that a request is here, then waits to be let go.
    Hold(mpsc::Sender<()>, mpsc::Receiver<()>),
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    pub(crate) range: Option<String>,
}

struct State {
    files: Vec<(String, Vec<u8>)>,
    acts: HashMap<String, VecDeque<Act>>,
    asked: Vec<Asked>,
}

/// A running hub with one repository, `o/n`, at commit `abc`.
pub(crate) struct FakeHub {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl FakeHub {
    pub(crate) fn serving(files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = files.iter().map(|(n, b)| ((*n).to_owned(), b.clone())).collect();
        let state = Arc::new(Mutex::new(State { files, acts: HashMap::new(), asked: vec![] }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || answer(stream, &state));
            }
        });
        Self { url, state }
    }

    /// What to do with the next requests for a file; then it behaves.
    pub(crate) fn will(&self, file: &str, acts: impl IntoIterator<Item = Act>) {
        self.state.lock().unwrap().acts.entry(file.to_owned()).or_default().extend(acts);
    }

    /// Requests whose path ends so.
    pub(crate) fn asked(&self, end: &str) -> Vec<Asked> {
        self.state.lock().unwrap().asked.iter().filter(|a| a.path.ends_with(end)).cloned().collect()
    }
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut asked = Asked { path, token: None, range: None };
    for line in lines.map_while(Result::ok).take_while(|l| !l.is_empty()) {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "authorization" => asked.token = Some(value.trim().to_owned()),
            "range" => asked.range = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Some(asked)
}

fn send(stream: &mut TcpStream, status: u16, headers: &str, length: usize, body: &[u8]) {
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    // the client may have gone, which is its right
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

fn listing(files: &[(String, Vec<u8>)]) -> String {
    let sibling = |(name, bytes): &(String, Vec<u8>)| {
        let sum: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        let lfs = if bytes.len() > 100 {
            format!(",\"lfs\":{{\"sha256\":\"{sum}\",\"size\":{}}}", bytes.len())
        } else {
            String::new()
        };
        format!("{{\"rfilename\":{name:?},\"size\":{},\"blobId\":\"git{}\"{lfs}}}", bytes.len(), &sum[..8])
    };
    format!("{{\"sha\":\"abc\",\"siblings\":[{}]}}", files.iter().map(sibling).collect::<Vec<_>>().join(","))
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let Some(asked) = request(&stream) else {
        return;
    };
    let mut held = state.lock().unwrap();
    held.asked.push(asked.clone());
    if asked.path.starts_with("/api/models/o/n/revision/") {
        let text = listing(&held.files);
        return send(&mut stream, 200, "", text.len(), text.as_bytes());
    }
    let found = held.files.iter().find(|(name, _)| asked.path.ends_with(&format!("/{name}"))).cloned();
    let Some((name, bytes)) = found else {
        return send(&mut stream, 404, "", 0, b"");
    };
    let act = held.acts.get_mut(&name).and_then(VecDeque::pop_front);
    drop(held);
    let from: usize = asked.range.and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()).unwrap_or(0);
    let range = format!("content-range: bytes {from}-{}/{}\r\n", bytes.len().saturating_sub(1), bytes.len());
    let (status, headers) = if from > 0 { (206, range.as_str()) } else { (200, "") };
    let rest = &bytes[from.min(bytes.len())..];
    match act {
        None => send(&mut stream, status, headers, rest.len(), rest),
        Some(Act::Cut(n)) => send(&mut stream, status, headers, rest.len(), &rest[..n]),
        Some(Act::IgnoreRange) => send(&mut stream, 200, "", bytes.len(), &bytes),
        Some(Act::Status(status)) => send(&mut stream, status, "", 0, b""),
        Some(Act::Wrong) => send(&mut stream, status, headers, rest.len(), &vec![0; rest.len()]),
        Some(Act::TooLong) => send(&mut stream, 200, "", bytes.len() + 5, &[&bytes[..], b"extra"].concat()),
        Some(Act::Redirect(to)) => send(&mut stream, 302, &format!("location: {to}\r\n"), 0, b""),
        Some(Act::Hold(here, go)) => {
            here.send(()).unwrap();
            let _ = go.recv();
            send(&mut stream, status, headers, rest.len(), rest);
        }
    }
}
