//! `demo`: from nothing to a running server in one command.

use crate::models;
use crate::server::{self, Server, http};
use crate::shell::{self, Done, Failed, Flags};

/// The model a demonstration uses: the smallest that holds a conversation.
const MODEL: &str = "smollm2-135m-instruct";
/// What `--once` asks.
const QUESTION: &str = "In one sentence: what is a library?";
/// The first port to try.
const FIRST_PORT: u16 = 8000;

/// Its part of the help.
pub(crate) const HELP: &str =
    "  demo              Fetch a small model, build the server, start it and print a ready request.
      --once            ask one question, print it, the answer and the speed, and stop
      --port N          first port to try, 8000 unless given
";

/// `cargo xtask demo`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let once = flags.switch("--once");
    let first = match flags.value("--port")? {
        Some(text) => text.parse().map_err(|_| Failed::usage(format!("--port: `{text}` is no port")))?,
        None => FIRST_PORT,
    };
    flags.end()?;

    let model = models::ensure(MODEL)?;
    println!("building omlx-server (release) ...");
    shell::run(&mut shell::cargo(["build", "--release", "--package", "omlx-server"]))?;
    let port = server::free_port(first)?;
    let mut server = Server::start(&model, port, &[])?;
    let id = server.wait()?;
    if once {
        println!("question: {QUESTION}");
        let answer = http::ask(port, &id, QUESTION)?;
        println!("answer:   {}\nspeed:    {}", answer.text.trim(), answer.speed());
        return server.stop();
    }
    println!("{}", invitation(port, &id));
    server.until_it_ends()
}

fn invitation(port: u16, id: &str) -> String {
    format!(
        r#"
omlx is ready on http://127.0.0.1:{port}/v1 with {id}. Ctrl-C ends it. In another terminal:

curl -N http://127.0.0.1:{port}/v1/chat/completions -H 'content-type: application/json' -d '{{
  "model": "{id}", "stream": true, "max_tokens": 200, "temperature": 0.2,
  "messages": [{{"role": "user", "content": "Tell me a short story about a lighthouse."}}]}}'

Or with the official client (pip install openai):

from openai import OpenAI
client = OpenAI(base_url="http://127.0.0.1:{port}/v1", api_key="none")
for piece in client.chat.completions.create(
        model="{id}", stream=True, max_tokens=200, temperature=0.2,
        messages=[{{"role": "user", "content": "Tell me a short story about a lighthouse."}}]):
    print(piece.choices[0].delta.content or "", end="", flush=True)
"#
    )
}

#[cfg(test)]
mod tests;
