"""A stand-in for OpenAI's Responses API: strict about requests, scripted in its replies.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof]

Base path `/v1`, or `/VENDOR/v1` for the rules of llamacpp, ollama, vllm or deepseek. What a reply may say: events.py;
the scenarios: turns.py; ports and control: common/service.py. What is stored, and conversations, are kept (kept.py):
requests that go on from them must hold what is new and nothing else. `{"forget": true}` to /_control lets it expire;
`{"conversation": ID}` makes one.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import events  # noqa: E402
import judge  # noqa: E402
import kept  # noqa: E402
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
        self.reset()

    def reset(self):
        self.led = set()  # (model, id) of items that were sent directly behind reasoning
        self.kept = kept.Kept()

    def order(self, order):
        if order.get("forget"):
            self.kept.forget()
        if "conversation" in order:
            self.kept.conversations[order["conversation"]] = []

    def other(self, method, parts, raw):
        return self.kept.other(method, parts, raw)

    def all_items(self, body):
        return [*self.kept.before(body), *items_of(body)]

    def turn(self, body):
        made = [is_made(item) for item in self.all_items(body)]
        return sum(here and not before for here, before in zip(made, [False, *made]))

    def check(self, body, vendor):
        if vendor in STATELESS and "previous_response_id" in body:
            raise Refused("'previous_response_id' is not supported", "previous_response_id")
        before = self.kept.before(body)
        judge.check(body, vendor, {made for model, made in self.led if model == body.get("model")}, before)
        self.kept.check_new(before, items_of(body))

    def said(self, body):
        results = []
        for item in reversed(self.all_items(body)):
            if not item.get("type", "").endswith("_output"):
                break
            results.insert(0, text_of(item["output"]))
        return results, [text_of(item["content"]) for item in self.all_items(body) if item.get("role") == "user"]

    def note(self, reply, body):
        """The reply as it is stored, if it is."""
        stored = body.get("store", True) or self.kept.place(body) is not None
        if stored and not reply.get("failed"):
            mark = self.kept.name()
            echoed = {key: body[key] for key in ("previous_response_id", "conversation") if key in body}
            reply = {"id": f"resp_{mark}", "mark": f"{mark}_", "store": not reply.get("forgetful"), **echoed, **reply}
        made, model = events.items(reply), body["model"]
        declared = {tool["name"] for tool in body.get("tools") or [] if tool["type"] == "custom"}
        for item in made:
            if item["type"] == "custom_tool_call" and item["name"] not in declared:
                raise Refused(f"The scenario calls '{item['name']}', which is no custom tool of the request.")
        if stored and not reply.get("failed"):
            self.kept.keep(body, items_of(body), made, "resp_01" if "raw" in reply else reply["id"])
        for before, item in zip(made, made[1:]):
            if before["type"] == "reasoning" and "id" in item:
                self.led.add((model, item["id"]))
        return reply

    def stream(self, reply, body):
        return events.stream(self.note(reply, body), body)

    def whole(self, reply, body):
        return events.whole(self.note(reply, body), body)


if __name__ == "__main__":
    service.serve(Responses(), sys.argv[1:])
