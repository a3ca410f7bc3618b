"""`waldo run -m openai:...` against the strict Responses stand-in: the real run engine, a real sandbox."""
import json

import pytest
from program import call

REASONED = {"reasoning": "I look.", "text": "Let me look.", "phase": "commentary"}


@pytest.fixture
def agent(waldo, responses):
    """The program with the stand-in as its model and a local sandbox."""
    waldo.args = ("-m", f"openai:{responses.url}#none", "-s", "local:")
    return waldo


def exec_calls(*commands):
    return {"calls": [{"id": f"call_{i}", "name": "exec_command", "arguments": {"cmd": command}}
                      for i, command in enumerate(commands)]}


def test_calls_run_and_the_history_is_accepted(agent, responses):
    responses.queue({**REASONED, **exec_calls("echo from-$((40 + 2))", "echo second")},
                    {"reasoning": "", **exec_calls("echo third")},
                    {"text": "it said: {result}", "phase": "final_answer"})
    done = agent("run", "say it")
    assert done.returncode == 0, done.stderr
    assert "Let me look." in done.stdout and "it said: " in done.stdout and "third" in done.stdout
    first, second, third = responses.requests()
    assert first["path"] == "/v1/responses" and first["json"]["store"] is False
    assert first["json"]["include"] == ["reasoning.encrypted_content"] and "previous_response_id" not in third["json"]
    items = second["json"]["input"]
    assert [item.get("type", item.get("role")) for item in items] == [
        "user", "reasoning", "message", "function_call", "function_call", "function_call_output",
        "function_call_output"]
    assert items[1] == {"id": "rs_00", "type": "reasoning", "encrypted_content": "gAAAA-done",
                        "summary": [{"type": "summary_text", "text": "I look."}]}
    assert items[2]["phase"] == "commentary" and items[3]["id"] == "fc_02"
    assert "from-42" in items[5]["output"] and "second" in items[6]["output"]
    assert third["json"]["input"][:7] == items and third["json"]["input"][7]["encrypted_content"] == "gAAAA-done"


def test_requests_only_grow(agent, responses):
    responses.queue(*[{"reasoning": "", **exec_calls("true")}] * 4, {"text": "done"})
    assert agent("run", "x").returncode == 0
    bodies = [request["raw"] for request in responses.requests()]
    assert len(bodies) == 5
    for before, after in zip(bodies, bodies[1:]):
        assert before.endswith(b"]}") and after.startswith(before[:-2])


def test_the_provider_keeps_the_history(agent, responses):
    agent.args = ("-m", f"openai:{responses.url}#none,history=provider", "-s", "local:")
    responses.queue({**REASONED, **exec_calls("echo one")}, {"reasoning": "", **exec_calls("echo two")},
                    {"text": "it said: {result}"}, {"text": "and more"})
    done = agent("run", "--json", "say it")
    assert done.returncode == 0, done.stdout
    sent = [request["json"] for request in responses.requests()]
    assert [[item.get("type", item.get("role")) for item in body["input"]] for body in sent] == [
        ["user"], ["function_call_output"], ["function_call_output"]]
    assert [body.get("previous_response_id") for body in sent] == [None, "resp_0001", "resp_0002"]
    assert all(body["store"] is True and "include" not in body and body["tools"] == sent[0]["tools"] for body in sent)
    items = [json.loads(line).get("item", {}) for line in done.stdout.splitlines()]
    last = [item["response"] for item in items if "response" in item][-1]
    agent.args = ("-m", f"openai:{responses.url}#none,history=provider,previous={last}", "-s", "local:")
    done = agent("run", "more")
    assert done.returncode == 0 and done.stdout == "and more\n", done.stderr
    assert responses.requests()[3]["json"]["previous_response_id"] == "resp_0003"


def test_a_history_at_the_provider_is_recorded(agent, responses, tmp_path):
    file = tmp_path / "r.jsonl"
    agent.args = ("-m", f"openai:{responses.url}#none,history=provider", "-s", "local:")
    responses.queue({**REASONED, **exec_calls("echo one; date +%N")}, {"text": "it said: {result}"})
    first = agent("run", "--record", file, "say it")
    agent.args = ("-m", f"replay:{file}", "-s", "local:")
    again = agent("run", "say it")
    assert again.returncode == 0 and again.stdout == first.stdout, again.stderr
    assert len(responses.requests()) == 2


def test_what_the_provider_has_forgotten(agent, responses):
    agent.args = ("-m", f"openai:{responses.url}#none,history=provider,previous=resp_9", "-s", "local:")
    done = agent("run", "x")
    assert done.returncode == 1 and "begin a new run" in done.stderr, done.stderr
    agent.args = ("-m", f"chat:{responses.url}#none,history=provider", "-s", "local:")
    done = agent("run", "x")
    assert done.returncode == 2 and '"history=provider" is for openai: models' in done.stderr
    assert len(responses.requests()) == 1


def test_the_documented_example(agent, responses):
    """Its tool is not there: the model is told, in the form that its API wants."""
    agent.args = ("-m", f"openai:{responses.url}#gpt-5.6-sol", "-s", "local:")
    done = agent("run", "say hé")
    assert done.returncode == 0 and "the results were: ERROR" in done.stdout, done.stderr
    items = responses.requests()[1]["json"]["input"]
    assert items[:3] == [
        {"role": "user", "content": "say hé"},
        {"id": "rs_01", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA-done"},
        {"id": "fc_01", "type": "function_call", "status": "completed", "arguments": '{"cmd":"echo hé"}',
         "call_id": "call_AbC123", "name": "run_command"}]
    assert items[3]["call_id"] == "call_AbC123"


@pytest.mark.parametrize("form", ["llamacpp", "ollama", "sparse", "done-only", "other-ids"])
def test_the_forms_of_other_servers(agent, responses, form):
    responses.queue({"form": form, "text": "Hm: so.", **exec_calls("echo of-$((1 + 1))")}, {"text": "{result}"})
    done = agent("run", "x")
    assert done.returncode == 0 and "Hm: so." in done.stdout and "of-2" in done.stdout, done.stderr


@pytest.mark.parametrize("vendor,reply", [("llamacpp", {"form": "llamacpp", "thinking": "hm"}),
                                          ("llamacpp", {"form": "llamacpp", "reasoning": ""}),
                                          ("ollama", {"form": "ollama", "reasoning": "hm"}),
                                          ("deepseek", {"text": "so", "reasoning": "hm"})])
def test_the_rules_of_other_servers(agent, responses, vendor, reply):
    url = responses.url.replace("/v1", f"/{vendor}/v1")
    agent.args = ("-m", f"openai:{url}#none", "-s", "local:")
    if vendor == "llamacpp" and "reasoning" in reply:
        reply = {**reply, "output": [
            {"id": "rs_00", "type": "reasoning", "summary": []},
            {"id": "fc_01", "type": "function_call", "call_id": "fc_x", "name": "exec_command",
             "arguments": '{"cmd":"true"}'}]}
    responses.queue({**reply, **exec_calls("true", "true")}, {"text": "fine"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr


def test_reasoning_and_usage_are_told(agent, responses):
    responses.queue({"reasoning": "one\n\ntwo", "text": "done",
                     "usage": {"input_tokens": 312, "output_tokens": 58,
                               "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 40},
                               "output_tokens_details": {"reasoning_tokens": 32}}})
    done = agent("run", "--json", "x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(event["text"] for event in events if event["type"] == "reasoning") == "one\n\ntwo"
    usage = next(event for event in events if event["type"] == "usage")
    assert [usage[name] for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")] == [
        312, 58, 256, 32]
    assert usage["cache_write_tokens"] == 40


def test_what_was_cut_is_not_run(agent, responses):
    responses.queue({"calls": [{"id": "call_1", "name": "exec_command", "arguments": '{"cmd":"touch '}],
                     "incomplete": "max_output_tokens"}, {"text": "{result}"})
    done = agent("run", "x")
    assert done.returncode == 0 and "JSON" in done.stdout, done.stderr


STOPS = {
    "length": ({"text": "and so", "incomplete": "max_output_tokens"}, 3, "output limit"),
    "filter": ({"output": [], "incomplete": "content_filter"}, 1, "content filter"),
    "refusal": ({"refusal": "I cannot help with that."}, 1, "refused"),
    "401": ({"status": 401, "json": {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}}, 5, "key"),
    "404": ({"status": 404, "json": {"error": {"message": "no such model", "code": "model_not_found"}}}, 5, "model"),
    "overflow": ({"status": 400, "json": {"error": {"message": "x", "code": "context_length_exceeded"}}}, 1, "long"),
    "html-502": ({"status": 502, "html": "<html>Bad Gateway</html>"}, 5, "502"),
    "truncated": ({"text": "half an", "no_terminal": True}, 1, "terminal event"),
    "error-in-stream": ({"text": "some text", "stream_error": "flat"}, 5, "crashed"),
    "failed": ({"failed": "bio_policy", "message": "not that"}, 1, "not that"),
    "reasoning-only": ({"reasoning": "hm"}, 5, "without a message"),
}


@pytest.mark.parametrize("name", STOPS)
def test_how_it_ends_is_named(agent, responses, name):
    reply, code, says = STOPS[name]
    responses.queue(*[{**reply, "headers": {"Retry-After-Ms": "1"}}] * 8)
    done = agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-not-to-be-shown"})
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("waldo: ") and says in last, done.stderr
    assert "sk-not-to-be-shown" not in done.stdout + done.stderr


RETRIED = {
    "429": {"status": 429, "json": {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
            "headers": {"Retry-After-Ms": "1"}},
    "400-forced": {"status": 400, "json": {"error": {"message": "odd"}}, "headers": {"x-should-retry": "true"}},
    "failed": {"text": "some", "failed": "server_error"},
    "error": {"text": "some text", "stream_error": "object"},
    "lost": {"text": "some", "no_terminal": True},
    "dropped": {"text": "some", "drop_at": 900},
    "reasoning-only": {"reasoning": "hm"},
}


@pytest.mark.parametrize("name", RETRIED)
def test_what_may_pass_is_tried_again(agent, responses, name):
    responses.queue(RETRIED[name], {"text": "at last"})
    done = agent("run", "x")
    assert done.returncode == 0 and done.stdout.endswith("at last\n"), done.stderr
    first, second = responses.requests()
    assert first["raw"] == second["raw"]


@pytest.mark.parametrize("reply", [
    {"status": 429, "json": {"error": {"message": "no", "code": "insufficient_quota"}}},
    {"status": 429, "json": {"error": {"message": "no"}}, "headers": {"x-should-retry": "false"}},
    {"failed": "invalid_prompt"}, {"failed": "something_new"}])
def test_what_will_not_pass_is_not_tried_again(agent, responses, reply):
    responses.queue(*[reply] * 3)
    assert agent("run", "x").returncode != 0
    assert len(responses.requests()) == 1


STALE = {"status": 400, "json": {"error": {"message": "The encrypted content gAAA could not be verified.",
                                           "code": "invalid_encrypted_content"}}}


def test_reasoning_that_is_refused_is_dropped_once(agent, responses):
    """One bad item must not make every later request of the conversation fail."""
    responses.queue({**REASONED, **exec_calls("echo one")}, STALE, {"reasoning": "", **exec_calls("echo two")},
                    {"text": "{results}"})
    done = agent("run", "--json", "--max-turns", "3", "x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout
    assert len([event for event in events if event["type"] == "epoch"]) == 2
    assert any(event["type"] == "retry" and "could not be verified" in event["text"] for event in events)
    refused, plain, after = (request["json"]["input"] for request in responses.requests()[1:])
    assert [item.get("type") for item in refused][:2] == [None, "reasoning"]
    assert plain == [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": "Let me look."},
        {"type": "function_call", "call_id": "call_0", "name": "exec_command", "arguments": '{"cmd":"echo one"}'},
        refused[-1]]
    assert after[:4] == plain and after[4]["type"] == "reasoning" and after[5]["id"] == "fc_01"


def test_what_is_refused_for_ever_is_told(agent, responses):
    responses.queue(*[STALE] * 4)
    done = agent("run", "x")
    assert done.returncode == 1 and "could not be verified" in done.stderr.splitlines()[-1]
    assert len(responses.requests()) == 2


def test_the_key_goes_where_it_is_named_for(agent, responses):
    key = "sk-0123456789abcdef"
    responses.queue({"text": "ok"}, {"text": "ok"})
    assert agent("run", "x", env={"OPENAI_API_KEY": key}).returncode == 0
    assert agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": key}).returncode == 0
    other, named = responses.requests()
    assert "authorization" not in other["headers"] and named["headers"]["authorization"] == f"Bearer {key}"


def test_a_quoted_key_does_not_come_out(agent, responses):
    responses.queue(*[{"status": 400, "echo": True}] * 3)
    done = agent("run", "-v", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-0123456789abcdef"})
    assert done.returncode == 1 and "sk-0123456789abcdef" not in done.stdout + done.stderr


def test_tool_choice_and_sampling(agent, responses):
    responses.queue(exec_calls("true"), {"text": "ok"})
    assert agent("run", "--tool-choice", "required", "--temperature", "0.5", "x").returncode == 0
    first, second = (request["json"] for request in responses.requests())
    assert (first["tool_choice"], first["temperature"]) == ("required", 0.5) and "tool_choice" not in second


def test_sampling_beyond_the_api_is_refused_before_any_request(agent, responses):
    done = agent("run", "--temperature", "2.5", "x")
    assert done.returncode != 0 and "0 to 2" in done.stderr and responses.requests() == []


def test_doctor(agent, responses):
    responses.queue({"text": "ready"})
    done = agent("doctor")
    assert done.returncode == 0 and f"  ok  openai:{responses.url}#none\n" in done.stdout, done.stdout
    responses.queue(*[{"status": 401, "json": {"error": {"message": "wrong key"}}}] * 4)
    done = agent("doctor")
    assert done.returncode == 5 and f"  no  openai:{responses.url}#none\n" in done.stdout and "wrong key" in done.stdout


def test_other_tools_of_the_program(agent, responses):
    responses.queue(call("ls", path="."), {"text": "done"})
    assert agent("run", "--approve", "ask", "x").returncode == 0
