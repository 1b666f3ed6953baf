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
fn a_question_over_a_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4096];
        let n = stream.read(&mut asked).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"Hi.\"}}]}").unwrap();
        String::from_utf8_lossy(&asked[..n]).into_owned()
    });
    assert_eq!(http::ask(port, "m", "Hello?").unwrap(), "Hi.");
    assert!(server.join().unwrap().starts_with("POST /v1/chat/completions HTTP/1.0\r\n"));
}
