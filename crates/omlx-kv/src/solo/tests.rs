//! Any cutting into steps gives the attention of one long step; too many tokens are refused and nothing changes.

use candle_core::{DType, Tensor};
use omlx_ops::{Attend, Reach};

use super::*;
use crate::{Codec, Error, KvGroup};

fn layout(reach: Reach) -> KvLayout {
    let codec = Codec::Plain(DType::F32);
    KvLayout { groups: vec![KvGroup { layers: vec![0], heads: 2, dim: 8, reach, codec }] }
}

/// Outputs of the next `tokens` tokens.
fn feed(solo: &mut Solo, x: &[Tensor; 3], reach: Reach, tokens: usize) -> Vec<Vec<Vec<f32>>> {
    let how = Attend { scale: 0.5, reach, softcap: None, sinks: None };
    let start = solo.tokens().len();
    let batch = solo.step(&vec![7; tokens], 1).unwrap();
    let layer = solo.cache().layer(0, &batch);
    let [q, k, v] = x.each_ref().map(|x| x.narrow(0, start, tokens).unwrap());
    layer.write(&k, &v).unwrap();
    layer.attend(&q, &how).unwrap().to_vec3::<f32>().unwrap()
}

/// Outputs of all tokens, run in the given cuts.
fn run(reach: Reach, x: &[Tensor; 3], cuts: &[usize]) -> Vec<Vec<Vec<f32>>> {
    let mut solo = Solo::new(layout(reach), 64, 4, &Device::Cpu).unwrap();
    cuts.iter().flat_map(|cut| feed(&mut solo, x, reach, *cut)).collect()
}

#[test]
fn cuts_do_not_matter() {
    for reach in [Reach::All, Reach::Last(1), Reach::Last(5), Reach::Last(8)] {
        let x = [(); 3].map(|()| Tensor::randn(0f32, 1.0, (40, 2, 8), &Device::Cpu).unwrap());
        let whole = run(reach, &x, &[40]);
        // seen to fail: forgetting before the step in place of after it
        assert_eq!(run(reach, &x, &[1; 40]), whole);
        assert_eq!(run(reach, &x, &[7, 1, 13, 2, 17]), whole);
    }
}

#[test]
fn too_many_tokens_are_refused_and_reset_starts_anew() {
    let mut solo = Solo::new(layout(Reach::All), 8, 4, &Device::Cpu).unwrap();
    solo.step(&[1; 6], 1).unwrap();
    assert!(matches!(solo.step(&[1; 3], 1), Err(Error::Context { tokens: 9, context: 8 })));
    assert_eq!(solo.step(&[1; 2], 1).unwrap().positions, [6, 7]);
    solo.reset();
    assert_eq!(solo.step(&[1; 8], 1).unwrap().positions[0], 0);
}

#[test]
fn cut_back_and_go_on_or_a_refusal_that_changes_nothing() {
    for reach in [Reach::All, Reach::Last(1), Reach::Last(5), Reach::Last(8), Reach::Keep { first: 3, last: 5 }] {
        let x = [(); 3].map(|()| Tensor::randn(0f32, 1.0, (40, 2, 8), &Device::Cpu).unwrap());
        let whole = run(reach, &x, &[40]);
        for len in 0..=30 {
            let mut solo = Solo::new(layout(reach), 64, 4, &Device::Cpu).unwrap();
            let mut out = feed(&mut solo, &x, reach, 25);
            out.extend(feed(&mut solo, &x, reach, 5));
            let cut = solo.truncate(len);
            // What the last step fed can always be taken back; before that only what no window needs.
            let must = len >= 25 || reach == Reach::All || len == 0;
            assert!(cut.is_ok() || !must, "{reach:?}, {len}: {cut:?}");
            match cut {
                Ok(()) => out.truncate(len),
                Err(error) => assert!(matches!(error, Error::Forgotten { from, .. } if from > 0), "{error}"),
            }
            assert_eq!(solo.tokens().len(), out.len());
            let left = 40 - solo.tokens().len();
            out.extend(feed(&mut solo, &x, reach, left));
            assert_eq!(out, whole, "{reach:?}, {len}");
        }
    }
}
