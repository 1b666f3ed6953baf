//! MOD-6: the order of sources, one line per case.

use omlx_text::SamplingDefaults;

use super::{Owner, Parameter, Settings, resolve};

fn given(temperature: Option<f32>) -> Settings {
    Settings { temperature, ..Settings::default() }
}

fn author(temperature: Option<f32>, do_sample: Option<bool>) -> SamplingDefaults {
    SamplingDefaults { temperature, do_sample, ..SamplingDefaults::default() }
}

#[test]
fn mod_6_temperature() {
    let check = |request, model, author: SamplingDefaults, all, expected| {
        let owner = Owner { model: given(model), all: given(all) };
        let (sampling, _) = resolve(&given(request), &owner, &author);
        assert_eq!(sampling.temperature, expected, "{request:?} {owner:?} {author:?}");
    };
    check(None, None, author(None, None), None, 1.0);
    check(None, None, author(None, None), Some(0.4), 0.4);
    check(None, None, author(None, None), Some(0.0), 0.0);
    check(None, None, author(Some(0.6), None), None, 0.6);
    check(None, None, author(Some(0.6), None), Some(0.4), 0.6);
    check(None, None, author(Some(0.6), Some(true)), None, 0.6);
    check(None, None, author(Some(0.6), Some(false)), None, 0.0);
    check(None, None, author(None, Some(false)), Some(0.4), 0.0);
    check(None, Some(0.3), author(Some(0.6), Some(false)), Some(0.4), 0.3);
    check(None, Some(0.0), author(Some(0.6), None), Some(0.4), 0.0);
    check(Some(0.9), Some(0.3), author(Some(0.6), Some(false)), Some(0.4), 0.9);
    check(Some(0.0), Some(0.3), author(Some(0.6), None), Some(0.4), 0.0);
}

#[test]
fn mod_6_every_other_value() {
    let request = Settings {
        temperature: Some(0.1),
        top_k: Some(1),
        top_p: Some(0.11),
        min_p: Some(0.12),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(0.13),
        frequency_penalty: Some(0.14),
        max_tokens: Some(10),
        ..Settings::default()
    };
    let model = Settings {
        temperature: Some(0.2),
        top_k: Some(2),
        top_p: Some(0.21),
        min_p: Some(0.22),
        repetition_penalty: Some(1.2),
        presence_penalty: Some(0.23),
        frequency_penalty: Some(0.24),
        max_tokens: Some(20),
        ..Settings::default()
    };
    let author = SamplingDefaults {
        temperature: Some(0.3),
        top_k: Some(3),
        top_p: Some(0.31),
        min_p: Some(0.32),
        repetition_penalty: Some(1.3),
        do_sample: None,
        max_new_tokens: Some(30),
    };
    let all = Settings {
        temperature: Some(0.4),
        top_k: Some(4),
        top_p: Some(0.41),
        min_p: Some(0.42),
        repetition_penalty: Some(1.4),
        presence_penalty: Some(0.43),
        frequency_penalty: Some(0.44),
        max_tokens: Some(40),
        ..Settings::default()
    };
    let (nobody, silent) = (Settings::default(), SamplingDefaults::default());
    let check =
        |request: &Settings, (model, author, all): (Settings, &SamplingDefaults, Settings), (k, p, m, r), last| {
            let (s, most) = resolve(request, &Owner { model, all }, author);
            assert_eq!((s.top_k, s.top_p, s.min_p, s.repetition_penalty), (k, p, m, r));
            assert_eq!((s.presence_penalty, s.frequency_penalty, most), last);
        };
    check(&request, (model, &author, all), (1, 0.11, 0.12, 1.1), (0.13, 0.14, Some(10)));
    check(&nobody, (model, &author, all), (2, 0.21, 0.22, 1.2), (0.23, 0.24, Some(20)));
    // penalties of these two kinds are in no author's file
    check(&nobody, (nobody, &author, all), (3, 0.31, 0.32, 1.3), (0.43, 0.44, Some(30)));
    check(&nobody, (nobody, &silent, all), (4, 0.41, 0.42, 1.4), (0.43, 0.44, Some(40)));
    check(&nobody, (nobody, &silent, nobody), (0, 1.0, 0.0, 1.0), (0.0, 0.0, None));
}

#[test]
fn ranges_are_the_same_for_owner_and_request() {
    use Parameter::{FrequencyPenalty, MinP, PresencePenalty, RepetitionPenalty, Temperature, TopP};
    for (parameter, good, bad, expected) in [
        (Temperature, ["0", "2", " 0.7 "], ["-0.1", "2.1", "nan"], "has to be between 0 and 2"),
        (TopP, ["1e-30", "1", "0.95"], ["0", "1.01", "1e-60"], "has to be above 0 and at most 1"),
        (MinP, ["0", "1", "0.05"], ["-0.1", "1.1", "inf"], "has to be between 0 and 1"),
        (RepetitionPenalty, ["0.1", "10", "1"], ["0", "10.1", ""], "has to be above 0 and at most 10"),
        (PresencePenalty, ["-2", "2", "0"], ["-2.1", "2.1", "much"], "has to be between -2 and 2"),
        (FrequencyPenalty, ["-2", "2", "0"], ["-2.1", "2.1", "0,5"], "has to be between -2 and 2"),
    ] {
        for text in good {
            assert_eq!(parameter.parse(text), Ok(text.trim().parse::<f32>().expect("a number")), "{parameter:?}");
        }
        for text in bad {
            assert_eq!(
                parameter.parse(text).map_err(|e| e.to_string()),
                Err(expected.to_owned()),
                "{parameter:?} {text}"
            );
        }
    }
}

#[test]
fn what_an_owner_set_is_shown() {
    let owner = Settings { temperature: Some(0.0), top_k: Some(40), min_p: Some(0.05), ..Settings::default() };
    assert_eq!(owner.to_string(), "temperature 0, top_k 40, min_p 0.05");
    assert_eq!(Settings::default().to_string(), "nothing set");
}
