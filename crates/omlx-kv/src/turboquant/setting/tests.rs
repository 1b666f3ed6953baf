//! Settings as users write them, and the groups that come of them.

use candle_core::DType;

use super::*;

fn turbo(keys: Width, values: Width) -> KvBits {
    KvBits::Turbo { keys, values }
}

#[test]
fn widths_are_read() {
    use Width::*;
    let cases = [
        ("off", KvBits::Off),
        ("8", turbo(Eight, Eight)),
        ("6", turbo(Six, Six)),
        ("4", turbo(Four, Four)),
        ("3.5", turbo(Four, Three)),
        ("3", turbo(Three, Three)),
        ("2.5", turbo(Three, Two)),
        ("2", turbo(Two, Two)),
        ("k=4,v=3", turbo(Four, Three)),
        (" v=2 , k=8 ", turbo(Eight, Two)),
    ];
    for (text, expected) in cases {
        let read: KvBits = text.parse().unwrap();
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.to_string().parse::<KvBits>().unwrap(), expected);
    }
}

/// What was found is named, and what would be right. Seen to fail: a second `k=` that wins.
#[test]
fn others_are_refused_by_name() {
    let cases = [
        ("5", "`5`"),
        ("", "``"),
        ("on", "`on`"),
        ("k=4", "no v="),
        ("v=4", "no k="),
        ("k=4,v=5", "`5`"),
        ("k=4,v=3,k=4", "`k=4`"),
        ("k=4,w=3", "`w=3`"),
        ("k=4;v=3", "`4;v=3`"),
        ("4.0", "`4.0`"),
        ("-4", "`-4`"),
    ];
    for (text, named) in cases {
        let said = text.parse::<KvBits>().unwrap_err().to_string();
        assert!(said.contains(named), "{said}");
        assert!(said.contains("k=4,v=3") && said.contains("off"), "{said}");
    }
}

fn group(layers: impl IntoIterator<Item = usize>, reach: Reach, dim: usize) -> KvGroup {
    KvGroup { layers: layers.into_iter().collect(), heads: 2, dim, reach, codec: Codec::Plain(DType::BF16) }
}

fn coded(groups: Vec<KvGroup>, store: KvStore) -> Vec<(Vec<usize>, bool)> {
    let layout = store.apply(KvLayout { groups });
    layout.groups.into_iter().map(|g| (g.layers, matches!(g.codec, Codec::Turbo(_)))).collect()
}

/// Seen to fail: a window coded unasked.
#[test]
fn ends_and_windows_stay_plain() {
    let four = KvStore { bits: turbo(Width::Four, Width::Four), ..KvStore::default() };
    let all = |layers: std::ops::Range<usize>| vec![group(layers, Reach::All, 64)];
    assert_eq!(coded(all(0..24), KvStore::default()), [((0..24).collect(), false)]);
    assert_eq!(coded(all(0..24), four), [(vec![0, 1, 22, 23], false), ((2..22).collect(), true)]);
    assert_eq!(coded(all(0..4), four), [(vec![0, 3], false), (vec![1, 2], true)]);
    assert_eq!(coded(all(0..3), four), [(vec![0, 1, 2], true)]);
    assert_eq!(coded(all(0..4), KvStore { ends: Some(0), ..four }), [(vec![0, 1, 2, 3], true)]);
    assert_eq!(coded(all(0..4), KvStore { ends: Some(2), ..four }), [(vec![0, 1, 2, 3], false)]);
    assert_eq!(coded(all(0..5), KvStore { ends: Some(9), ..four }), [(vec![0, 1, 2, 3, 4], false)]);
    // a model with windows, and full layers of two sizes
    let mixed = || {
        vec![
            group([0, 1, 3, 4], Reach::Last(512), 64),
            group([2, 5, 8, 11], Reach::All, 64),
            group([14, 17, 20, 23], Reach::All, 128),
        ]
    };
    let plain = |layers: Vec<usize>| (layers, false);
    assert_eq!(
        coded(mixed(), four),
        [plain(vec![0, 1, 3, 4]), plain(vec![2, 5]), (vec![8, 11], true), plain(vec![20, 23]), (vec![14, 17], true)]
    );
    let windows = KvStore { windows: true, ..four };
    assert_eq!(coded(mixed(), windows)[0], (vec![0, 1, 3, 4], true));
    assert_eq!(coded(vec![group(0..8, Reach::All, 2048)], four), [plain((0..8).collect())]);
}
