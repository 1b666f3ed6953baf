//! What happens between the configuration and the first request, and what the user gets to read of it.
//!
//! The port is opened first, so that a mistake there costs no loading time; clients that come early wait in its queue.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use omlx_engine::guard::{Guard, System};
use omlx_http::{Card, Catalog as _};
use tracing::level_filters::LevelFilter;

use crate::catalog::Catalog;
use crate::cli::LogLevel;
use crate::config::{Access, Resolved};
use crate::find::{Finds, find};
use crate::limit::connections;
use crate::serve::{Ending, Served, bind, serve, signals};
use crate::shown::{Lines, shown};

/// Sends the log to the standard error. Neither prompts nor answers nor keys are ever logged.
pub(crate) fn log(level: LogLevel) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Other crates below warnings are their authors' matter: some would log what a connection carries.
    let filter = tracing_subscriber::EnvFilter::new(format!("warn,omlx={level}"));
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_writer(|| Lines(std::io::stderr()))
        .with_ansi(colour)
        .with_env_filter(filter)
        .with_target(false)
        // A log that cannot be written, on a full disk or into a pipe that nobody reads, is no reason to stop answering: the
        // line is lost. Reporting that on the same standard error would panic.
        .log_internal_errors(false)
        .init();
}

/// Opens the port, finds and loads the models, answers until told to stop.
pub(crate) async fn run(resolved: Resolved) -> Result<Ending> {
    let mut signals = signals()?;
    let connections = connections()?;
    let (listener, address) = bind(&resolved.host, resolved.port, &resolved.access).await?;
    let resolved = Arc::new(resolved);
    let prepare = async {
        let looking = Arc::clone(&resolved);
        // Both ask the file system, which may take its time.
        let shelved = move || {
            let finds = find(&looking)?;
            let given = finds.given.clone();
            anyhow::Ok((shelve(finds, &looking)?, given))
        };
        let (catalog, given) = tokio::task::spawn_blocking(shelved).await??;
        load(&catalog, &given).await?;
        anyhow::Ok(catalog)
    };
    // Fetching and loading may take minutes, and whoever wants to stop then has nobody to wait for.
    let catalog = tokio::select! {
        catalog = prepare => catalog?,
        Some(()) = signals.recv() => {
            tracing::info!("stopped before the start was complete");
            return Ok(Ending::Clean);
        }
    };
    if let Err(error) = announce(&resolved, &catalog, address) {
        tracing::warn!("the standard output cannot be written ({error}); listening on http://{}", reachable(address));
    }
    let app = omlx_http::router(Arc::new(catalog.clone()), front_door(&resolved));
    let begin = Instant::now();
    let served = serve((listener, connections), app, signals, || catalog.close(), || catalog.stop()).await;
    let tokens: u64 = catalog.engines().iter().map(|(_, engine)| engine.snapshot().generated_tokens).sum();
    catalog.put_away().await;
    let Served { ending, requests, answered } = served;
    tracing::info!(
        requests,
        unfinished = requests - answered.min(requests),
        tokens,
        up_s = begin.elapsed().as_secs(),
        "stopped"
    );
    Ok(ending)
}

fn shelve(finds: Finds, resolved: &Resolved) -> Result<Catalog> {
    let guard = resolved.guard.limits.map(|limits| Guard::new(limits, Box::new(System)));
    let tiers = resolved.caching.open(guard.as_ref().map(|guard| guard.room()))?;
    let catalog = Catalog::new(finds.models, resolved.settings, resolved.device.clone(), guard, tiers);
    if catalog.cards().is_empty() {
        let dirs: Vec<String> = resolved.model_dirs.iter().map(|d| shown(&d.to_string_lossy()).into_owned()).collect();
        bail!("no model in {}; a model is a folder with config.json, or a .gguf file", dirs.join(", "));
    }
    for (name, settings) in &resolved.model_settings {
        if let Err(error) = catalog.set(name, settings) {
            let names: Vec<String> = catalog.cards().into_iter().take(10).map(|card| card.id).collect();
            bail!("--set {}: {error}; models here: {}", shown(name), names.join(", "));
        }
    }
    Ok(catalog)
}

/// Loads the models that were named on the command line. It is enough that one model can be served, loaded or not. What finds no memory now
/// may find it later, but a server that has nothing else would invite to questions that it cannot answer.
async fn load(catalog: &Catalog, given: &[String]) -> Result<()> {
    for id in given {
        // What fails is in the catalog, with the reason.
        let _ = catalog.open(id).await;
    }
    if catalog.servable() == 0 {
        // Most reasons begin with the path, which ends in the name.
        let says = |id: &str, why: &str| {
            let place = why.split(": ").next().unwrap_or_default();
            place.trim_end_matches(".gguf").ends_with(id)
        };
        let line = |(id, why): &(&str, String)| if says(id, why) { why.clone() } else { format!("{id}: {why}") };
        // Each on a line of its own, whatever is in a path.
        let why: Vec<String> = catalog.failures().iter().map(|failure| shown(&line(failure)).into_owned()).collect();
        bail!("no model can be served, so the server does not start\n  {}", why.join("\n  "));
    }
    catalog.started();
    Ok(())
}

/// The URL, what was resolved, and something to try.
fn announce(resolved: &Resolved, catalog: &Catalog, address: SocketAddr) -> Result<()> {
    let cards = catalog.cards();
    let (sound, bad): (Vec<_>, Vec<_>) = cards.iter().partition(|card| card.trouble.is_none());
    let failed: Vec<&str> = catalog.failures().iter().map(|(id, _)| *id).collect();
    // What found no memory stays in the list, since it may find it later, but nobody is invited to ask it now.
    let (late, good): (Vec<_>, Vec<_>) = sound.into_iter().partition(|card| failed.contains(&card.id.as_str()));
    let named = |card: &&Card| match card.context {
        Some(context) => format!("{} (loaded, context {context})", card.id),
        None => card.id.clone(),
    };
    let names: Vec<String> = good.iter().copied().take(10).map(|card| named(&card)).collect();
    let more = if good.len() > names.len() { format!(" and {} more", good.len() - names.len()) } else { String::new() };
    let key =
        if matches!(resolved.access, Access::Key(_)) { " -H \"authorization: Bearer $OMLX_API_KEY\"" } else { "" };
    let mut out = std::io::stdout().lock();
    writeln!(out, "omlx-server {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  models          {}{more}", names.join(", "))?;
    if !late.is_empty() {
        let ids: Vec<&str> = late.iter().map(|card| card.id.as_str()).collect();
        writeln!(out, "  not loaded      {}: no memory now (the log says more)", ids.join(", "))?;
    }
    if !bad.is_empty() {
        writeln!(out, "  not offered     {} (the log says why)", bad.len())?;
    }
    writeln!(out, "{resolved}")?;
    let url = format!("http://{}", reachable(address));
    if address.ip().is_unspecified() {
        writeln!(out, "  other machines  are let in, on every address of this one, port {}", address.port())?;
    }
    writeln!(out, "Listening on {url}")?;
    // Of a model that is not loaded nobody knows yet whether it can chat.
    let chatting = good.iter().find(|card| catalog.chats(&card.id));
    if let Some(card) = chatting.or(good.first()) {
        let name = card.id.replace('\'', "");
        let (route, ask) = match chatting {
            Some(_) => ("chat/completions", r#""messages": [{"role": "user", "content": "Hi"}], "temperature": 0.2"#),
            None => ("completions", r#""prompt": "Once upon a time", "max_tokens": 32"#),
        };
        writeln!(out, "Try: curl {url}/v1/{route}{key} -H 'content-type: application/json' \\")?;
        writeln!(out, "  -d '{{\"model\": \"{name}\", {ask}}}'")?;
    }
    out.flush()?;
    Ok(())
}

/// An address that a client on this machine can use: the one that means "all" is none.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

fn front_door(resolved: &Resolved) -> omlx_http::Config {
    let (api_key, hosts) = match &resolved.access {
        Access::Key(key) => (Some(key.clone()), None),
        Access::Anyone => (None, None),
        // A web page whose name was pointed at this machine must not read the answers.
        Access::ThisMachine => {
            let mut hosts = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).to_vec();
            hosts.push(resolved.host.clone());
            (None, Some(hosts))
        }
    };
    omlx_http::Config { api_key, hosts, ..omlx_http::Config::default() }
}
