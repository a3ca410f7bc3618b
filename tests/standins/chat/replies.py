"""Turns the description of a reply into the bytes of a response, in the dialect of a server.

A description is a JSON object: `text`, `reasoning`, `refusal`, `calls` (id, name, arguments), `form` (one of FORMS),
`finish`, `usage`; or, exact, `deltas` (objects to wrap), `chunks` (objects), `raw` (the stream's text).
"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from wire import dump  # noqa: E402

USAGE = {"prompt_tokens": 280, "completion_tokens": 41, "total_tokens": 321,
         "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
         "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
                                       "rejected_prediction_tokens": 0}}
BARE = {"bare", "q1", "q2", "q3", "q4", "q5", "q6", "q11"}


def arguments(call):
    value = call.get("arguments", "{}")
    return value if value is None or isinstance(value, str) else dump(value)


def pieces(call):
    """The fragments of the arguments: as scripted, else cut in two at the first colon."""
    if "fragments" in call:
        return call["fragments"]
    text = arguments(call)
    cut = text.find(":") + 1
    return [p for p in (text[:cut], text[cut:]) if p]


def head(call, args, index=None, name=True):
    out = {} if index is None else {"index": index}
    out.update({"id": call["id"], "type": "function"} if call.get("id") is not None else {"type": "function"})
    out["function"] = {"name": call["name"]} if name else {}
    if args is not None:
        out["function"]["arguments"] = args
    return out


def more(index, args, **extra):
    return {"index": index, **extra, "function": {"arguments": args}}


def fragmented(calls):
    for i, call in enumerate(calls):
        yield [head(call, "", i)]
        for piece in pieces(call):
            yield [more(i, piece)]


def whole(calls):
    for i, call in enumerate(calls):
        yield [head(call, arguments(call), i)]


def zero_index(calls):
    for call in calls:
        yield [head(call, arguments(call), 0)]


def no_index(calls):
    for call in calls:
        entry = head(call, arguments(call))
        if "thought_signature" in call:
            entry["extra_content"] = {"google": {"thought_signature": call["thought_signature"]}}
        yield [entry]


def one_array(calls):
    yield [entry for delta in no_index(calls) for entry in delta]


def brace_first(calls):
    for i, call in enumerate(calls):
        text = arguments(call)
        yield [head(call, text[:1], i)]
        yield [more(i, text[1:])]


def repeated(calls):
    for i, call in enumerate(calls):
        for piece in [""] + pieces(call):
            yield [head(call, piece, i)]


def blanks(calls):
    for i, call in enumerate(calls):
        yield [head(call, "", i)]
        for piece in pieces(call):
            yield [{"index": i, "id": "", "type": "function", "function": {"name": "", "arguments": piece}}]


def late_name(calls):
    for i, call in enumerate(calls):
        text = arguments(call)
        cut = text.find(":")
        yield [{"index": i, "id": call["id"], "function": {"arguments": text[:cut]}}]
        yield [{"index": i, "function": {"name": call["name"], "arguments": text[cut:]}}]


def as_object(calls):
    for i, call in enumerate(calls):
        yield [head(call, json.loads(arguments(call)), i)]


def same_id(calls):
    for i, call in enumerate(calls):
        yield [head({**call, "id": calls[0]["id"]}, arguments(call), i)]


FORMS = {
    "openai": fragmented, "bare": fragmented, "deepseek": fragmented, "vllm": fragmented,
    "llamacpp": brace_first, "llamacpp-old": repeated,
    "ollama": whole, "ollama-old": zero_index, "groq": whole, "mistral": no_index,
    "gemini": no_index, "gemini-array": one_array,
    "gateway-index": zero_index, "gateway-repeat": repeated, "gateway-blank": blanks, "gateway-late-name": late_name,
    "gateway-object": as_object,
    "q1": no_index, "q2": zero_index, "q3": brace_first, "q4": repeated, "q5": blanks, "q6": late_name, "q11": same_id,
}
REASONING = {"deepseek": "reasoning_content", "llamacpp": "reasoning_content", "vllm": "reasoning", "groq": "reasoning"}


def text_deltas(reply, form):
    reasoning, text = reply.get("reasoning"), reply.get("text")
    if reasoning:
        if form == "mistral":
            yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}]}
        else:
            yield {REASONING.get(form, "reasoning_content"): reasoning}
    for piece in reply.get("pieces") or ([text] if text else []):
        yield {"content": [{"type": "text", "text": piece}] if form == "mistral" else piece}
    if reply.get("refusal"):
        yield {"refusal": reply["refusal"]}


def finish_reason(reply):
    return reply.get("finish", "tool_calls" if reply.get("calls") or reply.get("deltas") else "stop")


def chunks(reply, model):
    """The JSON chunks of a streamed reply, in order."""
    form = reply.get("form", "openai")
    envelope = {"id": "chatcmpl-01", "object": "chat.completion.chunk", "created": 1764400000, "model": model}
    if form == "openai":
        envelope.update({"service_tier": "default", "system_fingerprint": None})

    def wrap(delta, finish=None, usage=None):
        if form in BARE:
            choice = {"delta": delta}
            return {"choices": [{**choice, "finish_reason": finish} if finish else choice]}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if form == "vllm":
            choice.update({"stop_reason": None, "token_ids": None})
        return {**envelope, "choices": [choice], **({"usage": usage} if form == "openai" else {})}

    if reply.get("role", True) and form not in BARE:
        first = {"role": "assistant", "content": None if reply.get("calls") or form == "llamacpp" else ""}
        if form.startswith("gateway"):
            yield wrap({"role": "", "content": "", "refusal": False})
        yield wrap({**first, "refusal": None} if form == "openai" else first)
    if "deltas" in reply:
        yield from map(wrap, reply["deltas"])
    else:
        yield from map(wrap, text_deltas(reply, form))
        for fragment in FORMS[form](reply.get("calls") or []):
            if fragment:
                yield wrap({"tool_calls": fragment})
    if reply.get("no_finish"):
        return
    last = wrap({}, finish_reason(reply))
    usage = reply.get("usage", USAGE)
    if form == "groq" and usage:
        last["x_groq"] = {"id": "req_01", "usage": usage}
    elif form == "llamacpp":
        last["timings"] = {"prompt_n": 280, "predicted_n": 41}
    yield last
    if usage and form != "groq" and form not in BARE:
        yield {**envelope, "choices": [], "usage": usage}


def stream_error(kind, says="the model crashed"):
    """The event with which a server reports an error in the middle of a 200 stream."""
    message = {"message": says, "type": "server_error", "code": 500}
    return {
        "object": "data: " + dump({"error": message}) + "\n\n",
        "string": "data: " + dump({"error": says}) + "\n\n",
        "event": "event: error\ndata: " + dump({"error": message}) + "\n\n",
        "field": "error: " + dump(message) + "\n\n",
        "finish": 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}\n\n',
        "json": 'data: {"choices":[{"index":0,"delta":{"conte\n\n',
        "ollama": 'data: {"id":"chatcmpl-01","object":"chat.completion.chunk","choices":[{"index":0,"delta":'
                  '{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
    }[kind]


def stream(reply, model, include_usage):
    """The text of a streamed reply."""
    if "raw" in reply:
        return reply["raw"]
    if not include_usage and "usage" not in reply:
        reply = {**reply, "usage": None}
    events = ["data: " + dump(chunk) + "\n\n" for chunk in reply.get("chunks") or chunks(reply, model)]
    if "stream_error" in reply:
        return "".join(events[:reply.get("after", 2)]) + stream_error(reply["stream_error"], *reply.get("quoted", []))
    if reply.get("comments"):
        events = [": keep-alive\n\n" + event for event in events]
    if reply.get("keepalive"):
        events = ['data: {"id":"chatcmpl-01","choices":[]}\n\ndata: {"status":"processing"}\n\n' + e for e in events]
    if reply.get("split_data"):  # one event's JSON on two data lines
        events = [event.replace(',"', ',\ndata: "', 1) for event in events]
    if not reply.get("no_finish") and not reply.get("no_done"):
        events.append("data: [DONE]\n\n")
    return "".join(events)


def completion(reply, model):
    """The object of a reply that is not streamed."""
    form, content = reply.get("form", "openai"), reply.get("text") or "".join(reply.get("pieces", [])) or None
    if form == "mistral" and reply.get("reasoning"):
        content = [{"type": "thinking", "thinking": [{"type": "text", "text": reply["reasoning"]}]},
                   {"type": "text", "text": content or ""}]
    message = {"role": "assistant", "content": content, "refusal": reply.get("refusal"), "annotations": []}
    if reply.get("reasoning") and form != "mistral":
        message[REASONING.get(form, "reasoning_content")] = reply["reasoning"]
    if reply.get("calls"):
        message["tool_calls"] = []
        for call in reply["calls"]:
            args = json.loads(arguments(call)) if form == "gateway-object" else arguments(call)
            if "fragments" in call:
                args = "".join(filter(None, call["fragments"]))
            entry = head(call, args)
            if "thought_signature" in call:
                entry["extra_content"] = {"google": {"thought_signature": call["thought_signature"]}}
            message["tool_calls"].append(entry)
    choice = {"index": 0, "message": message, "logprobs": None,
              "finish_reason": None if reply.get("no_finish") else finish_reason(reply)}
    out = {"id": "chatcmpl-01", "object": "chat.completion", "created": 1764400000, "model": model,
           "choices": [choice], "service_tier": "default", "system_fingerprint": None}
    if reply.get("usage", USAGE):
        out["usage"] = reply.get("usage", USAGE)
    return out
