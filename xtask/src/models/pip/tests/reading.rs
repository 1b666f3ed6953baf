//! What pip prints, what indexes answer, and addresses: nothing here goes out.

use super::super::address::Address;
use super::super::settings::{self, Settings};

const HELP: &str = "Package Index Options:\n  -i, --index-url <url>       Base URL of the Index (default https://index.test/sim-\n                              ple). This should\n  --extra-index-url <url>     Extra URLs (default x)\n";

fn read(list: &str) -> Result<Settings, String> {
    settings::read(list, HELP)
}

fn indexes(list: &str) -> Vec<String> {
    read(list).unwrap().indexes.iter().map(Address::url).collect()
}

/// Seen to fail: the section for all commands taken before the environment.
#[test]
fn settings_are_pips() {
    assert_eq!(indexes(""), ["https://index.test/sim-ple"]);
    let list = ":env:.index-url='https://env.test/simple'\nglobal.index-url='https://file.test/simple'\n";
    assert_eq!(indexes(list), ["https://env.test/simple"]);
    let list = "download.index-url='https://one.test'\nglobal.index-url='https://all.test'\n\
                install.extra-index-url='https://install.test'\nglobal.extra-index-url='\\nhttps://a.test/x\\nhttps://b.test/y'\n";
    assert_eq!(indexes(list), ["https://one.test/", "https://a.test/x", "https://b.test/y"]);
    let settings = read("global.cert='/etc/c.pem'\n:env:.proxy=\"http://it's:3128\"\n").unwrap();
    assert_eq!(settings.certificates.unwrap().to_str(), Some("/etc/c.pem"));
    assert_eq!(settings.proxy.as_deref(), Some("http://it's:3128"));
}

#[test]
fn what_only_pip_can_follow_is_said() {
    let cases = [
        ("global.no-index='true'\n", "no index"),
        (":env:.index-url='/wheels'\n", "no http address"),
        (":env:.extra-index-url='https://a.test file:///wheels'\n", "no http address"),
    ];
    for (list, expected) in cases {
        let why = read(list).err().unwrap();
        assert!(why.contains(expected), "{list}: {why}");
    }
    // pip hides a password in its help, and nothing else is known
    let hidden = "-i, --index-url <url> Base (default https://me:****@h.test/simple).";
    assert!(settings::read("", hidden).is_err_and(|why| why.contains("does not say")));
}

/// Seen to fail: `Debug` derived, which showed the password.
#[test]
fn an_address_keeps_its_credentials_to_itself() {
    let page = Address::parse("https://me:p%40ss@Index.test/a/simple/x/?sig=1").unwrap();
    assert_eq!(page.authorization(), Some("Basic bWU6cEBzcw=="));
    assert_eq!(Address::parse("https://token@h.test/").unwrap().authorization(), Some("Basic dG9rZW46"));
    assert_eq!(
        (page.shown().as_str(), format!("{page:?}").as_str()),
        ("https://index.test/a/simple/x/", "https://index.test/a/simple/x/")
    );
    for (link, url, known) in [
        ("../../f/w.whl#sha256=1", "https://index.test/a/f/w.whl", true),
        ("../../../../../w.whl", "https://index.test/w.whl", true),
        ("./w.whl?a=../b", "https://index.test/a/simple/x/w.whl?a=../b", true),
        ("/w.whl", "https://index.test/w.whl", true),
        ("https://index.test/w.whl", "https://index.test/w.whl", true),
        ("//files.test/w.whl", "https://files.test/w.whl", false),
        ("https://files.test/w.whl", "https://files.test/w.whl", false),
        ("https://index.test:444/w.whl", "https://index.test:444/w.whl", false),
        ("http://index.test/w.whl", "http://index.test/w.whl", false),
    ] {
        let there = page.join(link).unwrap();
        assert_eq!((there.url().as_str(), there.authorization().is_some()), (url, known), "{link}");
    }
    for none in ["", "simple", "/wheels", "file:///wheels", "https://", "https://u@/x", "https://a b/", "https://h/\nx"]
    {
        assert!(Address::parse(none).is_none(), "{none:?}");
    }
}
