//! A prefix cache whose files are damaged, foreign, taken away, or cannot be written, below a whole server: right answers, one line of
//! the log with counts, and everything is kept again afterwards.
//!
//! Each kind of damage to each kind of byte is the business of the engine's tests (`damage`); here it is what its owner is told.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::prefixes::{House, MOST, ask, files, prefixes, request, stop};
use crate::server::{Server, command, within};

/// What a server without a cache says to each request.
fn cold(house: &House, requests: &[Value]) -> Vec<Value> {
    let alone = house.serve(&["--no-cache"]);
    requests.iter().map(|request| ask(&alone, request).0).collect()
}

/// Asks for all, compares, and answers how many tokens were found in each.
#[track_caller]
fn check(server: &Server, requests: &[Value], cold: &[Value], what: &str) -> Vec<u64> {
    let one = |(request, cold): (&Value, &Value)| {
        let (said, cached) = ask(server, request);
        assert_eq!(&said, cold, "{what}\n{}", server.output());
        cached
    };
    requests.iter().zip(cold).map(one).collect()
}

fn warnings(server: &Server) -> Vec<String> {
    server.output().lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect()
}

fn segments(house: &House) -> Vec<PathBuf> {
    files(&house.kept()).into_iter().filter(|file| file.extension().is_some_and(|e| e == "kv")).collect()
}

/// SSD-3: one clear warning with counts, whatever it was.
#[test]
fn what_is_wrong_with_a_folder_is_said_once_with_counts() {
    let house = House::new();
    let requests: Vec<Value> = ["full", "window"].iter().map(|model| request(model, 1)).collect();
    let cold = cold(&house, &requests);
    let first = house.serve_kept(&[]);
    check(&first, &requests, &cold, "fresh");
    assert!(warnings(&first).is_empty(), "{}", first.output());
    stop(first);
    let good: Vec<(PathBuf, Vec<u8>)> =
        segments(&house).into_iter().map(|file| (file.clone(), fs::read(&file).unwrap())).collect();
    type Damage = fn(&mut Vec<u8>);
    let kinds: [(&str, Damage, &str); 6] = [
        ("another version", |bytes| bytes[8] += 1, "files of another version"),
        ("no segment at all", |bytes| bytes[..8].fill(b'x'), "files that cannot be read"),
        ("half of it", |bytes| bytes.truncate(bytes.len() / 2), ""),
        ("the list", |bytes| *bytes.last_mut().unwrap() ^= 1, ""),
        ("a record's tokens", |bytes| bytes[32 + 168 + 5] ^= 1, "damaged=1"),
        ("a record's content", |bytes| bytes[32 + 168 + 64 + 5] ^= 1, "damaged=1"),
    ];
    for (what, damage, says) in kinds {
        segments(&house).iter().for_each(|file| fs::remove_file(file).unwrap());
        for (file, bytes) in &good {
            let mut bytes = bytes.clone();
            damage(&mut bytes);
            fs::write(file, bytes).unwrap();
        }
        let server = house.serve_kept(&[]);
        check(&server, &requests, &cold, what);
        let warned = warnings(&server);
        match says {
            "" => assert!(warned.is_empty(), "{what}: {warned:?}"),
            says => assert!(warned.len() == 1 && warned[0].contains(says), "{what}: {warned:?}"),
        }
        if says.starts_with("files") {
            let count = format!("{} {says}", good.len());
            assert!(warned[0].contains(&count), "{what}, {count}: {warned:?}");
        }
        stop(server);
        let again = house.serve_kept(&[]);
        assert_eq!(check(&again, &requests, &cold, what), [MOST, MOST], "{what}, afterwards: {}", prefixes(&again));
        stop(again);
    }
    // A file of somebody else's is left alone, and counted.
    let stray = house.kept().join("omlx-00000001.kv.tmp");
    fs::write(&stray, vec![0; 1 << 20]).unwrap();
    let server = house.serve_kept(&[]);
    let warned = warnings(&server);
    assert!(warned.len() == 1 && warned[0].contains("1 files that are not of this cache"), "{warned:?}");
    assert_eq!(check(&server, &requests, &cold, "a stray file"), [MOST, MOST]);
    let disk = prefixes(&server)["disk"]["bytes"].as_u64().unwrap();
    assert!(disk > 1 << 20 && stray.exists(), "{disk}");
}

/// A limit to the length of files is as good as a full disk: the system refuses writes, some of them in the middle.
#[test]
fn a_disk_that_takes_nothing_more_is_said_once_and_stops_nobody() {
    let house = House::new();
    let requests: Vec<Value> = (0..4).map(|seed| request(["full", "window"][seed % 2], seed)).collect();
    let cold = cold(&house, &requests);
    let server = command();
    let mut limited = Command::new("/bin/sh");
    // Blocks of 512 or of 1024 bytes, as shells like it: both hold the lock and a record or two.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 24; exec \"$0\" \"$@\""]).arg(server.get_program());
    limited.env_remove("OMLX_API_KEY");
    limited.args(["--port", "0", "--block", "16", "--cache-ram", "off", "--max-concurrent", "1", "--context", "480"]);
    limited.arg("--model-dir").arg(house.dir.path().join("models")).arg("--cache-dir").arg(house.kept());
    let server = Server::start_with(&mut limited);
    for round in 0..3 {
        check(&server, &requests, &cold, &format!("a full disk, round {round}"));
    }
    let refused = || warnings(&server).into_iter().filter(|line| line.contains("cannot be written")).count();
    within(Duration::from_secs(10), || (refused() > 0).then_some(()));
    assert_eq!((refused(), warnings(&server).len()), (1, 1), "{:?}", warnings(&server));
    stop(server);
    let server = house.serve_kept(&["--cache-ram", "off"]);
    check(&server, &requests, &cold, "after a full disk");
    assert!(warnings(&server).is_empty(), "nothing half is left: {}", server.output());
    stop(server);
    let server = house.serve_kept(&["--cache-ram", "off"]);
    assert_eq!(check(&server, &requests, &cold, "once more"), [MOST; 4]);
    stop(server);
}

/// Somebody clears the folder by hand.
#[test]
fn a_folder_that_is_cleared_by_hand_is_filled_again() {
    let house = House::new();
    let requests: Vec<Value> = ["full", "window"].iter().map(|model| request(model, 1)).collect();
    let cold = cold(&house, &requests);
    let first = house.serve_kept(&[]);
    check(&first, &requests, &cold, "fresh");
    stop(first);
    let server = house.serve_kept(&["--cache-ram", "off"]);
    let gone = segments(&house);
    gone.iter().for_each(|file| fs::remove_file(file).unwrap());
    assert_eq!(check(&server, &requests, &cold, "cleared by hand"), [0, 0]);
    let warned = warnings(&server);
    let says = format!("files={}", gone.len());
    assert!(warned.len() == 1 && warned[0].contains("have gone") && warned[0].contains(&says), "{warned:?}");
    stop(server);
    let server = house.serve_kept(&["--cache-ram", "off"]);
    assert_eq!(check(&server, &requests, &cold, "filled again"), [MOST, MOST], "{}", prefixes(&server));
}
