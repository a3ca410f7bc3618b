"""A stand-in for OpenAI's Responses API: strict about requests, scripted in its replies.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof]

Base path `/v1`, or `/VENDOR/v1` for the rules of llamacpp, ollama, vllm or deepseek. What a reply may say: events.py;
the scenarios: turns.py; ports and control: common/service.py.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import events  # noqa: E402
import judge  # noqa: E402
import service  # noqa: E402
import turns  # noqa: E402
from wire import Refused  # noqa: E402

MADE = {"reasoning", "function_call", "custom_tool_call", "compaction"}
STATELESS = {"llamacpp", "ollama"}


def is_made(item):
    return item.get("type") in MADE or item.get("role") == "assistant"


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def items_of(body):
    return body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]


class Responses(service.Service):
    vendors = {"openai", "llamacpp", "ollama", "vllm", "deepseek"}
    path = ["responses"]
    scenarios = turns.SCENARIOS

    def __init__(self):
        self.led = set()  # (model, id) of items that were sent directly behind reasoning

    def turn(self, body):
        made = [is_made(item) for item in items_of(body)]
        return sum(here and not before for here, before in zip(made, [False, *made]))

    def check(self, body, vendor):
        if "previous_response_id" in body:
            raise Refused("Previous response with id '" + str(body["previous_response_id"]) + "' not found."
                          if vendor not in STATELESS else "'previous_response_id' is not supported",
                          "previous_response_id", "previous_response_not_found")
        judge.check(body, vendor, {made for model, made in self.led if model == body.get("model")})

    def said(self, body):
        results = []
        for item in reversed(items_of(body)):
            if not item.get("type", "").endswith("_output"):
                break
            results.insert(0, text_of(item["output"]))
        return results, [text_of(item["content"]) for item in items_of(body) if item.get("role") == "user"]

    def note(self, reply, model):
        made = events.items(reply)
        for before, item in zip(made, made[1:]):
            if before["type"] == "reasoning" and "id" in item:
                self.led.add((model, item["id"]))

    def stream(self, reply, body):
        self.note(reply, body["model"])
        return events.stream(reply, body)

    def whole(self, reply, body):
        self.note(reply, body["model"])
        return events.whole(reply, body)


if __name__ == "__main__":
    service.serve(Responses(), sys.argv[1:])
