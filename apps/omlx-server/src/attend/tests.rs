//! Clients that leave, dawdle, or send half of something.

use std::time::Instant;

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const SHORT: Patience =
    Patience { head: Duration::from_millis(300), body: Duration::from_millis(300), short: Duration::from_millis(300) };
const LONG: Patience =
    Patience { head: Duration::from_secs(60), body: Duration::from_secs(60), short: Duration::from_millis(300) };

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
        .route("/body", post(async |body: String| body));
    let (stop, stopped) = watch::channel(false);
    let owed = Arc::<Owed>::default();
    let house = House { app, patience, owed: Arc::clone(&owed), crowded, stop: stopped };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    (client, tokio::spawn(attend(stream, house)), stop, owed)
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
