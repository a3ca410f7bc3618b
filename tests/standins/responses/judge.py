"""Judges a Responses request as strictly as the vendor's own service does."""
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from wire import Refused  # noqa: E402

TOP_LEVEL = set("""background background_options context_management conversation include input instructions
    max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt
    prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream
    stream_options temperature text tool_choice tools top_logprobs top_p truncation user""".split())
INCLUDE = {"reasoning.encrypted_content", "file_search_call.results", "web_search_call.results",
           "web_search_call.action.sources", "message.input_image.image_url", "computer_call_output.output.image_url",
           "code_interpreter_call.outputs", "message.output_text.logprobs"}
EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
SUMMARIES = {"auto", "concise", "detailed"}
ROLES = {"user", "assistant", "system", "developer"}
INPUT_PARTS = {"input_text", "input_image", "input_file"}
OUTPUT_PARTS = {"output_text", "refusal"}
PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
MEMBERS = {
    "message": {"type", "id", "role", "status", "content", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller", "async"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "status", "namespace", "caller", "async"},
    "custom_tool_call_output": {"type", "id", "call_id", "output", "status"},
    "compaction": {"type", "id", "encrypted_content"},
    "item_reference": {"type", "id"},
}
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
CUSTOM_MEMBERS = {"type", "name", "description", "format", "defer_loading", "allowed_callers", "async"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def bad(where, text, code="invalid_value"):
    return Refused(f"Invalid value for '{where}': {text}.", where, code)


def check(body, vendor, led=(), before=()):
    """led: ids of items that followed reasoning when they were made; before: what the service has kept."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("Missing required parameter: 'model'.", "model", "missing_required_parameter")
    for key in body:
        if key not in TOP_LEVEL:
            raise Refused(f"Unknown parameter: '{key}'.", key, "unknown_parameter")
    check_options(body)
    check_tools(body, vendor)
    items = body.get("input")
    if isinstance(items, str):
        return check_pairs(list(before), vendor)
    if not isinstance(items, list) or not (items or before):
        raise Refused("Missing required parameter: 'input'.", "input", "missing_required_parameter")
    for i, item in enumerate(items):
        check_item(item, f"input[{i}]", body, vendor)
    check_pairs([*before, *items], vendor)
    check_reasoning(items, led, vendor)


def check_options(body):
    for key, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        value = body.get(key, 0)
        if not isinstance(value, (int, float)) or not low <= value <= high:
            raise bad(key, f"expected a number between {low} and {high}")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    for name in body.get("include") or []:
        if name not in INCLUDE:
            raise bad("include", f"'{name}' is not one of the supported values")
    for key in ("store", "stream", "parallel_tool_calls"):
        if not isinstance(body.get(key, True), bool):
            raise bad(key, "expected a boolean")
    limit = body.get("max_output_tokens", 16)
    if not isinstance(limit, int) or limit < 1:
        raise bad("max_output_tokens", "expected a positive integer")
    reasoning = body.get("reasoning") or {}
    if reasoning.get("effort", "low") not in EFFORTS or reasoning.get("summary", "auto") not in SUMMARIES:
        raise bad("reasoning", "unsupported effort or summary")


def check_custom_tool(tool, where, vendor):
    """One whose calls are plain text."""
    if vendor != "openai":  # some skip it without a word, and their model never hears of it
        raise Refused("'custom' tools are not supported on this endpoint", "tools")
    if not NAME.match(str(tool.get("name", ""))):
        raise bad(f"{where}.name", "string does not match pattern '^[a-zA-Z0-9_-]+$'")
    for key in sorted(set(tool) - CUSTOM_MEMBERS):
        raise Refused(f"Unknown parameter: '{where}.{key}'.", f"{where}.{key}", "unknown_parameter")
    form = tool.get("format", {"type": "text"})
    if form == {"type": "text"}:
        return
    if not isinstance(form, dict) or form.get("type") != "grammar" or set(form) != {"type", "syntax", "definition"}:
        raise bad(f"{where}.format", "expected a text or a grammar with its syntax and its definition")
    if form["syntax"] not in ("lark", "regex"):
        raise bad(f"{where}.format.syntax", "Supported values are: 'lark' and 'regex'")
    if not isinstance(form["definition"], str) or not form["definition"]:
        raise bad(f"{where}.format.definition", "expected a grammar")


def check_tools(body, vendor):
    names, custom, tools = set(), set(), body.get("tools") or []
    for i, tool in enumerate(tools):
        where = f"tools[{i}]"
        if tool.get("type") == "custom":
            check_custom_tool(tool, where, vendor)
            custom.add(tool["name"])
            continue
        if tool.get("type") != "function" or "function" in tool or "name" not in tool:
            raise Refused(f"Missing required parameter: '{where}.name'.", f"{where}.name",
                          "missing_required_parameter")
        if not NAME.match(str(tool["name"])):
            raise bad(f"{where}.name", "string does not match pattern '^[a-zA-Z0-9_-]+$'")
        schema = tool.get("parameters")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Refused(f"Invalid schema for function '{tool['name']}': schema must be a JSON Schema of "
                          "'type: \"object\"'.", f"{where}.parameters", "invalid_function_parameters")
        if "strict" not in tool:  # what is meant then depends on the server: a client must say it
            raise Refused(f"Missing required parameter: '{where}.strict'.", f"{where}.strict",
                          "missing_required_parameter")
        if tool["strict"] and (schema.get("additionalProperties") is not False or
                               set(schema.get("required", [])) != set(schema.get("properties", {}))):
            raise Refused(f"Invalid schema for function '{tool['name']}': 'additionalProperties' is required to be "
                          "supplied and to be false.", f"{where}.parameters", "invalid_function_parameters")
        names.add(tool["name"])
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        known = {"function": names, "custom": custom}.get(choice.get("type"))
        if known is not None and choice.get("name") not in known:
            raise Refused(f"Tool choice '{choice.get('name')}' not found in 'tools' parameter.", "tool_choice")
    elif choice not in ("auto", "none", "required"):
        raise bad("tool_choice", f"'{choice}'")


def check_item(item, where, body, vendor):
    if not isinstance(item, dict):
        raise bad(where, "expected an object")
    kind = item.get("type", "message")
    if kind not in MEMBERS:
        raise bad(where, f"'{kind}' is no type of item")
    extra = set(item) - MEMBERS[kind]
    if extra:
        raise Refused(f"Unknown parameter: '{where}.{sorted(extra)[0]}'.", where, "unknown_parameter")
    for key, value in item.items():
        if value is None:
            raise Refused(f"Invalid type for '{where}.{key}': expected a value, but got null instead.", where,
                          "invalid_type")
    if kind in PREFIXES and "id" in item and not item["id"].startswith(PREFIXES[kind]):
        raise Refused(f"Invalid '{where}.id': '{item['id']}'. Expected an ID that begins with '{PREFIXES[kind]}'.",
                      f"{where}.id", "invalid_value")
    if kind == "message":
        check_message(item, where)
    elif kind == "reasoning":
        check_one_reasoning(item, where, body, vendor)
    elif kind in CALLS:
        check_call(item, where, kind)
    elif kind in CALLS.values():
        check_output(item, where, vendor)
    elif kind == "item_reference" and not body.get("store", True):
        raise missing(item)


def check_message(item, where):
    if item.get("role") not in ROLES:
        raise bad(f"{where}.role", f"'{item.get('role')}'. Supported values are: {sorted(ROLES)}")
    content, kinds = item.get("content"), OUTPUT_PARTS if item["role"] == "assistant" else INPUT_PARTS
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise bad(f"{where}.content", "expected a string or an array")
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in kinds:
            raise bad(f"{where}.content", f"supported types are {sorted(kinds)}")


def missing(item):
    return Refused(f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. "
                   "Try again with `store` set to true, or remove this item from your input.", "input", status=404)


def check_one_reasoning(item, where, body, vendor):
    if vendor == "llamacpp" and not item.get("content"):
        raise Refused("item['content'] is not an array", status=500, kind="server_error")
    if not isinstance(item.get("summary"), list):
        raise Refused(f"Missing required parameter: '{where}.summary'.", where, "missing_required_parameter")
    secret = item.get("encrypted_content")
    if vendor == "openai" and not secret and not item.get("content") and not body.get("store", True):
        raise missing(item)
    if vendor == "openai" and secret and secret != "gAAAA-done":
        raise Refused(f"The encrypted content {secret[:8]} could not be verified.", code="invalid_encrypted_content")


def check_call(item, where, kind):
    text = item.get("arguments" if kind == "function_call" else "input")
    if not isinstance(text, str):
        raise bad(where, "arguments and input are strings")
    if not isinstance(item.get("call_id"), str) or not 0 < len(item["call_id"]) <= 64:
        raise bad(f"{where}.call_id", "expected a string with 1 to 64 characters")
    if not NAME.match(str(item.get("name", ""))):
        raise bad(f"{where}.name", "string does not match pattern '^[a-zA-Z0-9_-]+$'")


def check_output(item, where, vendor):
    output = item.get("output")
    if isinstance(output, str):
        return
    kinds = {"input_text"} if vendor == "llamacpp" else INPUT_PARTS
    if not isinstance(output, list) or any(part.get("type") not in kinds for part in output):
        raise bad(f"{where}.output", "expected a string or an array of parts")


def check_pairs(items, vendor):
    """Every call has exactly one output behind it, and every output its call."""
    waiting = {}
    for item in items:
        kind = item.get("type", "message")
        if kind in CALLS:
            if item["call_id"] in waiting:
                raise Refused(f"Duplicate function call with call_id {item['call_id']}.", "input")
            waiting[item["call_id"]] = CALLS[kind]
        elif kind in CALLS.values():
            if waiting.pop(item.get("call_id"), None) != kind:
                raise Refused(f"No tool call found for {kind.replace('_', ' ')} with call_id {item.get('call_id')}.",
                              "input")
        elif waiting and vendor == "deepseek":
            raise Refused("insufficient tool messages following tool_calls message", "input")
    for call_id in waiting:
        raise Refused(f"No tool output found for function call {call_id}.", "input")


def check_reasoning(items, led, vendor):
    """Reasoning stands directly in front of what it led to; what has an id and was led to has its reasoning."""
    if vendor != "openai":
        return
    for i, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        after = items[i + 1] if i + 1 < len(items) else {}
        follows = after.get("type") in (*CALLS, "reasoning") or after.get("role") == "assistant"
        if not follows:
            raise Refused(f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following "
                          "item.", "input")
    for i, item in enumerate(items):
        if item.get("id", "") in led and (not i or items[i - 1].get("type") != "reasoning"):
            raise Refused(f"Item '{item['id']}' of type '{item['type']}' was provided without its required "
                          "'reasoning' item.", "input")
