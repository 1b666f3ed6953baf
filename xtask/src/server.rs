//! A server of our own on loopback: started, waited for, asked, ended.

pub(crate) mod http;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::shell::{self, Done, Failed};

/// How many ports are tried after the first one.
const PORTS_TRIED: u16 = 50;
/// How long the server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

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
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(model: &Path, port: u16, flags: &[&str]) -> Done<Self> {
        let mut command = Command::new(binary()?);
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &port.to_string()]).args(flags);
        let child =
            command.spawn().map_err(|e| Failed::new(format!("`{}` cannot be started: {e}", shell::typed(&command))))?;
        Ok(Self { child, port })
    }

    /// Waits until the server names its model.
    pub(crate) fn wait(&mut self) -> Done<String> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failed::new(format!("omlx-server ended at once ({status}); its own words are above")));
            }
            if let Ok(id) = http::first_model(self.port) {
                return Ok(id);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(Failed::new(format!("omlx-server did not answer within {} s", START_LIMIT.as_secs())))
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the server. Ctrl-C reaches it as it reaches us, and it ends by itself.
    pub(crate) fn until_it_ends(&mut self) -> Done {
        let status = self.child.wait().map_err(|e| Failed::new(format!("omlx-server: {e}")))?;
        if status.success() { Ok(()) } else { Err(Failed::new(format!("omlx-server ended ({status})"))) }
    }

    pub(crate) fn stop(&mut self) -> Done {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(Failed::new(format!("omlx-server ended by itself ({status})")));
        }
        let stopped = self.child.kill().and_then(|()| self.child.wait());
        stopped.map(drop).map_err(|e| Failed::new(format!("omlx-server could not be stopped: {e}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // both fail only where the process has ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
