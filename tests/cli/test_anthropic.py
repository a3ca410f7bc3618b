"""`waldo run -m anthropic:...` against the strict Messages stand-in: the real run engine, a real sandbox."""
import json

import pytest
from program import call


@pytest.fixture
def agent(waldo, messages):
    """The program with the stand-in as its model and a local sandbox."""
    waldo.args = ("-m", f"anthropic:{messages.url}#none", "-s", "local:")
    return waldo


def exec_calls(*commands, start=0):
    return {"calls": [{"id": f"toolu_{i}", "name": "exec_command", "arguments": {"cmd": command}}
                      for i, command in enumerate(commands, start)]}


def test_calls_run_and_the_history_is_accepted(agent, messages):
    messages.queue({"thinking": "I look.", "text": "Let me look.", **exec_calls("echo from-$((40 + 2))", "echo two")},
                   {"thinking": "", **exec_calls("echo third; exit 3", start=2)},
                   {"redacted": "Em8=", "text": "it said: {result}"})
    done = agent("run", "say it")
    assert done.returncode == 0, done.stderr
    assert "Let me look." in done.stdout and "it said: " in done.stdout and "third" in done.stdout
    first, second, third = messages.requests()
    assert first["path"] == "/v1/messages" and first["headers"]["anthropic-version"] == "2023-06-01"
    assert first["json"]["max_tokens"] == 8192 and "cache_control" not in first["json"]
    turn = second["json"]["messages"]
    assert [message["role"] for message in turn] == ["user", "assistant", "user"]
    assert turn[1]["content"][0] == {"type": "thinking", "thinking": "I look.", "signature": "EqQBsig0001=="}
    assert turn[1]["content"][1] == {"type": "text", "text": "Let me look."}
    assert turn[1]["content"][2] == {"type": "tool_use", "id": "toolu_0", "name": "exec_command",
                                     "input": {"cmd": "echo from-$((40 + 2))"}, "caller": {"type": "direct"}}
    results = turn[2]["content"]
    assert [part["tool_use_id"] for part in results] == ["toolu_0", "toolu_1"]
    assert "from-42" in results[0]["content"][0]["text"] and "two" in results[1]["content"][0]["text"]
    assert not any("is_error" in part for part in results)
    assert third["json"]["messages"][:3] == turn


def test_requests_only_grow(agent, messages):
    messages.queue(*[{"thinking": "hm", **exec_calls("true", start=i)} for i in range(4)], {"text": "done"})
    assert agent("run", "x").returncode == 0
    bodies = [request["raw"] for request in messages.requests()]
    assert len(bodies) == 5
    for before, after in zip(bodies, bodies[1:]):
        assert before.endswith(b"]}]}") and after.startswith(before[:-4])


def test_the_documented_example(agent, messages):
    """Its tool is not there: the model is told, as an error."""
    agent.args = ("-m", f"anthropic:{messages.url}#claude-opus-5-5", "-s", "local:")
    done = agent("run", "say hé")
    assert done.returncode == 0 and "the results were: " in done.stdout, done.stderr
    turn = messages.requests()[1]["json"]["messages"]
    assert turn[:2] == [
        {"role": "user", "content": [{"type": "text", "text": "say hé"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Run it.", "signature": "EqQBCkgIARAB"},
            {"type": "text", "text": "Running café 😀."},
            {"type": "tool_use", "id": "toolu_01A", "name": "run_command", "input": {"cmd": "echo hé"},
             "caller": {"type": "direct"}}]}]
    assert turn[2]["content"][0]["is_error"] is True


@pytest.mark.parametrize("form", ["llamacpp", "ollama", "bare"])
def test_the_forms_of_other_servers(agent, messages, form):
    url = messages.url.replace("/v1", "/llamacpp/v1")
    agent.args = ("-m", f"anthropic:{url}#none", "-s", "local:")
    messages.queue({"form": form, "thinking": "hm", "text": "Hm: so.", **exec_calls("echo of-$((1 + 1))")},
                   {"text": "{result}"})
    done = agent("run", "x")
    assert done.returncode == 0 and "Hm: so." in done.stdout and "of-2" in done.stdout, done.stderr


def test_a_server_that_wants_its_thinking_back(agent, messages):
    url = messages.url.replace("/v1", "/deepseek/v1")
    agent.args = ("-m", f"anthropic:{url}#none", "-s", "local:")
    messages.queue({"thinking": "hm", **exec_calls("true")}, {"text": "fine"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr


def test_thinking_and_usage_are_told(agent, messages):
    messages.queue({"thinking": "one two", "text": "done"})
    done = agent("run", "--json", "x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(event["text"] for event in events if event["type"] == "reasoning") == "one two"
    usage = next(event for event in events if event["type"] == "usage")
    assert [usage[name] for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")] == [
        412, 47, 300, 9]
    assert usage["cache_write_tokens"] == 100


def test_usage_of_a_cut_answer_is_a_part(agent, messages):
    messages.queue({"text": "some", "no_stop": True, "no_reason": True}, {"text": "done"})
    done = agent("run", "--json", "x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    cut, whole = [event for event in events if event["type"] == "usage"]
    assert (cut["input_tokens"], cut["output_tokens"], cut["incomplete"]) == (412, 1, True)
    assert (whole["input_tokens"], whole["output_tokens"], whole["incomplete"]) == (412, 47, False)


def test_a_paused_turn_goes_on_by_itself(agent, messages):
    agent.args = ("-m", f"anthropic:{messages.url}#pause", "-s", "local:")
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout == "hello\n", done.stderr
    first, second = messages.requests()
    assert second["json"]["messages"][1] == {"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}]}
    assert second["raw"].startswith(first["raw"][:-4])


def test_pauses_are_limited(agent, messages):
    block = {"type": "server_tool_use", "name": "web_search", "input": {}}
    messages.control(model="none", turns=[{"content": [{**block, "id": "srvtoolu_1"}], "stop": "pause_turn"}])
    done = agent("run", "--max-turns", "3", "x")
    assert done.returncode == 3 and len(messages.requests()) == 3, done.stderr


def test_an_empty_answer_ends_the_turn(agent, messages):
    messages.queue(exec_calls("true"), {"content": []})
    assert agent("run", "x").returncode == 0
    assert len(messages.requests()) == 2


def test_what_was_cut_is_not_run(agent, messages):
    messages.queue({"calls": [{"id": "toolu_1", "name": "exec_command", "arguments": '{"cmd":"touch '}],
                    "stop": "max_tokens"}, {"text": "{result}"})
    done = agent("run", "x")
    assert done.returncode == 0 and "JSON" in done.stdout, done.stderr
    assert messages.requests()[1]["json"]["messages"][1]["content"][0]["input"] == {"_raw": '{"cmd":"touch '}


@pytest.mark.parametrize("full", [{"text": "and so", "stop": "model_context_window_exceeded"},
                                  {"status": 400, "json": {"error": {
                                      "type": "invalid_request_error",
                                      "message": "prompt is too long: 9 tokens > 8 maximum"}}}])
def test_a_full_window_is_tried_once_with_less(agent, messages, full):
    messages.queue(exec_calls("yes | head -c 20000"), full, {"text": "done"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr
    _, before, after = messages.requests()
    assert len(before["raw"]) > 20000 > len(after["raw"]) and "left out here" in after["body"]


STOPS = {
    "length": ({"text": "and so", "stop": "max_tokens"}, 3, "output limit"),
    "window": ({"text": "and so", "stop": "model_context_window_exceeded"}, 1, "too long"),
    "refusal": ({"text": "I", "stop": "refusal", "details": {"category": "cyber"}}, 1, "refused"),
    "401": ({"status": 401, "json": {"error": {"message": "invalid x-api-key", "type": "authentication_error"}}}, 5,
            "key"),
    "404": ({"status": 404, "json": {"error": {"message": "model: none", "type": "not_found_error"}}}, 5, "model"),
    "overflow": ({"status": 400, "json": {"error": {"message": "prompt is too long: 9 tokens > 8 maximum",
                                                    "type": "invalid_request_error"}}}, 1, "long"),
    "html-502": ({"status": 502, "html": "<html>Bad Gateway</html>"}, 5, "502"),
    "truncated": ({"text": "half an", "no_stop": True}, 1, "terminal event"),
    "overloaded": ({"text": "some text", "stream_error": "overloaded_error"}, 5, "crashed"),
    "invalid": ({"text": "some text", "stream_error": "invalid_request_error"}, 2, "crashed"),
}


@pytest.mark.parametrize("name", STOPS)
def test_how_it_ends_is_named(agent, messages, name):
    reply, code, says = STOPS[name]
    messages.queue(*[{**reply, "headers": {"Retry-After-Ms": "1"}}] * 8)
    done = agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-ant-not-to-be-shown"})
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("waldo: ") and says in last, done.stderr
    assert "sk-ant-not-to-be-shown" not in done.stdout + done.stderr


def test_why_it_refused_is_told(agent, messages):
    messages.queue({"text": "I", "stop": "refusal", "details": {"category": "cyber", "explanation": "Not that."}})
    done = agent("run", "x")
    assert "the model refused (cyber): Not that." in done.stderr


RETRIED = {
    "429": {"status": 429, "json": {"error": {"message": "slow down", "type": "rate_limit_error"}},
            "headers": {"Retry-After-Ms": "1"}},
    "529": {"status": 529, "json": {"error": {"message": "Overloaded", "type": "overloaded_error"}},
            "headers": {"Retry-After": "0"}},
    "400-forced": {"status": 400, "json": {"error": {"message": "odd"}}, "headers": {"x-should-retry": "true"}},
    "overloaded": {"text": "some text", "stream_error": "overloaded_error"},
    "first-event": {"text": "some text", "stream_error": "overloaded_error", "after": 0},
    "lost": {"text": "some", "no_stop": True},
    "dropped": {"text": "some", "drop_at": 900},
}


@pytest.mark.parametrize("name", RETRIED)
def test_what_may_pass_is_tried_again(agent, messages, name):
    messages.queue(RETRIED[name], {"text": "at last"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("at last\n"), done.stderr
    first, second = messages.requests()
    assert first["raw"] == second["raw"]


def test_thinking_that_is_refused_is_left_out_once(agent, messages):
    """Bound to what stood before it, it is no good any more when that has changed."""
    messages.control(strict=False)
    why = {"type": "invalid_request_error", "message": "messages.1.content.0: The block is bound to a different "
                                                       "conversation prefix."}
    messages.queue({"thinking": "hm", "text": "so", **exec_calls("true")}, {"status": 400, "json": {"error": why}},
                   {"text": "fine"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr
    with_it, without = (request["json"]["messages"][1]["content"] for request in messages.requests()[1:])
    assert [block["type"] for block in with_it] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in without] == ["text", "tool_use"]


@pytest.mark.parametrize("reply", [
    {"status": 429, "json": {"error": {"message": "no", "type": "rate_limit_error",
                                       "details": {"error_code": "enforced_spend_limit_reached"}}}},
    {"status": 429, "json": {"error": {"message": "no"}}, "headers": {"x-should-retry": "false"}},
    {"text": "x", "stop": "model_context_window_exceeded"}, {"text": "x", "stop": "refusal"}])
def test_what_will_not_pass_is_not_tried_again(agent, messages, reply):
    messages.queue(*[reply] * 3)
    assert agent("run", "x").returncode != 0
    assert len(messages.requests()) == 1


def test_the_key_goes_where_it_is_named_for(agent, messages):
    key = "sk-ant-0123456789abcdef"
    messages.queue({"text": "ok"}, {"text": "ok"})
    assert agent("run", "x", env={"ANTHROPIC_API_KEY": key}).returncode == 0
    assert agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": key}).returncode == 0
    other, named = messages.requests()
    assert "x-api-key" not in other["headers"] and named["headers"]["x-api-key"] == key
    assert "authorization" not in named["headers"]


def test_the_key_may_go_as_a_bearer_token(agent, messages):
    agent.args = ("-m", f"anthropic:{messages.url}#none,auth=bearer", "-s", "local:")
    messages.queue({"text": "ok"})
    assert agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-ant-0123456789abcdef"}).returncode == 0
    headers = messages.requests()[0]["headers"]
    assert headers["authorization"] == "Bearer sk-ant-0123456789abcdef" and "x-api-key" not in headers


def test_a_quoted_key_does_not_come_out(agent, messages):
    messages.queue(*[{"status": 400, "echo": True}] * 3)
    done = agent("run", "-v", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-ant-0123456789abcdef"})
    assert done.returncode == 1 and "sk-ant-0123456789abcdef" not in done.stdout + done.stderr


def test_tool_choice_and_sampling(agent, messages):
    messages.queue(exec_calls("true"), {"text": "ok"})
    assert agent("run", "--tool-choice", "required", "--temperature", "0.5", "x").returncode == 0
    first, second = (request["json"] for request in messages.requests())
    assert (first["tool_choice"], first["temperature"]) == ({"type": "any"}, 0.5) and "tool_choice" not in second


def test_sampling_beyond_the_api_is_refused_before_any_request(agent, messages):
    done = agent("run", "--temperature", "1.5", "x")
    assert done.returncode != 0 and "0 to 1" in done.stderr and messages.requests() == []


def test_doctor(agent, messages):
    messages.queue({"text": "ready"})
    done = agent("doctor")
    assert done.returncode == 0 and f"  ok  anthropic:{messages.url}#none\n" in done.stdout, done.stdout
    messages.queue(*[{"status": 401, "json": {"error": {"message": "wrong key"}}}] * 4)
    done = agent("doctor")
    assert done.returncode == 5 and f"  no  anthropic:{messages.url}#none\n" in done.stdout
    assert "wrong key" in done.stdout


def test_other_tools_of_the_program(agent, messages):
    messages.queue(call("ls", path="."), {"text": "done"})
    assert agent("run", "--approve", "ask", "x").returncode == 0
