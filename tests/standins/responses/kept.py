"""What the service keeps between requests: stored responses, each with all that led to it, and conversations."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from judge import CALLS  # noqa: E402
from wire import Refused, parse  # noqa: E402

MADE = {"reasoning", "compaction", *CALLS}


def not_found(what, name, param):
    code = "previous_response_not_found" if param == "previous_response_id" else None
    return Refused(f"{what} with id '{name}' not found.", param, code, 400 if code else 404)


class Kept:
    def __init__(self):
        self.responses, self.conversations, self.count = {}, {}, 0

    def forget(self):
        """Everything has expired; numbers go on."""
        self.responses, self.conversations = {}, {}

    def name(self):
        self.count += 1
        return f"{self.count:04}"

    def place(self, body):
        """The conversation's id, if the request names one."""
        named = body.get("conversation")
        return named.get("id") if isinstance(named, dict) else named

    def before(self, body):
        """What stands before the request's own input."""
        previous, place = body.get("previous_response_id"), self.place(body)
        if previous is not None and place is not None:
            raise Refused("Mutually exclusive parameters: 'conversation' and 'previous_response_id'.", "conversation")
        if previous is not None and previous not in self.responses:
            raise not_found("Previous response", previous, "previous_response_id")
        if place is not None and place not in self.conversations:
            raise not_found("Conversation", place, "conversation")
        return self.responses[previous] if previous is not None else self.conversations.get(place, [])

    def check_new(self, before, items):
        """Only what is new may be sent; the judge sees to outputs, whose ids may come again."""
        for item in items:
            if item.get("id") and any(item["id"] == old.get("id") for old in before):
                raise Refused(f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and "
                              "try again.", "input")
            made = item.get("type") in MADE or item.get("role") == "assistant"
            if before and item.get("type") not in CALLS.values() and (made or item in before):
                raise Refused("The input holds an item that the history has already.", "input", "duplicate_item")

    def keep(self, body, items, made, name):
        """The request was answered, whether or not its client hears of it."""
        before, place = self.before(body), self.place(body)
        if place is not None:
            self.conversations[place] = [*before, *items, *made]
        if body.get("store", True):
            self.responses[name] = [*before, *items, *made]

    def other(self, method, parts, raw):
        if (method, parts) == ("POST", ["conversations"]):
            name = f"conv_{self.name()}"
            self.conversations[name] = (parse(raw) if raw else {}).get("items") or []
            return {"id": name, "object": "conversation", "created_at": 1764400000, "metadata": {}}
        if method == "GET" and parts[:1] == ["conversations"] and parts[2:] == ["items"]:
            if parts[1] not in self.conversations:
                raise not_found("Conversation", parts[1], None)
            data = [{"id": f"item_{i}", "type": "message", **item} for i, item in
                    enumerate(self.conversations[parts[1]])]
            return {"object": "list", "data": data, "has_more": False, "first_id": None, "last_id": None}
        if len(parts) == 2 and parts[0] == "responses" and method in ("GET", "DELETE"):
            if parts[1] not in self.responses:
                raise not_found("Response", parts[1], None)
            if method == "DELETE":
                del self.responses[parts[1]]
                return {"id": parts[1], "object": "response", "deleted": True}
            return {"id": parts[1], "object": "response", "created_at": 1764400000, "status": "completed",
                    "output": self.responses[parts[1]][-1:], "store": True}
        return None
