//! `demo`: from nothing to a running server in one command.

mod chat;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::models;
use crate::shell::{self, Done, Failed, Flags};

/// The model a demonstration uses: the smallest that holds a conversation.
const MODEL: &str = "smollm2-135m-instruct";
/// The first port to try, and how many to try after it.
const FIRST_PORT: u16 = 8000;
const PORTS_TRIED: u16 = 50;
/// How long the server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// `cargo xtask demo`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let once = flags.switch("--once");
    let first = match flags.value("--port")? {
        Some(text) => text.parse().map_err(|_| Failed::usage(format!("--port: `{text}` is no port")))?,
        None => FIRST_PORT,
    };
    flags.end()?;

    let model = models::ensure(MODEL)?;
    println!("building omlx-server (release) ...");
    shell::run(&mut shell::cargo(["build", "--release", "--package", "omlx-server"]))?;
    let port = free_port(first)?;
    let mut server = Server::start(&model, port)?;
    let id = server.wait()?;
    if once {
        let answer = chat::ask(port, &id, "In one sentence: what is a library?")?;
        println!("{answer}");
        return server.stop();
    }
    println!("{}", invitation(port, &id));
    server.until_it_ends()
}

/// The first port from `first` on that nobody uses.
fn free_port(first: u16) -> Done<u16> {
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
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(model: &Path, port: u16) -> Done<Self> {
        let mut command = Command::new(binary()?);
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        let child =
            command.spawn().map_err(|e| Failed::new(format!("`{}` cannot be started: {e}", shell::typed(&command))))?;
        Ok(Self { child, port })
    }

    /// Waits until the server names its model.
    fn wait(&mut self) -> Done<String> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failed::new(format!("omlx-server ended at once ({status}); its own words are above")));
            }
            if let Ok(id) = chat::first_model(self.port) {
                return Ok(id);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(Failed::new(format!("omlx-server did not answer within {} s", START_LIMIT.as_secs())))
    }

    /// Waits for the end of the server. Ctrl-C reaches it as it reaches us, and it ends by itself.
    fn until_it_ends(&mut self) -> Done {
        let status = self.child.wait().map_err(|e| Failed::new(format!("omlx-server: {e}")))?;
        if status.success() { Ok(()) } else { Err(Failed::new(format!("omlx-server ended ({status})"))) }
    }

    fn stop(&mut self) -> Done {
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

fn invitation(port: u16, id: &str) -> String {
    format!(
        r#"
omlx is ready on http://127.0.0.1:{port}/v1 with {id}. Ctrl-C ends it. In another terminal:

curl -N http://127.0.0.1:{port}/v1/chat/completions -H 'content-type: application/json' -d '{{
  "model": "{id}", "stream": true, "max_tokens": 200,
  "messages": [{{"role": "user", "content": "Tell me a short story about a lighthouse."}}]}}'

Or with the official client (pip install openai):

from openai import OpenAI
client = OpenAI(base_url="http://127.0.0.1:{port}/v1", api_key="none")
for piece in client.chat.completions.create(
        model="{id}", stream=True, max_tokens=200,
        messages=[{{"role": "user", "content": "Tell me a short story about a lighthouse."}}]):
    print(piece.choices[0].delta.content or "", end="", flush=True)
"#
    )
}

#[cfg(test)]
mod tests;
