//! SEC-1: the key is in nothing that the server writes, however much it is asked to write and however the key comes.

use serde_json::json;

use omlx_fixtures::tiny;

use crate::client::{get, post};
use crate::server::{Server, command};

const KEY: &str = "k-secret-7c1f";

/// At the most talkative level, and with the variable set that many programs take theirs from. Seen to fail: the head of each request
/// logged at debug.
#[test]
fn sec_1_the_key_is_in_no_log() {
    let llama = tiny("llama");
    for by_flag in [false, true] {
        let mut command = command();
        command.args(["--port", "0", "--log-level", "trace", "--model"]).arg(&llama).env("RUST_LOG", "trace");
        if by_flag {
            command.args(["--api-key", KEY])
        } else {
            command.env("OMLX_API_KEY", KEY)
        };
        let mut server = Server::start_with(&mut command);
        let ask = json!({"model": "llama", "prompt": "a", "max_tokens": 2});
        for (header, value, status) in [
            ("Authorization", format!("Bearer {KEY}"), 200),
            ("authorization", format!("bearer {KEY}"), 200),
            ("x-api-key", KEY.to_owned(), 200),
            // nearly right ones tell as much
            ("Authorization", format!("Basic {KEY}"), 401),
            ("Authorization", format!("Bearer {KEY}x"), 401),
            ("x-api-key", format!("x{KEY}"), 401),
        ] {
            let stream = json!({"model": "llama", "prompt": "a", "max_tokens": 2, "stream": true});
            for body in [&ask, &stream] {
                let answer = post(server.port, "/v1/completions", body).header(header, &value).send();
                assert_eq!(answer.status, status, "{header}: {value}: {}", answer.body);
                assert!(!answer.body.contains(KEY), "{}", answer.body);
            }
            let shown = get(server.port, "/api/status").header(header, &value).send();
            assert!(shown.status == status && !shown.body.contains(KEY), "{}", shown.body);
        }
        // where it does not belong
        assert_eq!(get(server.port, &format!("/v1/models?key={KEY}")).send().status, 401);
        server.signal("TERM");
        assert!(server.ended(std::time::Duration::from_secs(10)).success());
        let output = server.output();
        assert!(output.contains("answered") && output.contains("status=401"), "it logs: {output}");
        assert!(!output.contains(KEY), "{output}");
    }
}
