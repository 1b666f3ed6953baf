//! One file over HTTP into a partial file that stays, from the byte reached on, checked by its sha256.
//!
//! What must stay true: the partial file only ever holds a beginning of the file, so whoever is interrupted goes on from its length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ureq::http::{Response, header};
use ureq::{Agent, Body};

use super::index::Wheel;
use crate::models::sha256;
use crate::shell::{Done, Failed};

/// How much is read at a time, and so how often the bar moves.
const CHUNK_BYTES: usize = 256 << 10;
/// Progress after which a broken connection counts as the first one again: a bad line is not a dead one.
const PROGRESS_BYTES: u64 = 1 << 20;

/// How often a cut connection is taken up again, and how long to wait before, times the number of tries.
pub(super) struct Patience {
    pub(super) tries: u32,
    pub(super) pause: Duration,
}

/// Why there is no file.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nothing comes this way; another client may have more luck.
    Elsewhere(String),
    /// No use to go on.
    Failed(Failed),
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// Why one request did not bring the rest of the file.
enum Broken {
    /// Asking again may help.
    Cut(String),
    /// The server does not want to.
    Refused(String),
    /// It is not the network.
    Failed(Failed),
}

/// What is fetched, whereto, and how long it may be at most.
pub(super) struct Transfer<'a> {
    pub(super) wheel: &'a Wheel,
    pub(super) partial: &'a Path,
    pub(super) most_bytes: u64,
    pub(super) patience: &'a Patience,
}

/// Called with the bytes that are here.
type Report<'a> = dyn FnMut(u64) + 'a;

impl Transfer<'_> {
    /// Brings the partial file to its full length and checks its sum; only then is it what was asked for.
    pub(super) fn run(&self, agent: &Agent, report: &mut Report<'_>) -> Result<(), Stop> {
        let resumed = self.arrive(agent, report)?;
        let found = sha256(self.partial)?;
        if found == self.wheel.sha256 {
            return Ok(());
        }
        fs::remove_file(self.partial).map_err(Failed::at(self.partial))?;
        // the beginning may have been another file's, or the disk's last writes before a power cut
        let found = if resumed {
            self.arrive(agent, report)?;
            sha256(self.partial)?
        } else {
            found
        };
        if found == self.wheel.sha256 {
            return Ok(());
        }
        let _ = fs::remove_file(self.partial);
        let (url, expected) = (self.wheel.address.shown(), &self.wheel.sha256);
        Err(Failed::new(format!("{url}: sha256 is {found}, the index says {expected}; it was thrown away")).into())
    }

    /// Brings the partial file to its full length; answers whether more than one request made it.
    fn arrive(&self, agent: &Agent, report: &mut Report<'_>) -> Result<bool, Stop> {
        let (mut tries, mut resumed) = (0, false);
        let mut mark = self.length()?;
        loop {
            resumed |= self.length()? > 0;
            let why = match self.attempt(agent, report) {
                Ok(()) => return Ok(resumed),
                Err(Broken::Failed(failed)) => return Err(failed.into()),
                // asking again would be refused again, so what has arrived is of no use this way
                Err(Broken::Refused(why)) => return Err(Stop::Elsewhere(self.at(&why))),
                Err(Broken::Cut(why)) => why,
            };
            let now = self.length()?;
            if now >= mark + PROGRESS_BYTES {
                (tries, mark) = (0, now);
            }
            tries += 1;
            // where nothing comes at all there is another way to try
            if tries > self.patience.tries || (now == 0 && tries > 1) {
                return Err(self.given_up(now, &why));
            }
            thread::sleep(self.patience.pause * tries);
        }
    }

    fn at(&self, why: &str) -> String {
        format!("{}: {why}", self.wheel.address.shown())
    }

    fn given_up(&self, here: u64, why: &str) -> Stop {
        let why = self.at(why);
        if here == 0 {
            return Stop::Elsewhere(why);
        }
        #[expect(clippy::cast_precision_loss, reason = "megabytes for a reader")]
        let here = here as f64 / 1e6;
        Stop::Failed(Failed::new(format!(
            "{why}; {here:.1} MB have arrived and are kept, run it again and it goes on from there"
        )))
    }

    fn length(&self) -> Done<u64> {
        match fs::metadata(self.partial) {
            Ok(m) => Ok(m.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(Failed::at(self.partial)(e)),
        }
    }

    /// One request, from the byte reached on.
    fn attempt(&self, agent: &Agent, report: &mut Report<'_>) -> Result<(), Broken> {
        let disk = |e: io::Error| Broken::Failed(Failed::at(self.partial)(e));
        let file = OpenOptions::new().create(true).append(true).open(self.partial).map_err(disk)?;
        let mut here = self.length().map_err(Broken::Failed)?;
        let answer = self.ask(agent, here)?;
        match answer.status().as_u16() {
            206 if range(&answer).is_some_and(|(first, _)| first == here) => {}
            // a server that does not know ranges: from the first byte
            200 => {
                file.set_len(0).map_err(disk)?;
                here = 0;
            }
            // nothing lies behind the byte reached; whether that is the whole file, its sum says
            416 if here > 0 => return Ok(()),
            206 => {
                file.set_len(0).map_err(disk)?;
                return Err(Broken::Cut("the server answered another range than was asked for".to_owned()));
            }
            status @ (429 | 500..) => return Err(Broken::Cut(format!("the server answered {status}"))),
            status => return Err(Broken::Refused(format!("the server answered {status}"))),
        }
        let total = range(&answer).and_then(|(_, total)| total);
        self.receive(answer, (file, here, total), report)
    }

    fn ask(&self, agent: &Agent, from: u64) -> Result<Response<Body>, Broken> {
        let address = &self.wheel.address;
        // identity: a range of a compressed body is of no use
        let mut request = agent.get(address.url()).header(header::ACCEPT_ENCODING, "identity");
        if let Some(authorization) = address.authorization() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        let answer = request.config().https_only(address.is_https()).build().call();
        answer.map_err(|e| Broken::Cut(e.to_string()))
    }

    /// Appends a body; never more than a file of this kind has, whatever the server sends.
    fn receive(
        &self,
        answer: Response<Body>,
        (mut file, mut here, total): (File, u64, Option<u64>),
        report: &mut Report<'_>,
    ) -> Result<(), Broken> {
        let disk = |e: io::Error| {
            let why = Failed::at(self.partial)(e);
            Broken::Failed(Failed::new(format!(
                "{why}; what has arrived is kept, run it again and it goes on from there"
            )))
        };
        let mut body = answer.into_body().into_reader();
        let mut chunk = vec![0; CHUNK_BYTES];
        report(here);
        loop {
            let n = match body.read(&mut chunk) {
                Ok(0) if total.is_some_and(|total| here < total) => {
                    return Err(Broken::Cut("the connection was cut".to_owned()));
                }
                Ok(0) => return file.sync_all().map_err(disk),
                Ok(n) => n,
                Err(e) => return Err(Broken::Cut(format!("the connection was cut ({e})"))),
            };
            if here + n as u64 > self.most_bytes {
                // it would be taken for a beginning of the file next time
                file.set_len(0).map_err(disk)?;
                let (url, most) = (self.wheel.address.shown(), self.most_bytes);
                return Err(Broken::Failed(Failed::new(format!(
                    "{url}: more than {most} bytes came; that is another file"
                ))));
            }
            file.write_all(&chunk[..n]).map_err(disk)?;
            here += n as u64;
            report(here);
        }
    }
}

/// The first byte of an answer's range and the file's length, where they are told.
fn range(answer: &Response<Body>) -> Option<(u64, Option<u64>)> {
    let range = answer.headers().get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (bytes, total) = range.split_once('/')?;
    Some((bytes.split('-').next()?.trim().parse().ok()?, total.trim().parse().ok()))
}
