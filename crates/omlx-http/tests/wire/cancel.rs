//! LIFE-1: when the client goes, the request goes, in both modes; and a stop string ends the work.
//!
//! Faults planted and seen: an answer that keeps its ticket alive when it is dropped; a stop string that cuts the text but
//! does not end the answer.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Act, CHAT, MODEL, Parts, Rig, least, post, with};

/// An engine that says `a` for ever, slowly, and tells when it sees that nobody listens (or `false` after ten seconds).
fn endless() -> (Rig, Receiver<bool>) {
    let (tell, told) = channel();
    let act: Act = Box::new(move |_, reply| {
        let start = Instant::now();
        while !reply.is_gone() && start.elapsed() < Duration::from_secs(10) {
            reply.token(u32::from(b'a'), None);
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = tell.send(reply.is_gone());
    });
    (Rig::new(&["ok "], Parts { act: Some(act), ..Parts::default() }), told)
}

async fn gone(told: Receiver<bool>) {
    let seen = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(5))).await;
    assert_eq!(seen.expect("no panic"), Ok(true), "the engine still works for nobody");
}

#[tokio::test]
async fn life_1_a_stream_that_is_dropped() {
    let (rig, told) = endless();
    let mut response: Response<Body> = rig.send(post(CHAT, &with(&least(CHAT), &json!({"stream": true})))).await;
    for _ in 0..3 {
        response.body_mut().frame().await.expect("a frame").expect("no error");
    }
    drop(response);
    gone(told).await;
}

#[tokio::test]
async fn life_1_a_whole_answer_that_nobody_waits_for() {
    let (rig, told) = endless();
    let request = rig.send(post(CHAT, &least(CHAT)));
    assert!(tokio::time::timeout(Duration::from_millis(100), request).await.is_err());
    gone(told).await;
}

#[tokio::test]
async fn life_1_a_stop_string_ends_the_work() {
    let (rig, told) = endless();
    let (status, _) = rig.post(CHAT, &with(&least(CHAT), &json!({"stop": "aaa"}))).await;
    assert_eq!(status, 200);
    gone(told).await;
}

/// A client closes its socket in the middle of a request.
async fn closed_socket(stream: bool) {
    let (rig, told) = endless();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let router = rig.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": stream}).to_string();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(told.try_recv().is_err(), "at work while the client waits");
    drop(socket);
    gone(told).await;
}

#[tokio::test]
async fn life_1_a_socket_closed_in_a_stream() {
    closed_socket(true).await;
}

#[tokio::test]
async fn life_1_a_socket_closed_in_a_whole_answer() {
    closed_socket(false).await;
}

#[tokio::test]
async fn life_1_still_in_the_mailbox() {
    let (rig, mut mailbox, _) = Rig::unmanned(&["ok "], &Parts::default());
    let request = rig.send(post(CHAT, &least(CHAT)));
    assert!(tokio::time::timeout(Duration::from_millis(100), request).await.is_err());
    let Some(omlx_api::Command::Generate(_, reply)) = mailbox.try_next() else { panic!("nothing came") };
    assert!(reply.is_gone());
}
