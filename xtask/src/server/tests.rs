//! A signal to us ends the server too. Signals are a matter of the whole process, so each case runs in one of its own: this
//! test, started once more.
//!
//! Seen to fail: in our own process group without the list of children, the server lives on.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test, and says why")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Server;

/// Says which part the second process plays; its value is the shell script that stands for the server.
const SCRIPT: &str = "XTASK_TEST_SERVER";
const SERVING: &str = "XTASK_TEST_SERVING";
const WAITS: &str = "echo up; while :; do sleep 0.05; done";
const FINISHES: &str = "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.05; done";
const STUBBORN: &str = "trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done";

/// Not a test by itself: what the second process runs.
#[test]
fn the_second_process() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let server = Server::spawn(command, 1).unwrap();
    println!("server {}", server.pid());
    if std::env::var_os(SERVING).is_some() {
        let done = server.until_it_ends();
        std::process::exit(if done.is_ok() { 0 } else { 1 });
    }
    thread::sleep(Duration::from_secs(60));
}

/// The second process, its server, and what both print from then on.
struct Started {
    child: Child,
    server: String,
    out: BufReader<ChildStdout>,
}

impl Drop for Started {
    /// A failing test leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        signal("KILL", &self.server);
    }
}

fn started(script: &str, serving: bool) -> Started {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "server::tests::the_second_process", "--nocapture"]).env(SCRIPT, script);
    if serving {
        command.env(SERVING, "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut server, mut up, mut line) = (None, false, String::new());
    while server.is_none() || !up {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before its server was up");
        // the test's own output may stand before it on the line
        server = line.rsplit_once("server ").map(|(_, pid)| pid.trim().to_owned()).or(server);
        up |= line.trim().ends_with("up");
    }
    // `until_it_ends` comes a moment after the line
    thread::sleep(Duration::from_millis(if serving { 300 } else { 0 }));
    Started { child, server: server.unwrap(), out }
}

impl Started {
    fn signal(&self, name: &str) {
        assert!(signal(name, &self.child.id().to_string()), "it has ended already");
    }

    /// Ends within 10 seconds with `expected`, and its server with it.
    #[track_caller]
    fn ends(&mut self, expected: i32) {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed() > Duration::from_secs(10) => panic!("it does not end"),
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(!signal("KILL", &self.server), "the server lives on");
        assert_eq!(status.code(), Some(expected));
    }
}

fn signal(name: &str, pid: &str) -> bool {
    Command::new("kill").args(["-s", name, pid]).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn a_signal_during_the_start_ends_both() {
    for (name, expected) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let mut second = started(WAITS, false);
        second.signal(name);
        second.ends(expected);
    }
}

#[test]
fn a_serving_server_finishes_what_it_has_begun() {
    for name in ["TERM", "INT"] {
        let mut second = started(FINISHES, true);
        second.signal(name);
        second.ends(0);
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut second = started(STUBBORN, true);
    second.signal("INT");
    thread::sleep(Duration::from_millis(300));
    assert!(second.child.try_wait().unwrap().is_none(), "it waits for its server");
    let mut heard = String::new();
    second.out.read_line(&mut heard).unwrap();
    assert_eq!(heard, "heard\n");
    second.signal("INT");
    second.ends(130);
}
