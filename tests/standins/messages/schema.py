"""Judges the schema that answers are to follow."""
from wire import Refused

# What else a schema may say, the official clients move into descriptions.
KEYWORDS = set("""type properties required items anyOf allOf enum const $ref $defs description title
    additionalProperties format""".split())
FORMATS = set("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())


def check(schema, where="output_config.format.schema"):
    for key in schema:
        if key not in KEYWORDS or key == "format" and schema[key] not in FORMATS:
            raise Refused(f"{where}: For '{schema.get('type')}' type, property '{key}' is not supported")
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise Refused(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    below = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    below += [schema["items"]] if "items" in schema else []
    for part in below + schema.get("anyOf", []) + schema.get("allOf", []):
        check(part, where)
