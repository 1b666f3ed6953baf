//! Signals to us while a server of ours runs. It stands in a process group of its own, so that all of them come to us and it
//! hears of them from us alone: Ctrl-C once and not twice, and a `kill` of us too.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Process;
use crate::shell::{Done, Failed};

/// Listens from now on, before the server of `command` is started: a signal in between must not be lost.
pub(super) fn listen(command: &mut Command) -> Done<Signals> {
    command.process_group(0);
    Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).map_err(|e| Failed::new(format!("signals: {e}")))
}

/// Ends the server and ourselves when a signal comes. The first one to a server that serves lets it finish what it has begun;
/// whoever waits for it then sees it end.
pub(super) fn pass_on(mut signals: Signals, process: &Arc<Process>) {
    let process = Arc::clone(process);
    thread::spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            if process.serving.load(Ordering::SeqCst) && !asked {
                asked = true;
                finish(&process);
                continue;
            }
            // fails only where it has ended
            let _ = process.kill();
            exit(128 + signal);
        }
    });
}

/// Asks the process to finish.
fn finish(process: &Process) {
    let mut child = process.child();
    // what has ended and was waited for may have given its number to another process
    if let Ok(None) = child.try_wait() {
        // fails only where it has ended in this moment
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    }
}
