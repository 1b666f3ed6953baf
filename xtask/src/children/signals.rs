//! All children that run, and what a signal to us does to them.
//!
//! One lock guards the list: children are started, waited for and signalled under it, so that a number is never signalled after
//! the system has given it to another process. Whoever ends us keeps the lock, so that nothing more is begun.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long those who were asked may take: nextest gives its tests 10 seconds.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often we look whether they have ended.
const LOOK: Duration = Duration::from_millis(20);

/// What a signal to us does to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Its group gets the same signal, and is killed if it stays.
    Asked,
    /// Its group is killed.
    Killed,
    /// It is asked to finish, and we go on; the next signal kills it.
    Serves,
}

#[derive(Debug)]
struct Entry {
    pid: Pid,
    manner: Manner,
}

struct All {
    entries: Vec<Entry>,
    listening: bool,
}

static ALL: Mutex<All> = Mutex::new(All { entries: Vec::new(), listening: false });

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child. We listen before it begins: a signal in between is not lost.
pub(super) fn spawn(command: &mut Command, manner: Manner) -> io::Result<Child> {
    let mut all = all();
    if !all.listening {
        let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        thread::spawn(move || listen(signals));
        all.listening = true;
    }
    let child = command.process_group(0).spawn()?;
    all.entries.push(Entry { pid: Pid::from_child(&child), manner });
    Ok(child)
}

/// From now on it serves.
pub(super) fn serves(child: &Child) {
    let pid = Pid::from_child(child);
    all().entries.iter_mut().filter(|entry| entry.pid == pid).for_each(|entry| entry.manner = Manner::Serves);
}

/// A child's status if it has ended, which then leaves the list.
pub(super) fn reap(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let mut all = all();
    let status = child.try_wait()?;
    if status.is_some() {
        let pid = Pid::from_child(child);
        all.entries.retain(|entry| entry.pid != pid);
    }
    Ok(status)
}

/// Waits until a child has ended and leaves its status to [`reap`].
pub(super) fn wait(child: &Child) -> io::Result<()> {
    match waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        Ok(_) | Err(rustix::io::Errno::CHILD | rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn listen(mut signals: Signals) {
    loop {
        let heard: Vec<i32> = signals.wait().collect();
        for signal in heard {
            let mut all = all();
            match all.entries.iter_mut().find(|entry| entry.manner == Manner::Serves) {
                Some(serving) => {
                    serving.manner = Manner::Killed;
                    // fails only where it has ended
                    let _ = kill_process(serving.pid, Signal::TERM);
                }
                None => end(&all, signal, &mut signals),
            }
        }
    }
}

/// Ends all children and us.
fn end(all: &All, signal: i32, signals: &mut Signals) {
    let own = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        SIGQUIT => Signal::QUIT,
        _ => Signal::TERM,
    };
    let send = |signal: Signal, to: &dyn Fn(&Entry) -> bool| {
        // fails only where the whole group has ended
        for entry in all.entries.iter().filter(|entry| to(entry)) {
            let _ = kill_process_group(entry.pid, signal);
        }
    };
    send(Signal::KILL, &|entry| entry.manner == Manner::Killed);
    send(own, &|entry| entry.manner == Manner::Asked);
    let begin = Instant::now();
    // a second signal is for those who do not want to wait
    while all.entries.iter().any(stays) && begin.elapsed() < PATIENCE && signals.pending().next().is_none() {
        thread::sleep(LOOK);
    }
    // also what a child that has ended has left behind: its group keeps its number as long as we have not waited for it
    send(Signal::KILL, &|_| true);
    while all.entries.iter().any(stays) && begin.elapsed() < 2 * PATIENCE {
        thread::sleep(LOOK);
    }
    for entry in &all.entries {
        // who looks for them after us finds nothing of them
        let _ = waitid(WaitId::Pid(entry.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
    exit(128 + signal);
}

/// Whether it has not ended yet.
fn stays(entry: &Entry) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(entry.pid), look), Ok(None))
}
