"""A server that quotes the whole request, key and all: the key comes out nowhere, in no form, with no API."""
import base64
import json
import urllib.parse

import pytest

KEY = 'sk-ab/cd+ef=gh&ij"kl?0123456789-abcdefghijkl'
FORMS = ["base64", "url"]
APIS = {"chat": "chat", "responses": "openai", "messages": "anthropic"}
HOWS = {
    "refused": {"status": 400, "headers": {"x-request-id": KEY, "request-id": KEY}},
    "unavailable": {"status": 503, "headers": {"Retry-After-Ms": "1"}},
    "in-the-stream": {"status": 200, "stream_error": {"chat": "object", "responses": "flat", "messages": "api_error"}},
    "in-the-stream-oddly": {"status": 200, "stream_error": {"chat": "string", "responses": "object",
                                                            "messages": "overloaded_error"}},
    "failed": {"status": 200, "failed": "server_error"},
    "as-the-answer": {"status": 200},
}


def forms_of(key):
    """The key as it is, in JSON, in a URL, and in base64 at each place of a longer text."""
    yield key
    yield json.dumps(key)[1:-1]
    yield json.dumps(json.dumps(key)[1:-1])[1:-1]
    yield urllib.parse.quote(key, safe="")
    yield urllib.parse.quote(key)
    yield urllib.parse.quote_plus(key)
    for skipped in range(3):
        text = key.encode()[skipped:]
        text = text[:len(text) // 3 * 3]
        yield base64.b64encode(text).decode()
        yield base64.urlsafe_b64encode(text).decode()


def assert_silent(text):
    for form in forms_of(KEY):
        assert form not in text, "the key came out"


@pytest.fixture(params=APIS)
def echoing(request, waldo):
    standin = request.getfixturevalue(request.param)
    waldo.args = ("-m", f"{APIS[request.param]}:{standin.url}#none", "-s", "local:", "-v", "--key", "MY_KEY")
    waldo.env["MY_KEY"] = KEY
    return request.param, waldo, standin


def queue(api, standin, how):
    reply = {"echo": True, "forms": FORMS, **HOWS[how]}
    if isinstance(reply.get("stream_error"), dict):
        reply["stream_error"] = reply["stream_error"][api]
    standin.queue(*[reply] * 8)


def assert_quoted(standin):
    """The stand-in has had the key and so has quoted it: this test could fail."""
    assert any(KEY in value for value in standin.requests()[0]["headers"].values())


@pytest.mark.parametrize("how", HOWS)
def test_a_quoted_key_comes_out_nowhere(echoing, how, tmp_path):
    api, waldo, standin = echoing
    if how == "failed" and api != "responses":
        pytest.skip("no event of this API says so")
    queue(api, standin, how)
    file = tmp_path / "recording.jsonl"
    done = waldo("run", "--record", file, "x")
    assert (done.returncode == 0) == (how == "as-the-answer"), done.stderr
    assert_silent(done.stdout + done.stderr)
    assert_silent(file.read_text())
    if how == "as-the-answer":  # as it is, in base64, in a URL
        assert done.stdout.count("[MY_KEY]") >= 3
    else:
        assert "[MY_KEY]" in done.stderr and "[MY_KEY]" in file.read_text()
    assert_quoted(standin)


@pytest.mark.parametrize("how", ["refused", "in-the-stream", "as-the-answer"])
def test_events_and_a_doctor_are_silent(echoing, how):
    api, waldo, standin = echoing
    queue(api, standin, how)
    done = waldo("run", "--json", "x")
    assert_silent(done.stdout + done.stderr)
    assert "[MY_KEY]" in done.stdout
    standin.reset()
    queue(api, standin, how)
    done = waldo("doctor")
    assert (done.returncode == 0) == (how == "as-the-answer"), done.stdout
    assert_silent(done.stdout + done.stderr)
    assert_quoted(standin)
