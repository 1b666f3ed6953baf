//! The real binary on a free port of loopback, with its output kept.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, Request, get, post};

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    output: Arc<Mutex<String>>,
}

impl Server {
    /// Starts on `--port 0` with further arguments and waits for the line with the URL.
    #[track_caller]
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(command().args(["--port", "0"]).args(args))
    }

    /// Serves all models of a folder.
    #[track_caller]
    pub(crate) fn of(models: &Path, args: &[&str]) -> Self {
        Self::start_with(command().args(["--port", "0", "--model-dir"]).arg(models).args(args))
    }

    #[track_caller]
    pub(crate) fn start_with(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        keep(child.stderr.take().unwrap(), Arc::clone(&output));
        keep(child.stdout.take().unwrap(), Arc::clone(&output));
        let mut server = Self { child, port: 0, output };
        server.port = within(Duration::from_secs(60), || {
            let output = server.output();
            let exited = server.child.try_wait().unwrap();
            assert!(exited.is_none(), "the server ended: {output}");
            let url = output.lines().find_map(|l| l.strip_prefix("Listening on http://"))?;
            url.rsplit_once(':')?.1.trim_end_matches('/').parse().ok()
        });
        server
    }

    /// Everything it has printed and logged.
    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.port, path).send()
    }

    pub(crate) fn completions(&self, body: &Value) -> Request {
        post(self.port, "/v1/completions", body)
    }

    pub(crate) fn chat(&self, body: &Value) -> Request {
        post(self.port, "/v1/chat/completions", body)
    }

    /// Running and waiting requests of all models.
    pub(crate) fn busy(&self) -> (u64, u64) {
        let health = self.get("/health").ok();
        let sum = |key: &str| health["models"].as_array().unwrap().iter().map(|m| m[key].as_u64().unwrap()).sum();
        (sum("running"), sum("waiting"))
    }

    /// Waits until nothing runs or waits.
    #[track_caller]
    pub(crate) fn settle(&self, limit: Duration) {
        within(limit, || (self.busy() == (0, 0)).then_some(()));
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
    }

    #[track_caller]
    pub(crate) fn ended(&mut self, limit: Duration) -> ExitStatus {
        within(limit, || self.child.try_wait().unwrap())
    }

    /// A number in `/proc/PID/FILE` behind a label, where there is such a file.
    pub(crate) fn proc_status(&self, label: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix(label))?;
        line.split_whitespace().nth(if line.starts_with(':') { 1 } else { 0 })?.parse().ok()
    }

    /// Processor time used so far, in clock ticks.
    pub(crate) fn ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- output of the server\n{}", self.output());
        }
    }
}

/// The binary, without the key of whoever runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omlx-server"));
    command.env_remove("OMLX_API_KEY");
    command
}

/// Runs the binary to its end, which must be a failure; gives what it said.
#[track_caller]
pub(crate) fn fails(args: &[&str]) -> String {
    failure(command().args(args))
}

/// The same for a command; one that serves in place of failing is killed.
#[track_caller]
pub(crate) fn failure(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = Arc::new(Mutex::new(String::new()));
    keep(child.stderr.take().unwrap(), Arc::clone(&said));
    let mut server = Server { child, port: 0, output: said };
    assert!(!server.ended(Duration::from_secs(60)).success(), "{command:?} succeeded");
    // the pipe may hold a last line for a moment
    within(Duration::from_secs(5), || (Arc::strong_count(&server.output) == 1).then_some(()));
    server.output()
}

/// Asks again until there is an answer.
#[track_caller]
pub(crate) fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn keep(stream: impl Read + Send + 'static, output: Arc<Mutex<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut output = output.lock().unwrap();
            output.push_str(&line);
            output.push('\n');
        }
    });
}
