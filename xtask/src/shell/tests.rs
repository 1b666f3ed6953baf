//! What a cargo that we start is told.

use super::*;

/// Seen to fail: with the variables left in.
#[cfg(unix)]
#[test]
fn cargo_hears_nothing_of_who_runs_it() {
    // cargo has told this test about its package, as it tells xtask
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    assert!(std::env::vars().any(|(name, _)| ours(&name)));
    let mut command = Command::new("env");
    command.env("CARGO_TARGET_DIR", "t").env("CARGO_HOME", "h").env("CARGO_NET_OFFLINE", "true");
    as_typed(&mut command);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let names: Vec<&str> = output.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(!names.iter().any(|name| ours(name)), "{names:?}");
    for kept in ["CARGO_TARGET_DIR", "CARGO_HOME", "CARGO_NET_OFFLINE", "PATH"] {
        assert!(names.contains(&kept), "{kept}");
    }
}
