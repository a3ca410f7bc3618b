"""Judges a Chat Completions request as strictly as the vendor's own service does."""
import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from wire import Refused, parse  # noqa: E402, F401

TOP_LEVEL = set("""audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens messages metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options reasoning_effort response_format safety_identifier seed service_tier stop store stream
    stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options moderation
    """.split())
MEMBERS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio", "annotations", "function_call",
                  "parsed"},  # the vendor's own client sends this one back
    "tool": {"role", "content", "tool_call_id"},
}
ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"
# Members of a message that a vendor adds to the common form.
EXTRA_MEMBERS = {"deepseek": {"reasoning_content"}, "vllm": {"reasoning", "reasoning_content"},
                 "llamacpp": {"reasoning_content"}, "groq": {"reasoning"}, "mistral": {"prefix", "name"}}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def check(body, vendor):
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("you must provide a model parameter")
    if vendor == "openai":
        check_openai(body)
    check_tools(body)
    check_messages(body.get("messages"), vendor)


def check_openai(body):
    for key in body:
        if key not in TOP_LEVEL:
            raise Refused(f"Unrecognized request argument supplied: {key}")
    model, tools = body["model"], body.get("tools")
    if re.match(r"(o\d|gpt-5)", model) and "max_tokens" in body:
        raise Refused("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                      "'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
    if re.match(r"gpt-5\.[4-9]", model) and tools and body.get("reasoning_effort") != "none":
        raise Refused(f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
                      "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                      "reasoning_effort")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")


def check_tools(body):
    tools = body.get("tools")
    if tools is None:
        for key in ("tool_choice", "parallel_tool_calls"):
            if key in body:
                raise Refused(f"'{key}' is only allowed when 'tools' are specified.", key)
        return
    if not isinstance(tools, list) or not tools:
        raise Refused("[] is too short - 'tools'", "tools")
    names = set()
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise Refused(f"Missing required parameter: 'tools[{i}].function'.", f"tools[{i}].function",
                          "missing_required_parameter")
        if not NAME.match(str(function.get("name", ""))):
            raise Refused(f"Invalid 'tools[{i}].function.name': string does not match pattern. Expected a string that "
                          "matches the pattern '^[a-zA-Z0-9_-]+$'.", f"tools[{i}].function.name", "invalid_value")
        schema = function.get("parameters", {"type": "object"})
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Refused(f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of "
                          "'type: \"object\"'.", f"tools[{i}].function.parameters", "invalid_function_parameters")
        names.add(function["name"])
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        wanted = (choice.get("function") or {}).get("name")
        if wanted not in names:
            raise Refused(f"Tool choice '{wanted}' not found in 'tools' parameter.", "tool_choice")
    elif choice is not None and choice not in ("none", "auto", "required", "any") and not isinstance(choice, dict):
        raise Refused(f"Invalid value: '{choice}'.", "tool_choice", "invalid_value")


def check_messages(messages, vendor):
    if not isinstance(messages, list) or not messages:
        raise Refused("[] is too short - 'messages'", "messages")
    waiting = []
    for i, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in MEMBERS:
            raise Refused(f"Invalid value: '{role}'. Supported values are: {ROLES}.", f"messages[{i}].role",
                          "invalid_value")
        extra = set(message) - MEMBERS[role] - EXTRA_MEMBERS.get(vendor, set())
        if extra:
            raise Refused(f"Unknown parameter: 'messages[{i}].{sorted(extra)[0]}'.", f"messages[{i}]",
                          "unknown_parameter")
        if role == "tool":
            answer(message, i, waiting)
            continue
        refuse_unanswered(waiting, vendor)
        check_content(message, i, vendor)
        if role == "assistant":
            waiting = check_calls(message, i, vendor)
        check_vendor(messages, i, vendor)
    refuse_unanswered(waiting, vendor)


def answer(message, i, waiting):
    if message.get("tool_call_id") not in waiting:
        raise Refused("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
                      f"messages.[{i}].role")
    check_parts(message.get("content"), i, {"text"})
    waiting.remove(message["tool_call_id"])


def refuse_unanswered(waiting, vendor):
    if waiting:
        text = ("An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(waiting))
        raise Refused(text + (" (insufficient tool messages following tool_calls message)"
                              if vendor == "deepseek" else ""), "messages")


def check_content(message, i, vendor):
    if message.get("content") is None:
        if message["role"] != "assistant" or "tool_calls" not in message:
            raise Refused("invalid message content type: <nil>" if vendor == "ollama" else
                          "Invalid value for 'content': expected a string, got null.", f"messages.[{i}].content")
        return
    check_parts(message["content"], i, {"text", "image_url"} if message["role"] == "user" else {"text", "thinking"})


def check_parts(content, i, kinds):
    where = f"messages[{i}].content"
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise Refused(f"Invalid type for '{where}': expected one of a string or array of objects.", where,
                      "invalid_type")
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in kinds:
            raise Refused(f"Invalid value for '{where}': supported types are {sorted(kinds)}.", where, "invalid_value")


def check_calls(message, i, vendor):
    """The ids that the next messages must answer."""
    if "tool_calls" not in message:
        return []
    calls, ids = message["tool_calls"], []
    if not isinstance(calls, list) or not calls:
        raise Refused(f"[] is too short - 'messages.{i}.tool_calls'", f"messages[{i}].tool_calls")
    for j, call in enumerate(calls):
        where = f"messages[{i}].tool_calls[{j}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            raise Refused(f"Missing required parameter: '{where}.type'.", where, "missing_required_parameter")
        call_id, arguments = call.get("id"), function.get("arguments")
        if not isinstance(call_id, str) or not call_id:
            raise Refused(f"Missing required parameter: '{where}.id'.", where, "missing_required_parameter")
        if len(call_id) > 40:
            raise Refused(f"Invalid '{where}.id': string too long. Expected a string with maximum length 40, but got "
                          f"a string with length {len(call_id)} instead.", where, "string_above_max_length")
        if call_id in ids:
            raise Refused(f"Duplicate value for 'tool_call_id' of '{call_id}' in message[{i}]", where)
        if not NAME.match(str(function.get("name", ""))) or not isinstance(arguments, str):
            raise Refused(f"Invalid type for '{where}.function'.", where, "invalid_type")
        check_vendor_call(call, vendor, i)
        ids.append(call_id)
    return ids


def check_vendor_call(call, vendor, i):
    if vendor == "mistral" and not re.match(r"[a-zA-Z0-9]{9}\Z", call["id"]):
        raise Refused(f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.", None, "3280")
    if vendor in ("ollama", "llamacpp"):
        try:
            json.loads(call["function"]["arguments"])
        except ValueError as why:
            if vendor == "ollama":
                raise Refused("invalid tool call arguments") from why
            raise Refused(f"Failed to parse tool call arguments as JSON: {why}", code=500, status=500,
                          kind="server_error") from why
    if vendor == "gemini" and not ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature"):
        raise Refused(f"Function call is missing a thought_signature in message {i}.", None, 400)


def check_vendor(messages, i, vendor):
    message, role = messages[i], messages[i]["role"]
    if vendor == "mistral" and role == "user" and i and messages[i - 1]["role"] == "tool":
        raise Refused("Unexpected role 'user' after role 'tool'")
    if vendor == "mistral" and role == "assistant" and i == len(messages) - 1 and not message.get("prefix"):
        raise Refused("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant")
    if vendor == "deepseek" and role == "assistant" and "reasoning_content" not in message:
        raise Refused(f"Missing `reasoning_content` field in the assistant message at message index {i}")
    if vendor in ("llamacpp", "vllm", "ollama") and role == "system" and i:
        raise Refused("System message must be at the beginning.", status=500, kind="server_error")
