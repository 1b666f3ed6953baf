//! Clients that leave, dawdle, or send half of something.

use std::time::Instant;

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const BRIEF: Duration = Duration::from_millis(300);
const MINUTE: Duration = Duration::from_secs(60);
const SHORT: Patience = Patience { head: BRIEF, body: BRIEF, half: BRIEF, deaf: BRIEF, short: BRIEF };
const LONG: Patience = Patience { head: MINUTE, body: MINUTE, half: BRIEF, deaf: BRIEF, short: BRIEF };

/// A connection to a server that never answers `/never` and needs a body for `/body`; its end; the stop; the debts.
async fn connect(patience: Patience) -> (TcpStream, tokio::task::JoinHandle<()>, watch::Sender<bool>, Arc<Owed>) {
    connect_among(patience, watch::channel(false).1).await
}

async fn connect_among(
    patience: Patience,
    crowded: watch::Receiver<bool>,
) -> (TcpStream, tokio::task::JoinHandle<()>, watch::Sender<bool>, Arc<Owed>) {
    let app = axum::Router::new()
        .route("/now", get(async || "now"))
        .route("/never", post(async |_: String| std::future::pending::<()>().await))
        .route("/stream", post(async |_: String| axum::body::Body::new(Slow::new())))
        .route("/flood", get(async || vec![b'x'; 64 << 20]))
        .route("/refused", post(async || axum::http::StatusCode::PAYLOAD_TOO_LARGE))
        .route("/body", post(async |body: String| body));
    let (stop, stopped) = watch::channel(false);
    let owed = Arc::<Owed>::default();
    let house = House { app, patience, owed: Arc::clone(&owed), crowded, stop: stopped };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    (client, tokio::spawn(attend(stream, house)), stop, owed)
}

/// Ten pieces, one every 150 ms.
struct Slow {
    pieces: usize,
    pause: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Slow {
    fn new() -> Self {
        Self { pieces: 10, pause: Box::pin(tokio::time::sleep(Duration::from_millis(150))) }
    }
}

impl hyper::body::Body for Slow {
    type Data = hyper::body::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Infallible>>> {
        if self.pieces == 0 {
            return std::task::Poll::Ready(None);
        }
        std::task::ready!(self.pause.as_mut().poll(cx));
        *self = Self { pieces: self.pieces - 1, ..Self::new() };
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data("piece ".into()))))
    }
}

async fn ends(task: tokio::task::JoinHandle<()>) {
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("it ends").unwrap();
}

async fn owes(owed: &Owed) {
    let owes = async {
        while !owed.any() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), owes).await.expect("an answer is owed");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request_whatever_follows_it() {
    for rest in ["", "\r\n", "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"] {
        let (mut client, task, _stop, owed) = connect(LONG).await;
        let request = format!("POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}{rest}");
        client.write_all(request.as_bytes()).await.unwrap();
        owes(&owed).await;
        drop(client);
        ends(task).await;
        assert!(!owed.any(), "{rest:?}");
    }
}

#[tokio::test]
async fn heads_and_bodies_do_not_take_for_ever() {
    for half in ["", "GET /now HTTP/1.1\r\nHost: a", "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"] {
        let (mut client, task, _stop, owed) = connect(SHORT).await;
        client.write_all(half.as_bytes()).await.unwrap();
        ends(task).await;
        assert!(!owed.any(), "{half:?}");
    }
}

/// Seen to fail: the time measured from the first byte on.
#[tokio::test]
async fn who_takes_nothing_of_an_answer_is_gone_and_who_is_slow_is_not() {
    const ASK: &[u8] = b"GET /flood HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let (mut deaf, task, _stop, owed) = connect(LONG).await;
    deaf.write_all(ASK).await.unwrap();
    ends(task).await;
    assert!(!owed.any());

    let (mut slow, task, _stop, _) = connect(LONG).await;
    slow.write_all(ASK).await.unwrap();
    // enough at a time that the system lets the other side send more
    let (mut some, mut taken) = (vec![0; 8 << 20], 0);
    loop {
        match slow.read(&mut some).await.unwrap() {
            0 => break,
            n => taken += n,
        }
        tokio::time::sleep(BRIEF / 3).await;
    }
    assert!(taken > 64 << 20, "{taken}");
    ends(task).await;
}

/// Seen to fail, at twice the patience: a look at the end of each patience whether anything was taken within it.
#[tokio::test]
async fn who_stops_taking_is_gone_one_patience_later() {
    const DEAF: Duration = Duration::from_secs(1);
    let (mut client, task, _stop, owed) = connect(Patience { deaf: DEAF, ..LONG }).await;
    client.write_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    tokio::time::sleep(DEAF / 4).await;
    assert!(owed.any(), "it waits for the client");
    // enough that the system lets the other side send more, once
    client.read_exact(&mut vec![0; 8 << 20]).await.unwrap();
    let last = Instant::now();
    ends(task).await;
    let took = last.elapsed();
    assert!((DEAF * 3 / 4..DEAF * 3 / 2).contains(&took), "{took:?} after the last that it took");
}

/// A pause is measured, not the whole.
#[tokio::test]
async fn a_slow_body_is_read_and_answered() {
    let (mut client, task, _stop, _) = connect(SHORT).await;
    client
        .write_all(b"POST /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 8\r\n\r\n")
        .await
        .unwrap();
    for piece in ["12", "34", "56", "78"] {
        tokio::time::sleep(Duration::from_millis(120)).await;
        client.write_all(piece.as_bytes()).await.unwrap();
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("12345678"), "{answer}");
    ends(task).await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_half_a_request() {
    for half in ["", "GET /now HTTP/1.1\r\nHost: a", "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"] {
        let (mut client, task, stop, owed) = connect(LONG).await;
        client.write_all(half.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.send_replace(true);
        assert!(!owed.any(), "{half:?} is owed nothing");
        ends(task).await;
    }
}

#[tokio::test]
async fn a_stop_waits_for_an_answer() {
    let (mut client, task, stop, owed) = connect(SHORT).await;
    client.write_all(b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    owes(&owed).await;
    let start = Instant::now();
    stop.send_replace(true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!task.is_finished() && owed.any(), "after {:?}", start.elapsed());
    drop(client);
    ends(task).await;
}

#[tokio::test]
async fn who_is_owed_nothing_makes_room_in_a_crowd() {
    let (crowd, crowded) = watch::channel(false);
    let (mut idle, idle_task, _idle_stop, _) = connect_among(LONG, crowded.clone()).await;
    let (mut half, half_task, _half_stop, _) = connect_among(LONG, crowded.clone()).await;
    let (mut asking, asking_task, _stop, owed) = connect_among(LONG, crowded).await;
    half.write_all(b"GET /now HTTP/1.1\r\nHost: a").await.unwrap();
    asking.write_all(b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    owes(&owed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!idle_task.is_finished() && !half_task.is_finished(), "nobody waits for a connection");
    crowd.send_replace(true);
    ends(idle_task).await;
    ends(half_task).await;
    assert_eq!((idle.read(&mut [0]).await.ok(), half.read(&mut [0]).await.ok()), (Some(0), Some(0)));
    assert!(!asking_task.is_finished() && owed.any());
    drop(asking);
    ends(asking_task).await;
}

/// Whoever has only ended its sending side gets what is ready soon, and the whole of what it takes. Seen to fail where the end
/// of the one side counts as the end of both.
#[tokio::test]
async fn a_client_that_sends_no_more_is_answered() {
    for (path, method, end) in [("/now", "GET", "now"), ("/stream", "POST", "piece \r\n0\r\n\r\n")] {
        let (mut client, task, _stop, _) = connect(LONG).await;
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(end), "{answer}");
        ends(task).await;
    }
}

/// Of a stream as of a plain answer, and soon.
#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_it() {
    let (mut client, task, _stop, owed) = connect(LONG).await;
    client.write_all(b"POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    client.read_exact(&mut [0; 20]).await.unwrap();
    drop(client);
    let start = Instant::now();
    ends(task).await;
    assert!(start.elapsed() < Duration::from_millis(1000) && !owed.any(), "{:?}", start.elapsed());
}

/// A sender that looks at nothing before all is sent sees the refusal, and not a connection that was reset.
#[tokio::test]
async fn a_refused_body_is_taken_and_the_refusal_seen() {
    for bytes in [1 << 10, 24 << 20] {
        let (mut client, task, _stop, _) = connect(LONG).await;
        let head = format!("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        for piece in vec![b'x'; bytes].chunks(1 << 16) {
            client.write_all(piece).await.unwrap();
        }
        let mut answer = vec![0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, b"HTTP/1.1 413");
        drop(client);
        ends(task).await;
    }
}
