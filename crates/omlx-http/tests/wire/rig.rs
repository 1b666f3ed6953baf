//! A router over one model whose engine says a script: the parrot's tokenizer and no tensors.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, header};
use futures_core::future::BoxFuture;
use http_body_util::BodyExt;
use omlx_api::{Command, EngineHandle, Finish, Generate, Logprobs, Mailbox, Reply, Usage, channel};
use omlx_fixtures::{END, parrot};
use omlx_http::{Bounds, Card, Catalog, Config, GuardError, Memory, OpenError, Owner, Served, router};
use omlx_text::TextModel;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const TEXT: &str = "/v1/completions";
/// The one model, by its full name; `tiny` is its alias.
pub(crate) const MODEL: &str = "org/tiny";
/// Its context in tokens.
pub(crate) const CONTEXT: usize = 64;
/// How many prompt tokens the engine says it found in its cache.
pub(crate) const CACHED: usize = 2;

/// What the engine does with a request.
pub(crate) type Act = Box<dyn FnMut(&Generate, Reply) + Send>;

/// What a memory guard sees.
pub(crate) type Sees = dyn Fn() -> Option<Memory> + Send + Sync;

pub(crate) struct Rig {
    pub(crate) router: Router,
    pub(crate) text: Arc<TextModel>,
    asked: Arc<Mutex<Vec<Generate>>>,
}

/// What a rig is made of, where the default is not enough.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) owner: Owner,
    /// Tokens that the memory for keys and values holds.
    pub(crate) capacity: usize,
    pub(crate) depth: usize,
    pub(crate) context: usize,
    /// Changes the model's folder before it is loaded.
    pub(crate) change: fn(&Path),
    /// `None`: say the script.
    pub(crate) act: Option<Act>,
    /// What the memory guard sees.
    pub(crate) memory: Option<Box<Sees>>,
}

impl Default for Parts {
    fn default() -> Self {
        let (config, owner) = (Config::default(), Owner::default());
        Parts { config, owner, capacity: 1 << 20, depth: 64, context: CONTEXT, change: |_| {}, act: None, memory: None }
    }
}

impl Rig {
    /// A rig whose engine says `entries`, one token each, then the end token.
    pub(crate) fn saying<E: AsRef<[u8]>>(entries: &[E]) -> Rig {
        Rig::new(entries, Parts::default())
    }

    pub(crate) fn new<E: AsRef<[u8]>>(entries: &[E], mut parts: Parts) -> Rig {
        let memory = parts.memory.take();
        let (rig, mailbox, script) = Rig::before(entries, &parts, memory);
        let act = parts.act.unwrap_or_else(|| say(script));
        let asked = rig.asked.clone();
        thread::spawn(move || run(mailbox, act, &asked));
        rig
    }

    /// A rig whose mailbox nobody empties, that mailbox, and the script.
    pub(crate) fn unmanned<E: AsRef<[u8]>>(entries: &[E], parts: &Parts) -> (Rig, Mailbox, Vec<u32>) {
        Rig::before(entries, parts, None)
    }

    fn before<E: AsRef<[u8]>>(entries: &[E], parts: &Parts, memory: Option<Box<Sees>>) -> (Rig, Mailbox, Vec<u32>) {
        let folder = tempfile::tempdir().expect("a folder");
        let script = parrot(folder.path(), entries).script;
        (parts.change)(folder.path());
        let text = Arc::new(TextModel::load(folder.path()).expect("the parrot's text"));
        let (engine, mailbox) = channel(parts.depth);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let bounds = Bounds { context: parts.context, capacity: parts.capacity };
        let markup = parts.owner.model.markup(&text);
        let owner = parts.owner;
        let served = Served { id: MODEL.to_owned(), engine, text: text.clone(), bounds, owner, markup };
        let router = router(Arc::new(House { served, memory }), parts.config.clone());
        (Rig { router, text, asked }, mailbox, script)
    }

    /// The requests that the engine has taken, oldest first; each is given once.
    pub(crate) fn asked(&self) -> Vec<Generate> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        let answer = self.router.clone().oneshot(request);
        tokio::time::timeout(Duration::from_secs(10), answer).await.expect("no answer").expect("infallible")
    }

    /// Posts JSON and gives status, headers and the whole body.
    pub(crate) async fn raw(&self, path: &str, body: &Value) -> (u16, HeaderMap, String) {
        read(self.send(post(path, body)).await).await
    }

    /// Posts JSON to a route that answers in JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, body) = self.raw(path, body).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {body}")))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let (status, _, body) = read(self.send(request).await).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {body}")))
    }

    /// Posts with `stream: true`; gives the events' JSON and whether `[DONE]` came, last.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> (Vec<Value>, bool) {
        let (status, headers, body) = self.raw(path, &with(body, &json!({"stream": true}))).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(headers[header::CONTENT_TYPE], "text/event-stream");
        events(&body)
    }
}

/// The events of a stream and whether `[DONE]` ended it.
pub(crate) fn events(body: &str) -> (Vec<Value>, bool) {
    let mut data: Vec<&str> = body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    let done = data.last() == Some(&"[DONE]");
    if done {
        data.pop();
    }
    (data.into_iter().map(|data| serde_json::from_str(data).expect("an event of JSON")).collect(), done)
}

pub(crate) fn post(path: &str, body: &Value) -> Request<Body> {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_string())).expect("a request")
}

pub(crate) async fn read(response: Response<Body>) -> (u16, HeaderMap, String) {
    let (head, body) = response.into_parts();
    let bytes = tokio::time::timeout(Duration::from_secs(10), body.collect()).await.expect("the body never ended");
    let bytes = bytes.expect("a whole body").to_bytes();
    // A wrong length breaks the connection under the answer; only HEAD has one without a body.
    if let Some(length) = head.headers.get(header::CONTENT_LENGTH).filter(|_| !bytes.is_empty()) {
        assert_eq!(length.to_str().ok(), Some(bytes.len().to_string().as_str()));
    }
    (head.status.as_u16(), head.headers, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
}

/// `base` with the fields of `patch` put over it.
pub(crate) fn with(base: &Value, patch: &Value) -> Value {
    let mut merged = base.clone();
    for (key, value) in patch.as_object().expect("an object") {
        merged[key] = value.clone();
    }
    merged
}

/// The least that a route takes.
pub(crate) fn least(path: &str) -> Value {
    match path {
        CHAT => json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}),
        _ => json!({"model": MODEL, "prompt": "hello"}),
    }
}

/// The texts of a whole answer, one per choice, whichever route it came from.
pub(crate) fn texts(answer: &Value) -> Vec<String> {
    let choices = answer["choices"].as_array().expect("choices");
    choices.iter().map(|c| c["message"]["content"].as_str().or(c["text"].as_str()).expect("text").to_owned()).collect()
}

/// The texts of a stream, one per choice.
pub(crate) fn streamed(events: &[Value], choices: usize) -> Vec<String> {
    let mut texts = vec![String::new(); choices];
    for choice in events.iter().flat_map(|event| event["choices"].as_array().expect("choices")) {
        let index = usize::try_from(choice["index"].as_u64().expect("index")).expect("small");
        texts[index] += choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default();
    }
    texts
}

/// Says `script`, the end token, and `z` for ever, up to the limit and the request's stop ids.
pub(crate) fn say(script: Vec<u32>) -> Act {
    Box::new(move |request, reply| {
        let prompt = request.tokens.len();
        let cached = CACHED.min(prompt - 1);
        reply.admitted(cached);
        let usage = |completion| Usage { prompt, cached, completion };
        let ids = script.iter().copied().chain([END]).chain(std::iter::repeat(u32::from(b'z')));
        for (said, id) in ids.enumerate() {
            if said == request.limit {
                return reply.done(Finish::Length, usage(said));
            }
            if request.stop.contains(&id) {
                return reply.done(Finish::Stop, usage(said + 1));
            }
            reply.token(id, request.logprobs.map(|top| logprobs(id, top)));
        }
    })
}

/// The chosen token with -0.5, and the `top` most likely ones: itself, then `a`, `b` ...
fn logprobs(id: u32, top: usize) -> Logprobs {
    let others = (b'a'..).map(u32::from).zip(1..).map(|(id, rank)| (id, -0.5 - rank as f32));
    Logprobs { chosen: -0.5, top: [(id, -0.5)].into_iter().chain(others).take(top).collect() }
}

fn run(mut mailbox: Mailbox, mut act: Act, asked: &Mutex<Vec<Generate>>) {
    while let Some(Command::Generate(request, reply)) = mailbox.wait() {
        asked.lock().expect("no panic").push(Generate {
            sampling: request.sampling.clone(),
            stop: request.stop.clone(),
            logprobs: request.logprobs,
            priority: request.priority,
            ..Generate::new(request.tokens.clone(), request.limit)
        });
        act(&request, reply);
    }
}

struct House {
    served: Served,
    memory: Option<Box<Sees>>,
}

impl Catalog for House {
    fn cards(&self) -> Vec<Card> {
        let card = |id: &str, trouble: Option<&str>| Card {
            id: id.to_owned(),
            created: 1_700_000_000,
            context: Some(CONTEXT),
            trouble: trouble.map(str::to_owned),
        };
        vec![card(MODEL, None), card("org2/tiny", None), card("half", Some("half/model-2.safetensors is missing"))]
    }

    fn card(&self, name: &str) -> Result<Card, OpenError> {
        let id = match name {
            "tiny" => MODEL,
            "twin" => return Err(twins()),
            name => name,
        };
        self.cards().into_iter().find(|card| card.id == id).ok_or(OpenError::Unknown)
    }

    fn open(&self, name: &str) -> BoxFuture<'_, Result<Served, OpenError>> {
        let result = match name {
            MODEL | "tiny" => Ok(self.served.clone()),
            "twin" => Err(twins()),
            "half" => Err(OpenError::Unusable { reason: "half/model-2.safetensors is missing".to_owned() }),
            "vast" => Err(OpenError::NeverFits { reason: "needs 9 GiB, 1 GiB is left; raise the limit".to_owned() }),
            "huge" => Err(OpenError::NoRoom { reason: "needs 9 GiB, 1 GiB is free".to_owned() }),
            _ => Err(OpenError::Unknown),
        };
        Box::pin(async { result })
    }

    fn engines(&self) -> Vec<(String, EngineHandle)> {
        vec![(MODEL.to_owned(), self.served.engine.clone())]
    }

    fn memory(&self) -> Option<Memory> {
        self.memory.as_ref()?()
    }

    fn set_memory(&self, words: &str) -> Result<Memory, GuardError> {
        let seen = self.memory().ok_or(GuardError::Off)?;
        match words {
            "safe" => Ok(Memory { tier: "safe", most_bytes: 7, ..seen }),
            _ => Err(GuardError::Words { reason: format!("{words} is not safe") }),
        }
    }
}

fn twins() -> OpenError {
    OpenError::Ambiguous { candidates: vec!["a/twin".to_owned(), "b/twin".to_owned()] }
}
