"""Turns the description of a reply into the bytes of a Messages answer.

A description is a JSON object: `thinking` (its text; "" when it is not shown), `redacted`, `server` (blocks of server
tools), `text`, `pieces`, `calls` (id, name, arguments, fragments); or, exact, `content` (blocks), `raw` (the stream's
text). Switches: `form` (one of FORMS), `stop` (stop_reason), `details` (stop_details), `usage`, `no_stop` (no
message_stop), `no_reason`, `stream_error` (an error's type, or "json") with `after` events, `comments`, `pings`,
`unknown` (events nobody knows), `split_data`, `no_names`; and those of common/send.py.
"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from wire import dump  # noqa: E402

USAGE = {"input_tokens": 12, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 300,
         "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0}, "output_tokens": 47,
         "output_tokens_details": {"thinking_tokens": 9}, "server_tool_use": None, "service_tier": "standard",
         "speed": None, "inference_geo": None}
# How a compatible server differs.
FORMS = {"anthropic": set(), "llamacpp": {"late_ends", "no_input", "no_signature", "few_counts"},
         "ollama": {"whole", "few_counts", "no_signature"}, "bare": {"no_index_order", "few_counts", "no_message"}}


def arguments(call):
    value = call.get("arguments", "{}")
    return value if isinstance(value, str) else dump(value)


def content(reply, signature="EqQBsig"):
    """The content blocks of a reply, whole."""
    if "content" in reply:
        return reply["content"]
    out = []
    if "thinking" in reply:
        out.append({"type": "thinking", "thinking": reply["thinking"],
                    "signature": "" if "no_signature" in lacks(reply) else signature})
    if "redacted" in reply:
        out.append({"type": "redacted_thinking", "data": reply["redacted"]})
    out += reply.get("server", [])
    text = reply.get("text") if reply.get("text") is not None else "".join(reply.get("pieces", []))
    if text or reply.get("text") == "":
        out.append({"type": "text", "text": text, "citations": None})
    for call in reply.get("calls", []):
        block = {"type": "tool_use", "id": call.get("id"), "name": call["name"], "input": arguments(call)}
        out.append({key: value for key, value in block.items() if value is not None})
        if lacks(reply) == set():
            out[-1]["caller"] = {"type": "direct"}
    return out


def lacks(reply):
    return FORMS[reply.get("form", "anthropic")]


def stop_reason(reply):
    if "stop" in reply:
        return reply["stop"]
    made = reply["content"] if "content" in reply else reply.get("calls")
    return "tool_use" if made and any(block.get("type", "tool_use") == "tool_use" for block in made) else "end_turn"


def usage(reply):
    given = reply.get("usage", USAGE)
    return {"output_tokens": given["output_tokens"]} if given and "few_counts" in lacks(reply) else given


def message(reply, model, blocks, final):
    given = usage(reply)
    return {"id": "msg_01", "type": "message", "role": "assistant", "model": model, "content": blocks,
            "container": None, "diagnostics": None, "stop_details": reply.get("details") if final else None,
            "stop_reason": stop_reason(reply) if final else None, "stop_sequence": None,
            "usage": {**given, "output_tokens": given["output_tokens"] if final else 1} if given else None}


def cut(text):
    """Two pieces, as a stream may have them."""
    at = text.find(":") + 1 if ":" in text else len(text) // 2
    return [piece for piece in (text[:at], text[at:]) if piece]


def block_start(block, reply):
    if block["type"] == "tool_use":
        start = {**block, "input": {}}
        if "no_input" in lacks(reply):
            del start["input"]
        return start
    empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}.get(block["type"], {})
    return {**block, **empty}


def deltas(block, reply):
    pieces = (lambda text: [text] if text else []) if "whole" in lacks(reply) else cut
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
        if block["signature"]:
            yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in reply.get("pieces") or pieces(block["text"]):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "tool_use":
        fragments = next((call["fragments"] for call in reply.get("calls", [])
                          if call.get("id") == block.get("id") and "fragments" in call), None)
        text = block["input"] if isinstance(block["input"], str) else dump(block["input"])
        given = fragments if fragments is not None else ["", *pieces(text)] if text != "{}" else []
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in given)


def events(reply, model, signature):
    """The JSON events of a reply, in order."""
    blocks = content(reply, signature)
    if "no_message" not in lacks(reply):
        yield {"type": "message_start", "message": message(reply, model, [], False)}
    for index, block in enumerate(blocks):
        at = {"index": 0 if "no_index_order" in lacks(reply) else index}
        yield {"type": "content_block_start", **at, "content_block": block_start(block, reply)}
        if reply.get("pings"):
            yield {"type": "ping"}
        if reply.get("unknown"):
            yield {"type": "content_block_news", **at, "news": {"text": "nothing"}}
            yield {"type": "content_block_delta", **at, "delta": {"type": "news_delta", "text": "nothing"}}
        for delta in deltas(block, reply):
            yield {"type": "content_block_delta", **at, "delta": delta}
        if "late_ends" not in lacks(reply):
            yield {"type": "content_block_stop", **at}
    if "late_ends" in lacks(reply):
        yield from ({"type": "content_block_stop", "index": index} for index in range(len(blocks)))
    if not reply.get("no_reason"):
        yield {"type": "message_delta", "delta": {
            "container": None, "stop_details": reply.get("details"), "stop_reason": stop_reason(reply),
            "stop_sequence": None}, "usage": usage(reply)}
    if not reply.get("no_stop"):
        yield {"type": "message_stop"}


def frame(event):
    return f"event: {event['type']}\ndata: {dump(event)}\n\n"


def stream_error(kind, says="the model crashed"):
    """The event with which a server reports an error in the middle of a 200 stream."""
    if kind == "json":
        return 'event: content_block_delta\ndata: {"type":"content_bl\n\n'
    return frame({"type": "error", "error": {"type": kind, "message": says, "details": None},
                  "request_id": "req_stream"})


def stream(reply, model, signature="EqQBsig"):
    """The text of a streamed reply."""
    if "raw" in reply:
        return reply["raw"]
    texts = [frame(event) for event in events(reply, model, signature)]
    if "stream_error" in reply:
        return "".join(texts[:reply.get("after", 4)]) + stream_error(reply["stream_error"], *reply.get("quoted", []))
    if reply.get("comments"):
        texts = [": keep-alive\n\n" + text for text in texts]
    if reply.get("split_data"):  # one event's JSON on two data lines
        texts = [text.replace(',"', ',\ndata: "', 1) for text in texts]
    if reply.get("no_names"):
        texts = [text[text.index("data: "):] for text in texts]
    return "".join(texts)


def whole(reply, model, signature="EqQBsig"):
    """The object of a reply that is not streamed."""
    blocks = [{**block, "input": json.loads(block["input"])} if isinstance(block.get("input"), str) else block
              for block in content(reply, signature)]
    return message(reply, model, blocks, True)
