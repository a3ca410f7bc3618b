"""A stand-in for Anthropic's Messages API: strict about requests, scripted in its replies.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof]

Base path `/v1`, or `/VENDOR/v1` for the rules of llamacpp, ollama, vllm or deepseek. What a reply may say: blocks.py;
the scenarios: turns.py; ports and control: common/service.py.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import blocks  # noqa: E402
import judge  # noqa: E402
import service  # noqa: E402
import turns  # noqa: E402
from wire import Refused  # noqa: E402

TYPES = {401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
         409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
         529: "overloaded_error"}


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Messages(service.Service):
    vendor = "anthropic"
    vendors = {"anthropic", "llamacpp", "ollama", "vllm", "deepseek"}
    path = ["messages"]
    id_header = "request-id"
    scenarios = turns.SCENARIOS

    def __init__(self):
        self.issued, self.version, self.answers = judge.Issued(), None, 0

    def keys(self, low):
        return [low["x-api-key"]] if "x-api-key" in low else super().keys(low)

    def refusal(self, why, request_id):
        kind = TYPES.get(why.status, why.error["type"])
        error = {"type": kind, "message": why.error["message"]}
        if why.error["code"] not in (None, "invalid_api_key"):
            error["details"] = {"error_code": why.error["code"]}
        return {"type": "error", "error": error, "request_id": request_id}

    def models(self, names):
        data = [{"type": "model", "id": name, "display_name": name, "created_at": "2026-10-21T00:00:00Z"}
                for name in names]
        return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}

    def check_headers(self, low):
        self.version = low.get("anthropic-version")
        if self.version is None:
            raise Refused("anthropic-version: header is required")
        if self.version not in judge.VERSIONS:
            raise Refused(f'anthropic-version: "{self.version}" is not a valid version for this API.')

    def check(self, body, vendor):
        judge.check(body, vendor, self.version, self.issued)

    def turn(self, body):
        """Answers, of which a paused one and what went on after it share a message."""
        made = sum(message["role"] == "assistant" for message in body["messages"])
        return made + sum(block["type"].endswith("_tool_result") and block["type"] != "tool_result"
                          for _, block in judge.flat(body))

    def said(self, body):
        results, users = [], []
        for message in body["messages"]:
            if message["role"] == "user":
                parts = judge.blocks_of(message)
                results = [text_of(part.get("content", "")) for part in parts if part["type"] == "tool_result"]
                users += [part["text"] for part in parts if part["type"] == "text"]
        return results, users

    def signature(self):
        self.answers += 1
        return f"EqQBsig{self.answers:04d}=="

    def stream(self, reply, body):
        signature = self.signature()
        self.issued.note(body, blocks.content(reply, signature))
        return blocks.stream(reply, body["model"], signature)

    def whole(self, reply, body):
        signature = self.signature()
        self.issued.note(body, blocks.content(reply, signature))
        return blocks.whole(reply, body["model"], signature)


if __name__ == "__main__":
    service.serve(Messages(), sys.argv[1:])
