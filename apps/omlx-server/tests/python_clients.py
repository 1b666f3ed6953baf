#!/usr/bin/env python3
"""Drives omlx-server with the official `openai` and `anthropic` clients, on a tiny model, on one that thinks and calls tools by a script, and,
where they are there, on real ones: a folder, and the GGUF file that `cargo xtask demo` serves.

  python3 apps/omlx-server/tests/python_clients.py [--server PATH] [--models DIR]

Needs nothing but Python 3.9 and pip: it makes its own virtual environment below the target folder, once. Without
--server it builds the server with cargo (release, since a real model takes part). Real models are looked for in
--models, else $OMLX_MODELS, else ~/.cache/omlx/models; `cargo xtask models` fetches them, and OMLX_REQUIRE_MODELS=1
makes their absence a failure.
The last line says how many checks passed and failed; the exit status is 1 if any failed.
"""
import argparse
import asyncio
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
import venv
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or REPO / "target")
PACKAGES = ["openai==3.57.0", "anthropic==2.16.0"]
KEY = "k-python-client"
REAL = "smollm2-135m-instruct"
DEMO = "gguf/SmolLM2-135M-Instruct.Q4_1.gguf"  # the very file that `cargo xtask demo` serves


def own_environment():
    """Runs this script again inside its environment, unless it is there already."""
    home = TARGET / "python-clients"
    wanted = " ".join(PACKAGES)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if Path(sys.prefix).resolve() == home.resolve():
        return
    ready = home / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {home} with {wanted}", flush=True)
        try:
            venv.create(home, with_pip=True, clear=True)
        except subprocess.CalledProcessError:
            sys.exit("error: python3 cannot make a virtual environment with pip in it; install the package python3-venv of your system")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        if subprocess.run(install).returncode != 0:
            sys.exit(f"error: {wanted} cannot be installed (see above); a package index has to be in reach: "
                     "PIP_INDEX_URL names another, HTTPS_PROXY a proxy. `cargo xtask test --quick` leaves this part out.")
        ready.write_text(wanted)
    sys.exit(subprocess.run([python, __file__, *sys.argv[1:]]).returncode)


def build():
    print("building omlx-server (release)", flush=True)
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "omlx-server"], cwd=REPO, check=True)
    return TARGET / "release" / ("omlx-server.exe" if os.name == "nt" else "omlx-server")


class Server:
    """The server on a free port, with a key; ended on leaving the block."""

    def __init__(self, binary, model, *args):
        command = [str(binary), "--model", str(model), "--port", "0", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMLX_API_KEY": KEY})
        lines = queue.Queue()
        threading.Thread(target=self.read, args=(lines,), daemon=True).start()
        found, until = None, time.monotonic() + 120
        while not found:
            line = lines.get(timeout=max(0.1, until - time.monotonic()))
            assert line is not None, "the server ended at once"
            found = re.match(r"Listening on (http://\S+)", line)
        self.url = found.group(1)

    def read(self, lines):
        for line in self.process.stdout:
            lines.put(line)
        lines.put(None)

    def busy(self):
        with urllib.request.urlopen(self.url + "/health", timeout=10) as answer:
            return sum(model["running"] + model["waiting"] for model in json.load(answer)["models"])

    def settles(self, seconds=20):
        until = time.monotonic() + seconds
        while self.busy():
            assert time.monotonic() < until, "work goes on after the client has gone"
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()


def user(text):
    return [{"role": "user", "content": text}]


# ------------------------------------------------------------ checks: each takes (server, client, model)


def models_are_listed(_, client, model):
    assert [m.id for m in client.models.list()] == [model]
    assert client.models.retrieve(model).id == model
    raises(openai.NotFoundError, lambda: client.models.retrieve("nobody"))
    error = raises(openai.NotFoundError, lambda: client.models.retrieve(model.upper() + ".gguf"))
    assert f"did you mean `{model}`" in str(error), error


def a_chat_is_answered(_, client, model):
    answer = client.chat.completions.create(model=model, messages=user("Hello"), max_tokens=8, temperature=0)
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.model == model and answer.id and answer.created
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason in ("length", "stop")
    usage = answer.usage
    assert usage.prompt_tokens > 0 and 0 < usage.completion_tokens <= 8
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def a_stream_says_the_same(_, client, model):
    request = dict(model=model, messages=user("Tell me"), max_tokens=24, temperature=0)
    plain = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == plain.choices[0].message.content, (text, plain.choices[0].message.content)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == plain.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == plain.usage.prompt_tokens
    without = list(client.chat.completions.create(**request, stream=True))
    assert all(c.usage is None and c.choices for c in without)


def completions_too(_, client, model):
    request = dict(model=model, prompt="Once upon a time", max_tokens=12, temperature=0)
    plain = client.completions.create(**request)
    assert plain.object == "text_completion" and plain.usage.completion_tokens <= 12
    text = "".join(c.choices[0].text for c in client.completions.create(**request, stream=True) if c.choices)
    assert text == plain.choices[0].text
    several = client.completions.create(**{**request, "prompt": ["a", "b", "a"]})
    assert [c.index for c in several.choices] == [0, 1, 2]
    assert several.choices[0].text == several.choices[2].text


def a_stop_string_is_cut(_, client, model):
    request = dict(model=model, prompt="The river", max_tokens=48, temperature=0)
    whole = client.completions.create(**request).choices[0].text
    stop = next(whole[i:i + 2] for i in range(4, len(whole) - 1) if "\ufffd" not in whole[i:i + 2])
    cut = client.completions.create(**request, stop=[stop]).choices[0]
    assert cut.text == whole[:whole.index(stop)] and cut.finish_reason == "stop", (cut.text, stop, whole)
    chunks = client.completions.create(**request, stop=stop, stream=True)
    assert "".join(c.choices[0].text for c in chunks if c.choices) == cut.text


def several_answers(_, client, model):
    request = dict(model=model, messages=user("Say"), max_tokens=16, temperature=1.0, seed=5, n=3)
    answer = client.chat.completions.create(**request)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    texts = [c.message.content for c in answer.choices]
    assert len(set(texts)) > 1, texts
    assert [c.message.content for c in client.chat.completions.create(**request).choices] == texts
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def logprobs_are_given(_, client, model):
    request = dict(model=model, messages=user("Hi"), max_tokens=4, temperature=0, logprobs=True, top_logprobs=3)
    content = client.chat.completions.create(**request).choices[0].logprobs.content
    assert 0 < len(content) <= 4
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob >= token.top_logprobs[2].logprob
        assert abs(token.logprob - token.top_logprobs[0].logprob) < 1e-6, "greedy takes the likeliest"
        assert token.bytes is not None
    plain = client.completions.create(model=model, prompt="Hi", max_tokens=3, temperature=0, logprobs=2).choices[0]
    assert len(plain.logprobs.tokens) == len(plain.logprobs.token_logprobs) == len(plain.logprobs.top_logprobs) <= 3
    assert client.chat.completions.create(model=model, messages=user("Hi"), max_tokens=2).choices[0].logprobs is None


def mistakes_are_told_apart(server, client, model):
    def chat(who=client, **more):
        return who.chat.completions.create(**{"model": model, "messages": user("x"), "max_tokens": 2, **more})

    error = raises(openai.NotFoundError, lambda: chat(model="nobody"))
    assert error.code == "model_not_found" and model in str(error)
    for bad in (dict(temperature=-1), dict(temperature="hot"), dict(max_tokens=-4), dict(messages=[]), dict(top_p=2), dict(n=0)):
        error = raises(openai.BadRequestError, lambda: chat(**bad))
        assert error.type == "invalid_request_error" and error.param.split("[")[0] == next(iter(bad)), (bad, error.body)
    for bad in (dict(modalities=["text", "audio"]), dict(audio={"voice": "alloy", "format": "wav"}), dict(reasoning_effort="high"),
                dict(stream_options={"include_usage": True}), dict(response_format={"type": "json_object"}), dict(logit_bias={"9999999": 1}),
                dict(tools=[{"type": "function", "function": {"name": "f"}}]), dict(web_search_options={})):
        error = raises(openai.BadRequestError, lambda: chat(**bad))
        assert error.param == next(iter(bad)) and error.param in str(error), (bad, error.body)
    for message, field in (({"role": "robot", "content": "x"}, "role"), ({"role": "user"}, "content"), ({"role": "assistant"}, "content")):
        error = raises(openai.BadRequestError, lambda: chat(messages=user("x") + [message]))
        assert error.param == f"messages[1].{field}", error.body
    error = raises(openai.BadRequestError, lambda: client.completions.create(model=model, prompt=[9999999], max_tokens=1))
    assert error.param == "prompt", error.body
    for stream in (False, True):
        error = raises(openai.BadRequestError, lambda: chat(messages=user("word " * 20000), stream=stream))
        assert error.code == "context_length_exceeded", error.body
    for key in ("k-nobody", KEY + "x", KEY[:-1]):
        stranger = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
        error = raises(openai.AuthenticationError, lambda: chat(stranger))
        assert key not in str(error)


def who_leaves_takes_the_work_along(server, client, model):
    stream = client.completions.create(model=model, prompt="Go on", max_tokens=400, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    server.settles()
    hasty = client.with_options(timeout=0.02, max_retries=0)
    raises(openai.APITimeoutError, lambda: hasty.completions.create(
        model=model, prompt="Go on " * 40, max_tokens=200, extra_body={"ignore_eos": True}))
    server.settles()
    client.completions.create(model=model, prompt="x", max_tokens=1)


def a_crowd_gets_what_each_would_alone(server, client, model):
    prompts = [f"{i} {'and so ' * i}on" for i in range(8)]
    alone = [client.completions.create(model=model, prompt=p, max_tokens=12, temperature=0).choices[0].text for p in prompts]

    async def crowd():
        many = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=KEY)
        asked = [many.completions.create(model=model, prompt=p, max_tokens=12, temperature=0) for p in prompts]
        return [answer.choices[0].text for answer in await asyncio.gather(*asked)]

    assert asyncio.run(crowd()) == alone


def a_raw_answer_has_its_headers(_, client, model):
    raw = client.chat.completions.with_raw_response.create(model=model, messages=user("Hi"), max_tokens=1)
    assert raw.headers["content-type"].startswith("application/json")
    with client.chat.completions.with_streaming_response.create(
            model=model, messages=user("Hi"), max_tokens=1, stream=True) as streaming:
        assert streaming.headers["content-type"].startswith("text/event-stream")


def it_knows_a_capital(_, client, model):
    # a question that this model is sure about: with that of France, French comes so close that rounding decides
    answer = client.chat.completions.create(model=model, messages=user("Name the capital of Italy."), max_tokens=24, temperature=0)
    assert "Rome" in answer.choices[0].message.content, answer.choices[0].message.content


def it_says_what_the_reference_says(_, client, model):
    golden = json.loads((REPO / "fixtures" / "real" / f"{REAL}.json").read_text())["short"]
    text = client.completions.create(model=model, prompt=golden["prompt_ids"], max_tokens=40, temperature=0).choices[0].text
    assert golden["greedy_text"].startswith(text), (text, golden["greedy_text"])


# ------------------------------------------------------------ the same by Anthropic's client


def claude(server, **more):
    return anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0, timeout=120, **more)


# Its client has no parameter for it any more; the API still has.
GREEDY = {"extra_body": {"temperature": 0}}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def messages_are_answered(server, client, model):
    them = claude(server)
    request = dict(model=model, messages=user("Tell me"), max_tokens=24, **GREEDY)
    message = them.messages.create(**request)
    assert (message.type, message.role, message.model) == ("message", "assistant", model) and message.id.startswith("msg_")
    assert message.stop_reason in ("end_turn", "max_tokens") and 0 < message.usage.output_tokens <= 24
    said = client.chat.completions.create(**request).choices[0].message.content
    assert text_of(message) == said, (message.content, said)
    read = message.usage.input_tokens + message.usage.cache_read_input_tokens
    assert them.messages.count_tokens(model=model, messages=user("Tell me")).input_tokens == read > 0
    again = them.messages.create(**{**request, "max_tokens": 1})
    assert again.stop_reason == "max_tokens" and again.usage.output_tokens == 1
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert them.messages.create(**request, system="Be brief.").content == them.messages.create(**request, system=blocks).content


def a_message_streams_the_same(server, _, model):
    them = claude(server, default_headers={"authorization": f"Bearer {KEY}"})
    request = dict(model=model, messages=user("Tell me more"), max_tokens=24, **GREEDY)
    whole = them.messages.create(**request)
    with them.messages.stream(**request) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == text_of(whole) == text_of(final) and len(final.content) == len(whole.content) == 1, (text, whole.content, final.content)
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    kinds = [event.type for event in them.messages.create(**request, stream=True)]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds


def a_stop_sequence_is_named(server, _, model):
    them = claude(server)
    request = dict(model=model, messages=user("The river"), max_tokens=48, **GREEDY)
    whole = text_of(them.messages.create(**request))
    stop = next(whole[i:i + 2] for i in range(4, len(whole) - 1) if "\ufffd" not in whole[i:i + 2])
    cut = them.messages.create(**request, stop_sequences=["never said", stop])
    assert text_of(cut) == whole[:whole.index(stop)] and (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop)


def anthropic_mistakes_are_told_apart(server, _, model):
    them = claude(server)

    def message(who=them, **more):
        return who.messages.create(**{"model": model, "messages": user("x"), "max_tokens": 2, **more})

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    error = raises(anthropic.NotFoundError, lambda: message(model="nobody"))
    assert error.body["error"]["type"] == "not_found_error" and error.request_id, error.body
    for bad, word in ((dict(extra_body={"temperature": -1}), "temperature"), (dict(max_tokens=0), "max_tokens"), (dict(messages=[]), "messages"),
                      (dict(messages=[{"role": "user", "content": [image]}]), "image"), (dict(stop_sequences=[""]), "stop_sequences"),
                      (dict(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools.0.type"),
                      (dict(messages=user("word " * 20000)), "prompt is too long")):
        for stream in (False, True):
            error = raises(anthropic.BadRequestError, lambda: message(**bad, stream=stream))
            assert error.body["error"]["type"] == "invalid_request_error" and word in str(error), (bad, error.body)
    for key in ("k-nobody", KEY + "x"):
        stranger = anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)
        error = raises(anthropic.AuthenticationError, lambda: message(stranger))
        assert key not in str(error)


def anthropic_models_are_listed(server, _, model):
    them = claude(server)
    assert [m.id for m in them.models.list()] == [model]
    one = them.models.retrieve(model)
    assert one.id == one.display_name == model and one.created_at.year > 2000


# ------------------------------------------------------------ a model that thinks, speaks and calls: the script of SCRIPT

TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
SCRIPT = ["<think>", "plan", "</think>", "So.", "<tool_call>", '{"name": "look", "argu', 'ments": {"at": "h', 'ere, \\"now\\""}}', "</tool_call>", "\n"]
TEMPLATE = ("{#<tool_call></think>#}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
            "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments.at }}{% endfor %}{% endfor %}<go>")
AT = 'here, "now"'


def a_tool_is_called(_, client, model):
    request = dict(model=model, messages=user("look"), max_tokens=100, tools=[{"type": "function", "function": TOOL}])
    choice = client.chat.completions.create(**request).choices[0]
    call = choice.message.tool_calls[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "So." and len(choice.message.tool_calls) == 1
    assert call.function.name == "look" and json.loads(call.function.arguments) == {"at": AT} and call.id
    assert choice.message.reasoning_content == "plan"
    with client.chat.completions.stream(**request) as stream:
        deltas = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
        streamed = stream.get_final_completion().choices[0]
    assert len([delta for delta in deltas if delta]) > 1, deltas
    assert streamed.finish_reason == "tool_calls" and streamed.message.content == "So."
    assert json.loads(streamed.message.tool_calls[0].function.arguments) == {"at": AT}
    history = user("look") + [choice.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "42"}]
    again = client.chat.completions.create(**{**request, "messages": history})
    assert again.choices[0].message.tool_calls and again.usage.prompt_tokens > 0
    usage = client.chat.completions.create(**request).usage
    assert usage.completion_tokens_details.reasoning_tokens == 3


def a_tool_is_used(server, _, model):
    them = claude(server)
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    request = dict(model=model, messages=user("look"), max_tokens=100, tools=[tool], thinking={"type": "enabled", "budget_tokens": 1024})
    message = them.messages.create(**{**request, "max_tokens": 1100})
    assert message.stop_reason == "tool_use" and [block.type for block in message.content] == ["thinking", "text", "tool_use"], message
    thought, said, use = message.content
    assert (thought.thinking, said.text, use.name, use.input) == ("plan", "So.", "look", {"at": AT})
    with them.messages.stream(**{**request, "max_tokens": 1100}) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert len(parts) > 1 and final.content[2].input == use.input and final.stop_reason == "tool_use"
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "42"}]}
    history = user("look") + [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    again = them.messages.create(**{**request, "messages": history, "max_tokens": 1100})
    assert again.content[2].input == {"at": AT} and again.content[2].id != use.id


def what_cannot_be_forced_is_refused(server, client, model):
    tools = [{"type": "function", "function": TOOL}]
    for choice in ("required", {"type": "function", "function": {"name": "look"}}):
        error = raises(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=user("x"), tools=tools, tool_choice=choice))
        assert error.param == "tool_choice", error.body
    tool = {"name": "look", "input_schema": TOOL["parameters"]}
    error = raises(anthropic.BadRequestError, lambda: claude(server).messages.create(
        model=model, messages=user("x"), max_tokens=9, tools=[tool], tool_choice={"type": "any"}))
    assert "tool_choice" in str(error)


SCRIPTED = [a_tool_is_called, a_tool_is_used, what_cannot_be_forced_is_refused]


def scripted():
    """Writes the model."""
    folder = TARGET / "python-clients" / "scripted"
    shutil.rmtree(folder, ignore_errors=True)
    command = ["cargo", "run", "--quiet", "--package", "omlx-fixtures", "--example", "parrot", "--", str(folder), TEMPLATE, *SCRIPT]
    subprocess.run(command, cwd=REPO, check=True)
    return folder


EVERYWHERE = [models_are_listed, a_chat_is_answered, a_stream_says_the_same, completions_too, a_stop_string_is_cut, several_answers,
              logprobs_are_given, mistakes_are_told_apart, who_leaves_takes_the_work_along, a_crowd_gets_what_each_would_alone,
              a_raw_answer_has_its_headers, messages_are_answered, a_message_streams_the_same, a_stop_sequence_is_named,
              anthropic_mistakes_are_told_apart, anthropic_models_are_listed]


def raises(kind, act):
    try:
        result = act()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, there was {result!r}")


def run(binary, path, checks):
    passed = failed = 0
    with Server(binary, path) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)
        model = client.models.list().data[0].id
        for check in checks:
            start = time.monotonic()
            try:
                check(server, client, model)
            except Exception:
                failed += 1
                print(f"FAILED  {model}: {check.__name__}", flush=True)
                traceback.print_exc()
            else:
                passed += 1
                print(f"ok      {model}: {check.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    return passed, failed


def models_dir():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("OMLX_MODELS") or Path(cache) / "omlx" / "models")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, help="the binary to test; built where left out")
    parser.add_argument("--models", type=Path, default=models_dir(), help="where real models lie")
    args = parser.parse_args()
    own_environment()
    global openai, anthropic
    import anthropic
    import openai
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}, Python {sys.version.split()[0]}", flush=True)
    binary = (args.server or build()).resolve()
    results = [run(binary, REPO / "fixtures" / "tiny" / "llama", EVERYWHERE), run(binary, scripted(), SCRIPTED)]
    for name, sign, more in ((REAL, "config.json", [it_knows_a_capital, it_says_what_the_reference_says]), (DEMO, ".", [it_knows_a_capital])):
        real = args.models / name
        if (real / sign).exists():
            results.append(run(binary, real, EVERYWHERE + more))
        elif os.environ.get("OMLX_REQUIRE_MODELS"):
            print(f"FAILED  {real} is not there: run `cargo xtask models`")
            results.append((0, 1))
        else:
            print(f"skipped {name}: run `cargo xtask models` (looked in {args.models})")
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
