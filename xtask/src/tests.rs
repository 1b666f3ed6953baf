//! The help: all of it, and each command's own.

use super::*;

#[test]
fn every_command_has_help_of_its_own() {
    let all = help();
    for (heading, chores) in CHORES {
        assert!(all.contains(&format!("\n{heading}\n")), "{heading}");
        for chore in chores {
            let own = help_of(chore);
            assert!(all.contains(chore.help) && own.contains(chore.help), "{}", chore.name);
            assert!(own.starts_with(&format!("Usage: cargo xtask {}", chore.name)), "{own}");
            assert!(chore.help.starts_with(&format!("  {} ", chore.name)) && chore.help.ends_with('\n'), "{own}");
            let others = CHORES.iter().flat_map(|(_, chores)| chores.iter()).filter(|c| c.name != chore.name);
            // seen to fail: the whole help for each
            others.for_each(|other| assert!(!own.contains(other.help), "{own}"));
            assert!(own.lines().all(|line| line.chars().count() <= 120), "{own}");
        }
    }
}

#[test]
fn a_usage_line_names_arguments_and_options() {
    let usage = |name| help_of(find(name).unwrap()).lines().next().unwrap().to_owned();
    assert_eq!(usage("bench"), "Usage: cargo xtask bench [FILE...] [OPTIONS]");
    assert_eq!(usage("tidy"), "Usage: cargo xtask tidy");
    assert!(find("frobnicate").is_err_and(|e| e.to_string().contains("no command `frobnicate`")));
}
