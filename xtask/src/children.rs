//! Programs that we start and that do not outlive us: whoever ends this process ends them too.
//!
//! Each stands in a process group of its own with all that it starts in turn, so that signals come to us and it hears of them
//! from us alone: Ctrl-C once and not twice, and a `kill` of us too. It has no input, since only the terminal's own group may read.

#[cfg(unix)]
mod signals;

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;

/// A running program; dropping it kills it.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `command`; a signal to us asks it and its group to end, and those who do not are killed.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        #[cfg(unix)]
        return signals::spawn(command, signals::Manner::Asked).map(Self);
        #[cfg(not(unix))]
        command.spawn().map(Self)
    }

    /// Starts `command`; a signal to us kills it at once, unless it [serves](Self::serves) by then.
    pub(crate) fn spawn_server(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        #[cfg(unix)]
        return signals::spawn(command, signals::Manner::Killed).map(Self);
        #[cfg(not(unix))]
        command.spawn().map(Self)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// It serves somebody else now: the first signal to us asks it to finish, and we go on; a second one kills it and us.
    pub(crate) fn serves(&self) {
        #[cfg(unix)]
        signals::serves(&self.0);
    }

    /// Its status, if it has ended.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        #[cfg(unix)]
        return signals::reap(&mut self.0);
        #[cfg(not(unix))]
        self.0.try_wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        loop {
            signals::wait(&self.0)?;
            if let Some(status) = signals::reap(&mut self.0)? {
                return Ok(status);
            }
        }
        #[cfg(not(unix))]
        self.0.wait()
    }

    /// Ends it at once, and waits for that. Nothing happens where it has ended.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        if self.try_wait()?.is_none() {
            self.0.kill()?;
            self.wait()?;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // fails only where it has ended
        let _ = self.kill();
    }
}

/// Runs a command to its end, its output going where ours goes.
pub(crate) fn status(command: &mut Command) -> io::Result<ExitStatus> {
    Running::spawn(command)?.wait()
}

/// Runs a command to its end and keeps what it prints.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let mut running = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let errors = running.0.stderr.take();
    // both at once: a full pipe stops who writes into it
    let errors = thread::spawn(move || read(errors));
    let stdout = read(running.0.stdout.take())?;
    let stderr = errors.join().map_err(|_| io::Error::other("the reader panicked"))??;
    Ok(Output { status: running.wait()?, stdout, stderr })
}

fn read(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests;
