//! A signal to us ends what we run, and what that runs in turn. Signals are a matter of the whole process, so each case runs in one
//! of its own: this test, started once more.
//!
//! Seen to fail: with `Command::status` in the place of `status`, all of them live on.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test, and says why")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{output, status};

/// Says which part the second process plays; its value is the shell script that it runs.
const SCRIPT: &str = "XTASK_TEST_CHILD";
/// A child and a grandchild, as cargo and rustc are.
const BUILDS: &str = "sh -c 'while :; do sleep 0.05; done' & echo up $$ $!; wait";
const STUBBORN: &str = "trap '' TERM INT; echo up $$ $$; while :; do sleep 0.05; done";

/// Not a test by itself: what the second process runs.
#[test]
fn the_second_process() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let _ = status(Command::new("sh").args(["-c", &script]));
    // what comes after a step that was ended must not begin
    println!("next");
    let _ = status(Command::new("sh").args(["-c", "sleep 1"]));
}

struct Started {
    second: Child,
    pids: Vec<String>,
    out: BufReader<std::process::ChildStdout>,
}

impl Drop for Started {
    /// A failing test leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.second.kill();
        let _ = self.second.wait();
        for pid in &self.pids {
            signal("KILL", pid);
        }
    }
}

fn started(script: &str) -> Started {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "children::tests::the_second_process", "--nocapture"]).env(SCRIPT, script);
    let mut second = command.stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(second.stdout.take().unwrap());
    let mut started = Started { second, pids: Vec::new(), out };
    let mut line = String::new();
    while started.pids.is_empty() {
        line.clear();
        assert!(started.out.read_line(&mut line).unwrap() > 0, "it ended before its child was up");
        // the test's own output may stand before it on the line
        if let Some((_, pids)) = line.rsplit_once("up ") {
            started.pids = pids.split_whitespace().map(str::to_owned).collect();
        }
    }
    started
}

fn signal(name: &str, pid: &str) -> bool {
    Command::new("kill").args(["-s", name, pid]).stderr(Stdio::null()).status().unwrap().success()
}

impl Started {
    fn signal(&self, name: &str) {
        assert!(signal(name, &self.second.id().to_string()), "it has ended already");
    }

    /// Ends within `limit` with `expected`, with all below it, and begins nothing more.
    #[track_caller]
    fn ends(&mut self, limit: Duration, expected: i32) {
        let begin = Instant::now();
        let status = loop {
            match self.second.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed() > limit => panic!("it does not end"),
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let lives: Vec<&String> = self.pids.iter().filter(|pid| lives(pid)).collect();
        assert!(lives.is_empty(), "{lives:?} live on");
        assert_eq!(status.code(), Some(expected));
        let mut rest = String::new();
        self.out.read_line(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

/// Whether it runs. One that has ended may not have been waited for yet, if the one who has to is slow.
fn lives(pid: &str) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn a_signal_ends_a_step_and_what_it_has_started() {
    for (name, expected) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let mut second = started(BUILDS);
        second.signal(name);
        second.ends(Duration::from_secs(5), expected);
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut second = started(STUBBORN);
    second.signal("INT");
    thread::sleep(Duration::from_millis(300));
    assert!(second.second.try_wait().unwrap().is_none(), "it gives its child time");
    second.signal("INT");
    second.ends(Duration::from_secs(5), 130);
}

#[test]
fn what_a_command_prints_is_kept_apart_and_whole() {
    let script = "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; exit 3";
    let output = output(Command::new("sh").args(["-c", script])).unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len(), output.status.code()), (200_000, 300_000, Some(3)));
}
