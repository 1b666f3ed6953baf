//! What the demonstration says and hears; the whole of it runs as `demo --once`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::invitation;
use crate::server::{free_port, http};

#[test]
fn the_next_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    assert!(free_port(port).unwrap() > port);
}

#[test]
fn the_invitation_is_valid() {
    let text = invitation(8001, "m");
    let body = text.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let request: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(request["model"], "m");
    // the file says no sampling values of its own, and at temperature 1 so small a model talks nonsense
    assert_eq!(request["temperature"], 0.2);
    assert_eq!(text.matches("temperature=0.2").count(), 1);
    assert_eq!(text.matches("127.0.0.1:8001/v1").count(), 3);
    assert_eq!(text.matches("curl").count(), 1);
}

#[test]
fn answers() {
    assert_eq!(http::parse("HTTP/1.0 200 OK\r\na: b\r\n\r\n{\"x\":1}").unwrap()["x"], 1);
    assert!(http::parse("HTTP/1.0 404 Not Found\r\n\r\n{}").is_none());
    assert!(http::parse("HTTP/1.0 200 OK\r\n\r\nnot json").is_none());
    assert!(http::parse("").is_none());
}

#[test]
fn the_speed_is_said() {
    let answer = http::Answer { text: "Hi.".to_owned(), prompt: 9, tokens: 30, seconds: 0.5 };
    let said = answer.speed();
    assert!(
        said.starts_with("30 tokens in 0.50 s, 60 tokens/s from the question sent to the answer received"),
        "{said}"
    );
    assert!(said.contains("prompt's 9 tokens included"), "{said}");
}

#[test]
fn a_question_over_a_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // to the end of the body: what is left unread when the socket closes resets the connection
        let mut asked = Vec::new();
        while !asked.ends_with(b"}") {
            let mut some = [0; 4096];
            match stream.read(&mut some).unwrap() {
                0 => break,
                n => asked.extend_from_slice(&some[..n]),
            }
        }
        stream
            .write_all(
                b"HTTP/1.0 200 OK\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"Hi.\"}}],\
            \"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}",
            )
            .unwrap();
        String::from_utf8(asked).unwrap()
    });
    let answer = http::ask(port, "m", "Hello?").unwrap();
    assert_eq!((answer.text.as_str(), answer.prompt, answer.tokens), ("Hi.", 9, 2));
    assert!(server.join().unwrap().starts_with("POST /v1/chat/completions HTTP/1.0\r\n"));
}
