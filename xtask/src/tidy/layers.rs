//! Who may look at whom: the table of the house, checked against `cargo metadata`.

use serde_json::Value;

use super::Finding;

/// A crate's place in the house.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    layer: u8,
    /// The crates of ours it may depend on.
    ours: &'static [&'static str],
}

const fn room(name: &'static str, layer: u8, ours: &'static [&'static str]) -> Room {
    Room { name, layer, ours }
}

/// Any crate of ours below it.
const ANY: &[&str] = &["*"];

/// The house, lowest layer first. `omlx-gguf` lies below all: even the other rooms of layer 0 may look at it.
pub(crate) const LAYERS: &[Room] = &[
    room("omlx-gguf", 0, &[]),
    room("omlx-kernels", 0, &[]),
    room("omlx-blocks", 0, &[]),
    room("omlx-api", 0, &[]),
    room("omlx-markup", 0, &[]),
    room("omlx-text", 0, &["omlx-gguf"]),
    room("omlx-hub", 0, &["omlx-gguf"]),
    room("omlx-ops", 1, &["omlx-kernels", "omlx-blocks"]),
    room("omlx-sched", 1, &["omlx-blocks"]),
    room("omlx-kv", 2, &["omlx-ops", "omlx-blocks"]),
    room("omlx-models", 3, &["omlx-kv", "omlx-ops", "omlx-gguf"]),
    room("omlx-quant", 4, &["omlx-models", "omlx-ops"]),
    room("omlx-engine", 4, &["omlx-models", "omlx-kv", "omlx-sched", "omlx-blocks", "omlx-api"]),
    room("omlx-http", 4, &["omlx-api", "omlx-markup", "omlx-text"]),
    room("omlx-admin", 5, &["omlx-http", "omlx-api", "omlx-hub"]),
    room("omlx-server", 6, ANY),
    room("omlx-quantize", 6, ANY),
    room("omlx-fixtures", 0, &[]),
    room("xtask", 6, &["omlx-gguf", "omlx-hub"]),
];

/// Outside crates that only some rooms may have: the names' beginnings, and the rooms. Rooms of layer 6 are the apps and may have all.
const HEAVY: &[(&[&str], &[&str])] = &[
    (&["candle-"], &["omlx-ops", "omlx-kv", "omlx-models", "omlx-quant", "omlx-engine"]),
    (&["tokio"], &["omlx-api", "omlx-engine", "omlx-http", "omlx-admin"]),
    (
        &["serde_json"],
        &[
            "omlx-http",
            "omlx-markup",
            "omlx-text",
            "omlx-hub",
            "omlx-models",
            "omlx-quant",
            "omlx-admin",
            "omlx-fixtures",
        ],
    ),
    (&["axum"], &["omlx-http", "omlx-admin"]),
    (&["ureq", "hf-hub", "reqwest", "hyper"], &["omlx-http", "omlx-hub"]),
    (&["anyhow", "clap", "tracing-subscriber"], &[]),
];

/// A package of the workspace and what it depends on.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) dependencies: Vec<Dependency>,
}

pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) dev: bool,
    /// Whether it is a crate of this workspace.
    pub(super) ours: bool,
    /// Whether a version stands beside the path.
    pub(super) versioned: bool,
}

/// Reads what `cargo metadata` says.
pub(super) fn packages(metadata: &Value) -> Vec<Package> {
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let name = |v: &Value| v["name"].as_str().unwrap_or_default().to_owned();
    let dependency = |d: &Value| Dependency {
        name: name(d),
        dev: d["kind"] == "dev",
        ours: d["path"].is_string(),
        versioned: d["req"] != "*",
    };
    let package =
        |p: &Value| Package { name: name(p), dependencies: list(&p["dependencies"]).iter().map(dependency).collect() };
    list(&metadata["packages"]).iter().map(package).collect()
}

/// Every arrow that the table does not have.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in packages {
        let Some(room) = LAYERS.iter().find(|r| r.name == package.name) else {
            found.push(Finding::new(
                &package.name,
                "has no place in the table of layers; add it to xtask/src/tidy/layers.rs and to the plan",
            ));
            continue;
        };
        for to in &package.dependencies {
            let rule = if to.ours { ours(room, to) } else { heavy(room, to) };
            found.extend(rule.map(|rule| Finding::new(&package.name, rule)));
        }
    }
    found
}

/// A dependency on a crate of this workspace.
fn ours(room: &Room, to: &Dependency) -> Option<String> {
    let name = &to.name;
    // a versioned dev-dependency would have to be published first, and may not be at all
    if to.dev && to.versioned {
        return Some(format!("dev-dependency {name} carries a version; give its path alone"));
    }
    if !to.dev && !to.versioned {
        return Some(format!("dependency {name} carries no version; write {name}.workspace = true"));
    }
    let target = LAYERS.iter().find(|r| r.name == name)?;
    if name == "omlx-fixtures" {
        return (!to.dev).then(|| format!("{name} is for tests; make it a dev-dependency"));
    }
    if to.dev {
        return (target.layer > room.layer).then(|| format!("dev-dependency {name} is in a higher layer"));
    }
    let listed = room.ours == ANY || room.ours.contains(&name.as_str());
    (!listed || !lies_below(target, room)).then(|| format!("may not depend on {name}"))
}

fn lies_below(lower: &Room, upper: &Room) -> bool {
    lower.layer < upper.layer || (lower.name == "omlx-gguf" && upper.name != "omlx-gguf")
}

/// A dependency on an outside crate. Tests may use what they like.
fn heavy(room: &Room, to: &Dependency) -> Option<String> {
    let (_, rooms) = HEAVY.iter().find(|(names, _)| names.iter().any(|n| to.name.starts_with(n)))?;
    let may = to.dev || room.layer == 6 || rooms.contains(&room.name);
    (!may).then(|| format!("may not use {}", to.name))
}
