//! The real binary on a free port of loopback, with its output kept.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, Request, get, post};

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    output: Output,
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
        let output = Output::new();
        let child = command.stdout(output.pipe()).stderr(output.pipe()).spawn().unwrap();
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

    /// Everything it has printed and logged until now, in that order.
    pub(crate) fn output(&self) -> String {
        self.output.so_far()
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
    let output = Output::new();
    let child = command.stdout(Stdio::null()).stderr(output.pipe()).spawn().unwrap();
    let mut server = Server { child, port: 0, output };
    assert!(!server.ended(Duration::from_secs(60)).success(), "{command:?} succeeded");
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

/// What a process writes to one pipe, whichever of its streams it writes to: only so does the order of its lines survive.
struct Output {
    pipe: PipeWriter,
    kept: Arc<(Mutex<Kept>, Condvar)>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Marks that have come through the pipe.
    marks: usize,
    /// Marks put into it.
    put: usize,
}

/// A byte that no line has. Whatever was written before it has been read when it arrives.
const MARK: u8 = 0;

impl Output {
    fn new() -> Self {
        let (read, pipe) = std::io::pipe().unwrap();
        let kept = Arc::new((Mutex::default(), Condvar::new()));
        let to = Arc::clone(&kept);
        thread::spawn(move || keep(read, &to));
        Self { pipe, kept }
    }

    /// An end of it for a process to write to.
    fn pipe(&self) -> Stdio {
        self.pipe.try_clone().unwrap().into()
    }

    fn so_far(&self) -> String {
        let (kept, came) = &*self.kept;
        let mark = {
            let mut kept = kept.lock().unwrap();
            kept.put += 1;
            kept.put
        };
        (&self.pipe).write_all(&[MARK]).unwrap();
        let kept = came.wait_while(kept.lock().unwrap(), |kept| kept.marks < mark).unwrap();
        String::from_utf8_lossy(&kept.bytes).into_owned()
    }
}

fn keep(mut pipe: PipeReader, kept: &(Mutex<Kept>, Condvar)) {
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut part) {
        let mut all = kept.0.lock().unwrap();
        all.marks += part[..read].iter().filter(|&&byte| byte == MARK).count();
        all.bytes.extend(part[..read].iter().filter(|&&byte| byte != MARK));
        kept.1.notify_all();
    }
}
