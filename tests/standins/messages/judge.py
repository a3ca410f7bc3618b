"""Judges a Messages request as strictly as the vendor's own service does."""
import base64
import hashlib
import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import schema  # noqa: E402
from wire import Refused  # noqa: E402

VERSIONS = ("2023-06-01", "2026-10-21")
TOP_LEVEL = set("""model max_tokens messages system tools tool_choice thinking output_config stop_sequences metadata
    service_tier speed inference_geo container cache_control diagnostics stream temperature top_p top_k""".split())
SAMPLING = ("temperature", "top_p", "top_k")
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
EFFORTS = {"low", "medium", "high", "xhigh", "max"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
USER_BLOCKS = {"text", "image", "document", "tool_result", "search_result"}
MADE_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result"}
MEMBERS = {
    "text": {"type", "text", "citations", "cache_control"},
    "image": {"type", "source", "cache_control", "transformations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "caller", "toolset_name", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}
THINKING_FIRST = ("thinking", "redacted_thinking")


def bad(where, text):
    return Refused(f"{where}: {text}")


def is_newer(model):
    """Models that take no sampling in any version."""
    return model.startswith("claude-") and not re.match(
        r"claude-(3|(opus|sonnet)-4-[012]|(opus|sonnet|haiku)-4-5|(opus|sonnet)-4-6)", model)


def check(body, vendor, version, issued):
    """issued: what the service knows of the thinking that it gave out."""
    if vendor == "anthropic":
        for key in body:
            if key not in TOP_LEVEL:
                raise bad(key, "Extra inputs are not permitted")
    for key in ("model", "max_tokens", "messages"):
        if key not in body:
            raise bad(key, "Field required")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise bad("max_tokens", "Input should be a valid integer greater than 0")
    if vendor == "anthropic":
        check_sampling(body, version)
        check_thinking(body)
        schema.check(((body.get("output_config") or {}).get("format") or {}).get("schema", {}))
        check_cache(body)
    check_tools(body)
    check_messages(body, vendor, version, issued)


def check_sampling(body, version):
    for key in SAMPLING:
        value = body.get(key)
        if key in body and version == "2026-10-21":
            raise bad(key, "Extra inputs are not permitted")
        if value is not None and not (isinstance(value, (int, float)) and (0 <= value <= 1 or key == "top_k")):
            raise bad(key, "Input should be less than or equal to 1")
        if value is not None and is_newer(body["model"]) and not (key != "top_k" and value >= 0.99):
            raise bad(key, f"`{key}` is not supported by this model")


def check_thinking(body):
    thinking, choice = body.get("thinking"), (body.get("tool_choice") or {}).get("type")
    if body.get("output_config", {}).get("effort", "low") not in EFFORTS:
        raise bad("output_config.effort", f"Input should be one of {sorted(EFFORTS)}")
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in ("adaptive", "enabled", "disabled", "between_tools"):
        raise bad("thinking.type", "Input tag does not match any of the expected tags")
    if thinking.get("display", "omitted") not in ("summarized", "omitted"):
        raise bad("thinking.display", "Input should be 'summarized' or 'omitted'")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise bad("thinking.enabled.budget_tokens", "Input should be greater than or equal to 1024")
        if budget >= body["max_tokens"]:
            raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if choice in ("any", "tool"):
            raise Refused("Thinking may not be enabled when tool_choice forces tool use.")


def marks(value):
    """Every mark for caching, in order."""
    if isinstance(value, list):
        for part in value:
            yield from marks(part)
    elif isinstance(value, dict):
        if "cache_control" in value:
            yield value["cache_control"]
        for key, part in value.items():
            if key not in ("cache_control", "input", "input_schema"):
                yield from marks(part)


def check_cache(body):
    found = [mark for key in ("tools", "system", "messages") for mark in marks(body.get(key))]
    found += [body["cache_control"]] if "cache_control" in body else []
    if len(found) > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}.")
    ttls = []
    for mark in found:
        if mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h"):
            raise bad("cache_control", "Input tag does not match any of the expected tags")
        ttls.append(mark.get("ttl", "5m"))
    if sorted(ttls) != ttls:  # "1h" sorts in front of "5m", which is where it must stand
        raise Refused("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")


def check_tools(body):
    names = set()
    for i, tool in enumerate(body.get("tools") or []):
        if not NAME.match(str(tool.get("name", ""))):
            raise bad(f"tools.{i}.custom.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
        if tool["name"] in names:
            raise bad("tools", "Tool names must be unique.")
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise bad(f"tools.{i}.custom.input_schema.type", "Input should be 'object'")
        names.add(tool["name"])
    choice = body.get("tool_choice")
    if choice is None:
        return
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        raise bad("tool_choice", "Input tag does not match any of the expected tags")
    if not names:
        raise bad("tool_choice", "tool_choice may only be specified while providing tools")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")
    if choice["type"] == "none" and "disable_parallel_tool_use" in choice:
        raise bad("tool_choice.none.disable_parallel_tool_use", "Extra inputs are not permitted")


# ---- messages

def blocks_of(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_messages(body, vendor, version, issued):
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        raise bad("messages", "at least one message is required")
    if messages[0].get("role") != "user":
        raise bad("messages", "first message must use the \"user\" role")
    waiting, used = [], set()
    for i, message in enumerate(messages):
        role, blocks = message.get("role"), blocks_of(message)
        where = f"messages.{i}"
        if role not in ("user", "assistant") or set(message) != {"role", "content"}:
            raise bad(f"{where}.role", "Input should be 'user' or 'assistant'")
        if vendor == "anthropic" and i and messages[i - 1]["role"] == role:
            raise bad(where, "roles must alternate")  # it would merge them; we are to need no mending
        if not isinstance(blocks, list) or not blocks:
            raise bad(where, "all messages must have non-empty content except for the optional final assistant message")
        for j, block in enumerate(blocks):
            check_block(block, role, f"{where}.content.{j}", version)
        if role == "user":
            check_results(blocks, where, waiting)
            waiting = []
        else:
            waiting = check_made(blocks, where, used, vendor)
    if waiting:
        raise unanswered(len(messages) - 1, waiting)
    if vendor == "anthropic":
        check_final(messages[-1])
        check_turn(body)
        check_bindings(body, issued)


def check_turn(body):
    """With a budget, an answer whose results come now begins with thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled" or len(body["messages"]) < 2:
        return
    answer, results = body["messages"][-2:]
    first = blocks_of(answer)[0]["type"]
    if any(block["type"] == "tool_result" for block in blocks_of(results)) and first not in THINKING_FIRST:
        raise unthinking(len(body["messages"]) - 2, first)


def unthinking(number, found):
    return bad(f"messages.{number}.content.0.type", f"Expected `thinking` or `redacted_thinking`, but found `{found}`. "
               "When `thinking` is enabled, a final `assistant` message must start with a thinking block.")


def check_final(message):
    kinds = [block["type"] for block in blocks_of(message)]
    if message["role"] == "assistant" and kinds[-1] != "server_tool_use":
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user "
                      "message.")


def check_block(block, role, where, version):
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in (USER_BLOCKS if role == "user" else MADE_BLOCKS):
        raise bad(f"{where}.type", f"Input tag '{kind}' found using 'type' does not match any of the expected tags")
    extra = set(block) - MEMBERS.get(kind, set(block))
    if extra:
        raise bad(f"{where}.{kind}.{sorted(extra)[0]}", "Extra inputs are not permitted")
    if kind == "text" and not block.get("text", "").strip():
        raise bad("messages", "text content blocks must be non-empty")
    if kind == "text" and role == "user" and block.get("citations") and version == "2026-10-21":
        raise bad(f"{where}.text.citations", "Extra inputs are not permitted")
    if kind == "tool_use":
        if not re.match(r"[a-zA-Z0-9_-]+\Z", str(block.get("id", ""))):
            raise bad(f"{where}.tool_use.id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not NAME.match(str(block.get("name", ""))):
            raise bad(f"{where}.tool_use.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
        if not isinstance(block.get("input"), dict):
            raise bad(f"{where}.tool_use.input", "Input should be a valid dictionary")
    if kind == "thinking" and not (isinstance(block.get("thinking"), str) and isinstance(block.get("signature"), str)):
        raise bad(f"{where}.thinking.signature", "Field required")
    if kind == "image":
        check_image(block, where)
    if kind == "tool_result":
        check_parts(block, f"{where}.tool_result.content")


def check_image(block, where):
    source = block.get("source", {})
    if source.get("type") == "url" and source.get("url"):
        return
    if source.get("type") != "base64" or source.get("media_type") not in IMAGES:
        raise bad(f"{where}.image.source", f"Input should be one of {sorted(IMAGES)}")
    try:
        base64.b64decode(source.get("data", ""), validate=True)
    except ValueError as why:
        raise bad(f"{where}.image.source.base64.data", "invalid base64 data") from why


def check_parts(block, where):
    """Of a result's content."""
    parts = block["content"] if isinstance(block.get("content"), list) else []
    for part in parts:
        if part.get("type") not in ("text", "image", "document", "search_result"):
            raise bad(where, "Input tag does not match any of the expected tags")
        if part["type"] == "text" and not part.get("text"):
            raise bad(where, "text content blocks must be non-empty")
        if part["type"] == "image":
            check_image(part, where)
    if block.get("is_error") and any(part["type"] != "text" for part in parts):
        raise bad(where, "all content must be type \"text\" if \"is_error\" is true")


def unanswered(at, ids):
    return Refused(f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                   f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
                   "message.")


def check_results(blocks, where, waiting):
    waiting, others = list(waiting), False
    for j, block in enumerate(blocks):
        if block["type"] != "tool_result":
            others = True
            continue
        if others:
            raise bad(where, "`tool_result` blocks must come first in the message")
        if block.get("tool_use_id") not in waiting:
            raise bad(f"{where}.content.{j}", f"unexpected `tool_use_id` found in `tool_result` blocks: "
                      f"{block.get('tool_use_id')}. Each `tool_result` block must have a corresponding `tool_use` "
                      "block in the previous message.")
        waiting.remove(block["tool_use_id"])
    if waiting:
        raise unanswered(int(where.split(".")[1]) - 1, waiting)


def check_made(blocks, where, used, vendor):
    ids = []
    for block in blocks:
        if block["type"] == "tool_use":
            if block["id"] in used:
                raise bad("messages", "`tool_use` ids must be unique")
            used.add(block["id"])
            ids.append(block["id"])
    if blocks[-1]["type"] in THINKING_FIRST:
        raise bad(where, "The final block in an assistant message cannot be `thinking`.")
    if vendor == "deepseek" and ids and not any(block["type"] == "thinking" for block in blocks):
        raise Refused("The `content[].thinking` in the thinking mode must be passed back to the API.")
    return ids


# ---- thinking is bound to what stood before it

def bare(value):
    """Without marks for caching, which may move."""
    if isinstance(value, list):
        return [bare(part) for part in value]
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key != "cache_control"}
    return value


def flat(body):
    return [(message["role"], bare(block)) for message in body["messages"] for block in blocks_of(message)]


def digest(body, count):
    kept = [bare(body.get("system")), bare(body.get("tools")), flat(body)[:count]]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


class Issued:
    """The thinking that went out, and what it led to."""

    def __init__(self):
        self.thinking = {}  # signature or data -> [(block, blocks before it, their digest)]
        self.led = {}       # (model, id of a call) -> the keys of the thinking in front of it

    def note(self, body, blocks):
        count = len(flat(body))
        here, keys = digest(body, count), []
        for block in blocks:
            if block["type"] in THINKING_FIRST:
                keys.append(block.get("signature") or block.get("data"))
                self.thinking.setdefault(keys[-1], []).append((bare(block), count, here))
            elif block["type"] == "tool_use" and keys:
                self.led[body["model"], block["id"]] = list(keys)


def check_bindings(body, issued):
    for i, message in enumerate(body["messages"]):
        there = set()
        for j, block in enumerate(blocks_of(message)):
            if block["type"] in THINKING_FIRST:
                key = block.get("signature") or block.get("data")
                there.add(key)
                known = [entry[1:] for entry in issued.thinking.get(key, []) if entry[0] == block]
                if not known:
                    raise bad(f"messages.{i}.content.{j}", f"Invalid `signature` in `{block['type']}` block")
                if not any(digest(body, count) == before for count, before in known):
                    raise bad(f"messages.{i}.content.{j}", "The block is bound to a different conversation prefix.")
            elif block["type"] == "tool_use" and not set(issued.led.get((body["model"], block["id"]), [])) <= there:
                raise unthinking(i, "tool_use")
