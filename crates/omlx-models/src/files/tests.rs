//! Pipes, links, long files and byte order marks.

use super::*;

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_a_link_followed() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("config.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Without the check this waits for ever; a thread, so that the test fails instead.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn({
        let pipe = pipe.clone();
        move || sender.send(read_json(&pipe, 10).map(|_| ()))
    });
    let read = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("an answer");
    let said = read.unwrap_err().to_string();
    assert!(said.contains("config.json: not a regular file") && said.contains("put the file"), "{said}");

    let (file, link) = (dir.path().join("blob"), dir.path().join("link.json"));
    std::fs::write(&file, "{}").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(read_json(&link, 10).unwrap(), b"{}");
}

#[test]
fn limits_and_marks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    for (text, limit, expected) in
        [("{}", 2, Some("{}")), ("\u{feff}{}", 5, Some("{}")), ("{} ", 2, None), ("", 2, Some(""))]
    {
        std::fs::write(&path, text).unwrap();
        let read = read_json(&path, limit).ok().map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(read.as_deref(), expected, "{text:?}");
    }
}
