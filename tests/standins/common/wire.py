"""JSON as services take and give it, and their refusals."""
import json

PARSE = "We could not parse the JSON body of your request."


class Refused(Exception):
    def __init__(self, message, param=None, code=None, status=400, kind="invalid_request_error"):
        super().__init__(message)
        self.status = status
        self.error = {"message": message, "type": kind, "param": param, "code": code}


def parse(raw):
    """The request as a value; refuses what is not UTF-8, not JSON, or holds half a surrogate pair."""
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except (UnicodeError, ValueError) as why:
        raise Refused(PARSE) from why
    if not isinstance(body, dict):
        raise Refused(PARSE)
    return body


def dump(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeError:  # half a surrogate pair can only be sent as an escape
        text = json.dumps(value, separators=(",", ":"))
    return text
