//! A server of our own on loopback: started, waited for, asked, ended. It does not outlive us.

pub(crate) mod http;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::children::Running;
use crate::shell::{self, Done, Failed};

/// How many ports are tried after the first one.
const PORTS_TRIED: u16 = 50;
/// How long the server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often we look whether it has answered or ended.
const LOOK: Duration = Duration::from_millis(20);

/// The first port from `first` on that nobody uses.
pub(crate) fn free_port(first: u16) -> Done<u16> {
    let last = first.saturating_add(PORTS_TRIED);
    let free = (first..=last).find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let port =
        free.ok_or_else(|| Failed::new(format!("ports {first} to {last} are all in use; name another with --port")))?;
    if port != first {
        println!("port {first} is in use, taking {port}");
    }
    Ok(port)
}

fn binary() -> Done<PathBuf> {
    Ok(shell::target_dir()?.join("release").join(format!("omlx-server{}", std::env::consts::EXE_SUFFIX)))
}

/// A running server; dropping it ends the process.
pub(crate) struct Server {
    process: Running,
    port: u16,
}

impl Server {
    pub(crate) fn start(model: &Path, port: u16, flags: &[&str]) -> Done<Self> {
        let mut command = Command::new(binary()?);
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &port.to_string()]).args(flags);
        // what it prints for those who start it by hand is not for ours; its log and its errors come through
        command.stdout(Stdio::null());
        Self::spawn(command, port)
    }

    fn spawn(mut command: Command, port: u16) -> Done<Self> {
        let process = Running::spawn_server(&mut command)
            .map_err(|e| Failed::new(format!("`{}` cannot be started: {e}", shell::typed(&command))))?;
        Ok(Self { process, port })
    }

    /// Waits until the server names its model.
    pub(crate) fn wait(&mut self) -> Done<String> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if let Some(status) = self.ended()? {
                return Err(Failed::new(format!("omlx-server ended at once ({status}); its own words are above")));
            }
            if let Ok(id) = http::first_model(self.port) {
                return Ok(id);
            }
            thread::sleep(LOOK);
        }
        Err(Failed::new(format!("omlx-server did not answer within {} s", START_LIMIT.as_secs())))
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn ended(&mut self) -> Done<Option<ExitStatus>> {
        self.process.try_wait().map_err(|e| Failed::new(format!("omlx-server: {e}")))
    }

    /// Waits for the end of the server. From now on a signal to us asks it to finish, and a second one ends it and us.
    pub(crate) fn until_it_ends(mut self) -> Done {
        self.process.serves();
        let status = self.process.wait().map_err(|e| Failed::new(format!("omlx-server: {e}")))?;
        if status.success() { Ok(()) } else { Err(Failed::new(format!("omlx-server ended ({status})"))) }
    }

    pub(crate) fn stop(mut self) -> Done {
        if let Some(status) = self.ended()? {
            return Err(Failed::new(format!("omlx-server ended by itself ({status})")));
        }
        self.process.kill().map_err(|e| Failed::new(format!("omlx-server could not be stopped: {e}")))
    }
}

#[cfg(all(test, unix))]
mod tests;
