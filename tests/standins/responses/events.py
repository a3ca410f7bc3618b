"""Turns the description of a reply into the bytes of a Responses answer.

A description is a JSON object: `reasoning` (its summary; "" for none), `thinking` (readable reasoning), `text`,
`pieces`, `phase`, `refusal`, `calls` (id, name, arguments), `custom` (id, name, input); or, exact, `output` (items),
`raw` (the stream's text). Switches: `form` (one of FORMS), `incomplete` (a reason), `failed` (a code), `usage`,
`no_terminal`, `empty_output`, `stream_error` (a kind) with `after` events, `comments`, `split_data`, `done`,
`obfuscation`, `transformations`, `forgetful` (says that it does not store it); and those of common/send.py.
"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from wire import dump  # noqa: E402

USAGE = {"input_tokens": 312, "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 0},
         "output_tokens": 58, "output_tokens_details": {"reasoning_tokens": 32}, "total_tokens": 370}
# What the events of a compatible server lack.
FORMS = {"openai": set(), "llamacpp": {"index", "sequence", "arguments_done"}, "ollama": {"pieces"},
         "sparse": {"index", "sequence", "item_id", "items", "arguments_done"}, "done-only": {"pieces", "deltas"},
         "other-ids": {"stable_ids"}}
INDEXES = ("output_index", "content_index", "summary_index")


def arguments(call):
    value = call.get("arguments", "{}")
    return value if isinstance(value, str) else dump(value)


def items(reply):
    """The output items of a reply, whole."""
    if "output" in reply:
        return reply["output"]
    out, state = [], "incomplete" if reply.get("incomplete") else "completed"

    def name(prefix):
        return f"{prefix}_{reply.get('mark', '')}{len(out):02}"

    if "reasoning" in reply:
        summary = reply["reasoning"].split("\n\n") if reply["reasoning"] else []
        out.append({"id": name("rs"), "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text} for text in summary],
                    "encrypted_content": "gAAAA-done"})
    if "thinking" in reply:
        out.append({"id": name("rs"), "type": "reasoning", "summary": [],
                    "content": [{"type": "reasoning_text", "text": reply["thinking"]}], "encrypted_content": ""})
    text = reply.get("text") if reply.get("text") is not None else "".join(reply.get("pieces", []))
    if text or reply.get("refusal") or reply.get("text") == "":
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}] if text else []
        content += [{"type": "refusal", "refusal": reply["refusal"]}] if reply.get("refusal") else []
        message = {"id": name("msg"), "type": "message", "status": state, "role": "assistant",
                   "content": content}
        out.append({**message, "phase": reply["phase"]} if "phase" in reply else message)
    for call in reply.get("calls", []):
        call_id = {} if call.get("id") is None else {"call_id": call["id"]}
        out.append({"id": name("fc"), "type": "function_call", "status": call.get("status", state),
                    "arguments": arguments(call), **call_id, "name": call["name"]})
    for call in reply.get("custom", []):
        out.append({"id": name("ctc"), "type": "custom_tool_call", "status": state, "call_id": call["id"],
                    "name": call["name"], "input": call["input"]})
    return out


def response(reply, model, status, output):
    final = status in ("completed", "incomplete", "failed")
    reason = {"reason": reply["incomplete"]} if status == "incomplete" else None
    error = {"code": reply["failed"], "message": reply.get("message", "it broke")} if status == "failed" else None
    out = {"id": reply.get("id", "resp_01"), "object": "response", "created_at": 1764400000, "status": status,
           "error": error, "incomplete_details": reason, "model": model, "output": output, "parallel_tool_calls": True,
           "tool_choice": "auto", "tools": [], "store": reply.get("store", False),
           "usage": reply.get("usage", USAGE) if final else None}
    out.update({key: reply[key] for key in ("previous_response_id", "conversation") if key in reply})
    if final and "transformations" in reply:
        out["input_transformations"] = reply["transformations"]
    return out


def cut(text):
    """Two pieces, as a stream may have them."""
    at = text.find(":") + 1 if ":" in text else len(text) // 2
    return [piece for piece in (text[:at], text[at:]) if piece]


def skeleton(item):
    if item["type"] == "message":
        return {**item, "status": "in_progress", "content": []}
    if item["type"] == "reasoning":
        return {key: "gAAAA-partial" if key == "encrypted_content" else [] if key == "summary" else value
                for key, value in item.items() if key != "content"}
    whole = {"function_call": "arguments", "custom_tool_call": "input"}.get(item["type"])
    return {**item, "status": "in_progress", whole: ""} if whole else item


def text_events(kind, piece_member, texts, index_name, part_kind, pieces=None):
    for i, text in enumerate(texts):
        at = {index_name: i}
        if part_kind:
            yield f"{part_kind}.added", {**at, "part": {"type": kind, piece_member: ""}}
        for piece in pieces or cut(text):
            yield f"{kind}.delta", {**at, "delta": piece}
        yield f"{kind}.done", {**at, piece_member: text}
        if part_kind:
            yield f"{part_kind}.done", {**at, "part": {"type": kind, piece_member: text}}


def inner_events(item, pieces):
    """What comes between the beginning and the end of an item: (type, members)."""
    if item["type"] == "message":
        for part in item["content"]:
            if part["type"] == "output_text":
                yield from text_events("output_text", "text", [part["text"]], "content_index", "content_part", pieces)
            else:
                yield from text_events("refusal", "refusal", [part["refusal"]], "content_index", "content_part")
    elif item["type"] == "reasoning":
        summary = [part["text"] for part in item.get("summary", [])]
        yield from text_events("reasoning_summary_text", "text", summary, "summary_index", "reasoning_summary_part")
        content = [part["text"] for part in item.get("content", [])]
        yield from text_events("reasoning_text", "text", content, "content_index", None)
    elif item["type"] == "function_call":
        for piece in cut(item["arguments"]):
            yield "function_call_arguments.delta", {"delta": piece}
        yield "function_call_arguments.done", {"name": item.get("name"), "arguments": item["arguments"]}
    elif item["type"] == "custom_tool_call":
        for piece in cut(item["input"]):
            yield "custom_tool_call_input.delta", {"delta": piece}
        yield "custom_tool_call_input.done", {"input": item["input"]}


def item_events(index, item, lacks, pieces):
    yield "output_item.added", {"output_index": index, "item": skeleton(item)}
    for number, (kind, members) in enumerate(inner_events(item, pieces)):
        if kind.endswith(".delta") and "deltas" in lacks:
            continue
        if kind == "function_call_arguments.done" and "arguments_done" in lacks:
            continue
        item_id = f"x{number}" if "stable_ids" in lacks else item["id"]
        yield kind, {"item_id": item_id, "output_index": index, **members}
    yield "output_item.done", {"output_index": index, "item": item}


def events(reply, model):
    """The JSON events of a reply, in order."""
    lacks = FORMS[reply.get("form", "openai")]
    output = items(reply)
    status = "failed" if reply.get("failed") else "incomplete" if reply.get("incomplete") else "completed"
    yield "created", {"response": response(reply, model, "in_progress", [])}
    yield "in_progress", {"response": response(reply, model, "in_progress", [])}
    for index, item in enumerate(output):
        for kind, members in item_events(index, item, lacks, reply.get("pieces")):
            if kind.startswith("output_item") and "items" in lacks and item["type"] == "message":
                continue
            yield kind, members
    if not reply.get("no_terminal"):
        listed = [] if reply.get("empty_output") or "items" in lacks else output
        yield status, {"response": response(reply, model, status, listed)}


def numbered(reply, model):
    lacks = FORMS[reply.get("form", "openai")]
    for number, (kind, members) in enumerate(events(reply, model)):
        out = {"type": f"response.{kind}"}
        if "sequence" not in lacks:
            out["sequence_number"] = number
        out.update({key: value for key, value in members.items()
                    if not ("index" in lacks and key in INDEXES or "item_id" in lacks and key == "item_id")})
        if reply.get("obfuscation") and "delta" in members:
            out["obfuscation"] = "x9"
        yield out


def frame(event):
    return f"event: {event['type']}\ndata: {dump(event)}\n\n"


def stream_error(kind, says="the model crashed"):
    """The event with which a server reports an error in the middle of a 200 stream."""
    return {
        "flat": frame({"type": "error", "code": "server_error", "message": says, "param": None,
                       "sequence_number": 4}),
        "object": "data: " + dump({"error": {"message": says, "type": "server_error",
                                             "code": "server_error"}}) + "\n\n",
        "json": 'event: response.output_text.delta\ndata: {"type":"response.outp\n\n',
    }[kind]


def stream(reply, body):
    """The text of a streamed reply."""
    if "raw" in reply:
        return reply["raw"]
    if (body.get("stream_options") or {}).get("include_obfuscation", True):
        reply = {"obfuscation": True, **reply}
    texts = [frame(event) for event in numbered(reply, body["model"])]
    if "stream_error" in reply:
        return "".join(texts[:reply.get("after", 4)]) + stream_error(reply["stream_error"], *reply.get("quoted", []))
    if reply.get("comments"):
        texts = [": keep-alive\n\n" + text for text in texts]
    if reply.get("split_data"):  # one event's JSON on two data lines
        texts = [text.replace(',"', ',\ndata: "', 1) for text in texts]
    if reply.get("no_names"):
        texts = [text[text.index("data: "):] for text in texts]
    return "".join(texts) + ("data: [DONE]\n\n" if reply.get("done") else "")


def whole(reply, body):
    """The object of a reply that is not streamed."""
    status = "failed" if reply.get("failed") else "incomplete" if reply.get("incomplete") else "completed"
    return response(reply, body["model"], status, json.loads(dump(items(reply))))
