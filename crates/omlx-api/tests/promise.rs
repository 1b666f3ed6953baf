//! Every ticket ends in exactly one `Done` or `Failed`, whatever dies; and the door's other promises.
//!
//! Faults planted and seen: a ticket that answers `None` when its reply is dropped; `Mailbox::drop` that leaves `open`
//! set (the race test hangs); a queue that takes one request more than its depth; `stop` that leaves the queue standing;
//! `EngineHandle::drop` without a wake-up (the `handles_gone` test hangs).

use std::thread;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt};
use omlx_api::{
    Busy, Command, EngineHandle, Event, Fault, Finish, Generate, Mailbox, Refusal, Reply, Snapshot, Ticket, Usage,
    channel,
};

const USAGE: Usage = Usage { prompt: 1, cached: 0, completion: 2 };

fn request() -> Generate {
    Generate::new(vec![1], 4)
}

fn send(handle: &EngineHandle) -> Result<Ticket, Busy> {
    handle.generate(request()).now_or_never().expect("generate never waits")
}

fn taken(mailbox: &mut Mailbox) -> Reply {
    match mailbox.try_next() {
        Some(Command::Generate(_, reply)) => reply,
        other => panic!("expected a request, found {other:?}"),
    }
}

/// All events of a ticket; panics when it does not end within five seconds.
async fn events(ticket: Ticket) -> Vec<Event> {
    tokio::time::timeout(Duration::from_secs(5), ticket.collect()).await.expect("the ticket never ended")
}

/// A ticket whose request was treated by `fate` ends in `expected`, once, and last.
async fn check(fate: impl FnOnce(EngineHandle, Mailbox), expected: Event) {
    let (handle, mailbox) = channel(4);
    let ticket = send(&handle).expect("an empty mailbox has room");
    fate(handle, mailbox);
    let events = events(ticket).await;
    let endings = events.iter().filter(|event| !matches!(event, Event::Token { .. })).count();
    assert_eq!(endings, 1, "{events:?}");
    assert_eq!(events.last(), Some(&expected));
}

const STOPPED: Event = Event::Failed(Fault::Stopped);

#[tokio::test]
async fn done() {
    let fate = |_, mut mailbox: Mailbox| {
        let reply = taken(&mut mailbox);
        reply.token(7, None);
        reply.token(8, None);
        reply.done(Finish::Length, USAGE);
    };
    check(fate, Event::Done { why: Finish::Length, usage: USAGE }).await;
}

#[tokio::test]
async fn refused() {
    let fault = Fault::Refused(Refusal::TooLong { tokens: 9, context: 8 });
    let same = fault.clone();
    check(|_, mut mailbox| taken(&mut mailbox).fail(same), Event::Failed(fault)).await;
}

#[tokio::test]
async fn reply_dropped_before_the_first_token() {
    check(|_, mut mailbox| drop(taken(&mut mailbox)), STOPPED).await;
}

#[tokio::test]
async fn reply_dropped_after_a_token() {
    check(|_, mut mailbox| taken(&mut mailbox).token(7, None), STOPPED).await;
}

#[tokio::test]
async fn mailbox_dropped_with_the_request_in_it() {
    check(|_, mailbox| drop(mailbox), STOPPED).await;
}

#[tokio::test]
async fn stopped_with_the_request_in_the_mailbox() {
    // The mailbox lives on, as with an engine that is in a long step.
    check(
        |handle, mailbox| {
            handle.stop();
            std::mem::forget(mailbox)
        },
        STOPPED,
    )
    .await;
}

#[tokio::test]
async fn engine_thread_panics_with_the_request_taken() {
    let fate = |_, mut mailbox: Mailbox| {
        let engine = thread::spawn(move || {
            let reply = taken(&mut mailbox);
            reply.token(7, None);
            std::panic::resume_unwind(Box::new("a kernel went wrong"));
        });
        assert!(engine.join().is_err());
    };
    check(fate, STOPPED).await;
}

#[tokio::test]
async fn requests_race_with_the_death_of_the_engine() {
    for _ in 0..200 {
        let (handle, mailbox) = channel(1000);
        let sender = thread::spawn(move || {
            (0..50).map_while(|_| send(&handle).ok()).map(|ticket| (handle.clone(), ticket)).collect::<Vec<_>>()
        });
        thread::spawn(move || drop(mailbox));
        // Handles stay alive: nothing but the mailbox's own death may end these.
        for (_handle, ticket) in sender.join().unwrap() {
            assert_eq!(events(ticket).await, [STOPPED]);
        }
    }
}

#[test]
fn a_full_mailbox_says_so_at_once() {
    let (handle, mut mailbox) = channel(2);
    let _tickets = (send(&handle).unwrap(), send(&handle).unwrap());
    assert_eq!(send(&handle).unwrap_err(), Busy::Full);
    assert_eq!(handle.snapshot().waiting, 2);
    let _reply = taken(&mut mailbox);
    assert!(send(&handle).is_ok());
}

#[test]
fn a_dead_or_stopping_engine_takes_nothing() {
    let (handle, mailbox) = channel(2);
    assert!(handle.is_alive());
    drop(mailbox);
    assert!(!handle.is_alive());
    assert_eq!(send(&handle).unwrap_err(), Busy::Stopped);

    let (handle, mut mailbox) = channel(2);
    handle.stop();
    handle.stop();
    assert!(handle.is_alive(), "stopping, not dead");
    assert_eq!(send(&handle).unwrap_err(), Busy::Stopped);
    assert!(matches!(mailbox.try_next(), Some(Command::Stop)));
    assert!(mailbox.try_next().is_none(), "told once");
    assert!(mailbox.wait().is_none(), "but it stays stopped");
}

#[test]
fn dropping_the_ticket_is_seen_by_the_reply() {
    let (handle, mut mailbox) = channel(2);
    let ticket = send(&handle).unwrap();
    let reply = taken(&mut mailbox);
    assert!(!reply.is_gone());
    drop(ticket);
    assert!(reply.is_gone());
    reply.token(1, None);
    reply.done(Finish::Stop, USAGE);
}

#[test]
fn a_ticket_knows_its_cached_tokens_before_the_end() {
    let (handle, mut mailbox) = channel(2);
    let ticket = send(&handle).unwrap();
    let reply = taken(&mut mailbox);
    assert_eq!(ticket.cached(), 0);
    reply.admitted(48);
    assert_eq!(ticket.cached(), 48);
}

/// Runs `wait` on a thread, lets it fall asleep, does `act` and gives what `wait` said.
fn woken(act: impl FnOnce(EngineHandle)) -> Option<Command> {
    let (handle, mut mailbox) = channel(2);
    let (out, said) = std::sync::mpsc::channel();
    thread::spawn(move || out.send(mailbox.wait()));
    thread::sleep(Duration::from_millis(20));
    act(handle);
    said.recv_timeout(Duration::from_secs(5)).expect("wait never came back")
}

#[test]
fn wait_wakes_for_a_request() {
    assert!(matches!(woken(|handle| drop(send(&handle))), Some(Command::Generate(..))));
}

#[test]
fn wait_wakes_for_stop() {
    assert!(
        woken(|handle| {
            handle.stop();
            std::mem::forget(handle)
        })
        .is_none()
    );
}

#[test]
fn wait_wakes_when_all_handles_are_gone() {
    assert!(woken(|handle| drop((handle.clone(), handle))).is_none());
}

#[test]
fn the_snapshot_reaches_every_handle() {
    let (handle, mailbox) = channel(2);
    let other = handle.clone();
    let told = Snapshot {
        running: 3,
        waiting: 1,
        blocks_free: 4,
        blocks: 9,
        prompt_tokens: 5,
        generated_tokens: 6,
        steps: 7,
        failed_steps: 1,
        parked: 2,
        step_micros: 5_000,
        host_micros: 40,
    };
    mailbox.publish(told);
    assert_eq!((handle.snapshot(), other.snapshot()), (told, told));
}

#[test]
fn both_ends_may_cross_threads() {
    fn send_sync<T: Send + Sync>() {}
    fn send<T: Send>() {}
    send_sync::<EngineHandle>();
    send::<Mailbox>();
    send::<Ticket>();
    send::<Reply>();
    send::<Generate>();
}

/// Who sleeps is woken once, whenever it was rung, and a bell keeps nothing alive. Seen to fail: a ring that stays.
#[tokio::test]
async fn a_bell_wakes_who_sleeps_once() {
    let (handle, mut mailbox) = channel(4);
    let bell = mailbox.bell();
    assert!(bell.is_heard() && bell.ring() && bell.ring());
    assert!(mailbox.try_next().is_none(), "who is awake is not told");
    assert!(matches!(mailbox.wait(), Some(Command::Look)));
    let asleep = thread::spawn(move || (mailbox.wait(), mailbox.wait(), mailbox));
    thread::sleep(Duration::from_millis(20));
    assert!(bell.ring());
    let ticket = send(&handle).expect("there is room");
    let (first, second, mailbox) = asleep.join().expect("no panic");
    // Rung and asked at nearly the same time: both are told, in whatever order.
    let told = [first, second].map(|command| matches!(command, Some(Command::Look)));
    assert_ne!(told[0], told[1]);
    drop((mailbox, ticket));
    assert!(!bell.is_heard() && !bell.ring());
}

/// A deadline that nothing would ever come before.
const NEVER: Duration = Duration::from_secs(60);

/// An engine that waits for something else too looks at its deadline, and not before.
#[test]
fn a_deadline_is_a_look() {
    let (_handle, mut mailbox) = channel(2);
    let deadline = Instant::now() + Duration::from_millis(30);
    assert!(matches!(mailbox.wait_until(deadline), Some(Command::Look)));
    assert!(Instant::now() >= deadline, "it looked before its time");
    // One that is over already: at once, and every time.
    assert!(matches!(mailbox.wait_until(deadline), Some(Command::Look)));
    assert!(matches!(mailbox.wait_until(deadline), Some(Command::Look)));
}

#[test]
fn who_waits_for_a_deadline_is_woken_by_everything_else() {
    let asleep = |act: fn(&EngineHandle, &omlx_api::Bell)| {
        let (handle, mut mailbox) = channel(2);
        let bell = mailbox.bell();
        let (out, said) = std::sync::mpsc::channel();
        thread::spawn(move || out.send((mailbox.wait_until(Instant::now() + NEVER), mailbox)));
        thread::sleep(Duration::from_millis(20));
        act(&handle, &bell);
        said.recv_timeout(Duration::from_secs(5)).expect("it sleeps on").0
    };
    assert!(matches!(asleep(|handle, _| drop(send(handle))), Some(Command::Generate(..))));
    assert!(matches!(asleep(|_, bell| assert!(bell.ring())), Some(Command::Look)));
    assert!(asleep(|handle, _| handle.stop()).is_none());
}

/// A request is never passed over for a deadline, nor a stop for a request; a ring is told once, and not as a second look.
#[test]
fn a_deadline_comes_after_everything_else() {
    let (handle, mut mailbox) = channel(2);
    let over = Instant::now();
    assert!(mailbox.bell().ring());
    let _ticket = send(&handle).unwrap();
    assert!(matches!(mailbox.wait_until(over), Some(Command::Generate(..))));
    assert!(matches!(mailbox.wait_until(Instant::now() + NEVER), Some(Command::Look)), "the ring of before");
    let begin = Instant::now();
    assert!(matches!(mailbox.wait_until(begin + Duration::from_millis(20)), Some(Command::Look)));
    assert!(begin.elapsed() >= Duration::from_millis(20), "one ring was told twice");
    handle.stop();
    assert!(mailbox.wait_until(over).is_none());
}

/// What it waits for may still be read by somebody who holds a ticket and no handle.
#[test]
fn handles_that_are_gone_do_not_end_who_waits_for_a_deadline() {
    let (handle, mut mailbox) = channel(2);
    let ticket = send(&handle).unwrap();
    let reply = taken(&mut mailbox);
    drop(handle);
    let deadline = Instant::now() + Duration::from_millis(20);
    assert!(matches!(mailbox.wait_until(deadline), Some(Command::Look)));
    assert!(Instant::now() >= deadline);
    assert!(mailbox.wait().is_none(), "without a deadline nothing can ever come");
    drop((reply, ticket));
}
