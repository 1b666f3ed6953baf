//! One client: request after request, each checked to the last byte, some left before they end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A request that takes longer than this hangs.
pub(super) const LIMIT: Duration = Duration::from_secs(240);
/// Beginnings that many prompts share, so that some of each is found in the cache.
const SHARED: [&str; 4] =
    ["You are a careful editor. ", "Summarise the log below. ", "Translate to French: ", "Once upon a time "];
const WORDS: [&str; 12] =
    ["river", "stone", "quick", "blue", "seven", "under", "letter", "engine", "cloud", "paper", "north", "apple"];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A whole, well-formed answer.
    Answered,
    /// Turned away with 503 or 507 and a reason.
    Refused,
    /// We left.
    Left,
}

/// SplitMix64: the same seed, the same requests.
#[derive(Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// About `words` words, beginning like a quarter of all others.
pub(super) fn prompt(dice: &mut Dice, words: u64) -> String {
    let mut text = SHARED[dice.below(SHARED.len() as u64) as usize].to_owned();
    for _ in 0..words {
        text += WORDS[dice.below(WORDS.len() as u64) as usize];
        text.push(' ');
    }
    text
}

/// One request, drawn from the dice. The error says what was wrong.
pub(super) fn request(port: u16, model: &str, dice: &mut Dice) -> Result<End, String> {
    let words = match dice.below(20) {
        0 => 600 + dice.below(400),
        1..=5 => 100 + dice.below(200),
        _ => 5 + dice.below(40),
    };
    let stream = dice.below(3) > 0;
    let mut body = json!({
        "model": model, "stream": stream, "max_tokens": 1 + dice.below(40), "seed": dice.below(1000),
        "temperature": (dice.below(3) as f64) * 0.6,
        "messages": [{"role": "user", "content": prompt(dice, words)}],
    });
    match dice.below(6) {
        0 => body["repetition_penalty"] = json!(1.1),
        1 => body["top_k"] = json!(5),
        2 => body["logprobs"] = json!(true),
        3 => body["stop"] = json!(["the", "."]),
        _ => {}
    }
    let leave = (dice.below(5) == 0).then(|| Duration::from_millis(dice.below(3000)));
    match exchange(port, &body, leave)? {
        None => Ok(End::Left),
        Some(answer) => check(&answer, stream),
    }
}

/// Sends and reads to the end; none if we left before it.
pub(super) fn exchange(port: u16, body: &Value, leave: Option<Duration>) -> Result<Option<String>, String> {
    let begin = Instant::now();
    let failed = |e: std::io::Error| format!("the connection: {e}");
    let mut socket = connect(port, body).map_err(failed)?;
    let mut answer = Vec::new();
    let mut part = [0u8; 16384];
    loop {
        let left = leave.unwrap_or(LIMIT).saturating_sub(begin.elapsed());
        if left.is_zero() {
            return if leave.is_some() { Ok(None) } else { Err(format!("no end after {} s", LIMIT.as_secs())) };
        }
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).map_err(failed)?;
        match socket.read(&mut part) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&part[..n]),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(failed(e)),
        }
    }
    String::from_utf8(answer).map(Some).map_err(|e| format!("the answer is not UTF-8: {e}"))
}

fn connect(port: u16, body: &Value) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(30))?;
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    socket.write_all(body.as_bytes())?;
    Ok(socket)
}

/// Whether an answer is whole and in the shape that clients read.
pub(super) fn check(answer: &str, stream: bool) -> Result<End, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("no head: {answer:?}"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "503" || status == "507" {
        let error: Value = serde_json::from_str(body).map_err(|e| format!("{status} without JSON: {e}"))?;
        let reason = error["error"]["message"].as_str().filter(|m| !m.is_empty());
        return reason.map(|_| End::Refused).ok_or_else(|| format!("{status} without a reason: {body}"));
    }
    if status != "200" {
        return Err(format!("status {status}: {body}"));
    }
    match stream {
        true => events(body),
        false => {
            let answer: Value = serde_json::from_str(body).map_err(|e| format!("no JSON: {e}: {body}"))?;
            let choice = &answer["choices"][0];
            let whole = choice["message"]["content"].is_string() && choice["finish_reason"].is_string();
            if whole && answer["usage"]["completion_tokens"].is_u64() {
                Ok(End::Answered)
            } else {
                Err(format!("not whole: {body}"))
            }
        }
    }
}

/// Every event is JSON, one says why the answer ended, and the last is `[DONE]`.
fn events(body: &str) -> Result<End, String> {
    let mut finished = false;
    let mut done = false;
    for event in body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':')) {
        let data = event.strip_prefix("data: ").ok_or_else(|| format!("no event: {event:?}"))?;
        if done {
            return Err("an event after [DONE]".to_owned());
        }
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let event: Value = serde_json::from_str(data).map_err(|e| format!("an event without JSON: {e}: {data}"))?;
        if event.get("error").is_some() {
            return Err(format!("an error within the stream: {data}"));
        }
        finished |= event["choices"][0]["finish_reason"].is_string();
    }
    if finished && done { Ok(End::Answered) } else { Err(format!("the stream ended early: {body:?}")) }
}
