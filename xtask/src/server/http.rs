//! One request to the server over a plain socket: enough HTTP for our own server on loopback, and no more.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::shell::{Done, Failed};

/// How long a small answer may take on a slow machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// The id of the first model that the server has loaded. `/health` is asked and not the list, since the log passes over it: a
/// line of the log would stand in the midst of what we print.
pub(crate) fn first_model(port: u16) -> Done<String> {
    let answer = request(port, "GET", "/health", "")?;
    let id = answer["models"][0]["id"].as_str();
    id.map(str::to_owned).ok_or_else(|| Failed::new(format!("the server has loaded no model: {answer}")))
}

/// What the model said to a question, and what that took.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) prompt: u64,
    pub(crate) tokens: u64,
    pub(crate) seconds: f64,
}

impl Answer {
    /// Its speed in words.
    pub(crate) fn speed(&self) -> String {
        let Self { prompt, tokens, seconds, .. } = self;
        let rate = *tokens as f64 / seconds.max(1e-3);
        format!(
            "{tokens} tokens in {seconds:.2} s, {rate:.0} tokens/s from the question sent to the answer received, the reading of the \
             prompt's {prompt} tokens included; the log's tokens/s are those of the writing alone"
        )
    }
}

/// Asks one question.
pub(crate) fn ask(port: u16, model: &str, question: &str) -> Done<Answer> {
    let body = json!({"model": model, "max_tokens": 64, "temperature": 0, "messages": [{"role": "user", "content": question}]});
    let begin = Instant::now();
    let answer = request(port, "POST", "/v1/chat/completions", &body.to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    let said = answer["choices"][0]["message"]["content"].as_str().filter(|s| !s.trim().is_empty());
    let text = said.ok_or_else(|| Failed::new(format!("the server did not answer with text: {answer}")))?.to_owned();
    let count = |name: &str| answer["usage"][name].as_u64().unwrap_or(0);
    Ok(Answer { text, prompt: count("prompt_tokens"), tokens: count("completion_tokens"), seconds })
}

/// One request and the JSON of its answer, which has to be a success.
pub(crate) fn request(port: u16, method: &str, path: &str, body: &str) -> Done<Value> {
    let failed = |e: std::io::Error| Failed::new(format!("{method} {path}: {e}"));
    let mut answer = String::new();
    let stream = send(port, method, path, body, ANSWER_LIMIT)?;
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer).map_err(failed)?;
    parse(&answer)
        .ok_or_else(|| Failed::new(format!("{method} {path}: {}", answer.lines().next().unwrap_or("no answer"))))
}

/// Sends one request and leaves its answer to be read, each time for as long as `limit`.
pub(crate) fn send(port: u16, method: &str, path: &str, body: &str, limit: Duration) -> Done<TcpStream> {
    let failed = |e: std::io::Error| Failed::new(format!("{method} {path}: {e}"));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).map_err(failed)?;
    stream.set_read_timeout(Some(limit)).map_err(failed)?;
    // 1.0: the answer ends where the connection does, and is not cut into chunks
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(failed)?;
    Ok(stream)
}

/// The JSON body of a successful answer.
pub(crate) fn parse(answer: &str) -> Option<Value> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    (status == "200").then(|| serde_json::from_str(body).ok())?
}
