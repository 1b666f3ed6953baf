//! Medians, ratios round by round, and a side without figures.

use super::*;

#[test]
fn a_row_shows_medians_and_the_median_ratio() {
    let of = |values: &[f64]| {
        Figures::from([("tg_b1".to_owned(), values.to_vec()), ("host_b8".to_owned(), vec![0.05, 0.021, 0.01])])
    };
    let line = row(Path::new("x/m.gguf"), &of(&[10.0, 30.0, 20.0]), Some(&of(&[20.0, 20.0, 80.0])));
    // ratios 0.5, 1.5, 0.25; seen to fail: the ratio of the medians (1.0)
    assert_eq!(line, "| m | – | – | – | – | – | – | 20 | 20 | 0.50 | – | – | – | – | 2.1 % |");
}

#[test]
fn header_and_row_have_the_same_columns() {
    for peer in [false, true] {
        let line = row(Path::new("m"), &Figures::new(), peer.then(Figures::new).as_ref());
        let columns = |l: &str| l.matches('|').count();
        assert!(header(peer).lines().all(|l| columns(l) == columns(&line)));
    }
}

#[test]
fn folders_keep_what_stands_behind_their_dots() {
    for (path, shown) in [("a/m-0.5b", "m-0.5b"), ("a/m-0.5b.Q4_1.gguf", "m-0.5b.Q4_1"), ("", "")] {
        assert_eq!(name(Path::new(path)), shown);
    }
}

#[test]
fn what_is_not_there_is_said_before_the_build() {
    let error = named(&["Cargo.toml", "no-such-model"]).unwrap_err().to_string();
    assert!(error.contains("no file or folder no-such-model"), "{error}");
    assert_eq!(named(&["Cargo.toml"]).unwrap(), [PathBuf::from("Cargo.toml")]);
}
