"""A stand-in for a Chat Completions service: strict about requests, scripted in its replies.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof]

Base path `/v1`, or `/VENDOR/v1` for the rules of mistral, deepseek, gemini, ollama, llamacpp, vllm or groq. What a
reply may say: replies.py; the scenarios: scenarios.py; ports and control: common/service.py.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import replies  # noqa: E402
import scenarios  # noqa: E402
import service  # noqa: E402
import validate  # noqa: E402


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Chat(service.Service):
    vendors = {"openai", "mistral", "deepseek", "gemini", "ollama", "llamacpp", "vllm", "groq"}
    path = ["chat", "completions"]
    scenarios = scenarios.SCENARIOS

    def turn(self, body):
        return sum(message["role"] == "assistant" for message in body["messages"])

    def check(self, body, vendor):
        validate.check(body, vendor)

    def said(self, body):
        results = []
        for message in reversed(body["messages"]):
            if message["role"] != "tool":
                break
            results.insert(0, text_of(message))
        return results, [text_of(message) for message in body["messages"] if message["role"] == "user"]

    def stream(self, reply, body):
        return replies.stream(reply, body["model"], (body.get("stream_options") or {}).get("include_usage"))

    def whole(self, reply, body):
        return replies.completion(reply, body["model"])


if __name__ == "__main__":
    service.serve(Chat(), sys.argv[1:])
