edit_file

Replace text in a file of the sandbox. old_text must occur exactly once, unless replace_all is set. Line ends of the file (LF or CRLF) are kept.

{"type":"object","properties":{"path":{"type":"string","description":"Absolute, or relative to /workspace."},"old_text":{"type":"string","description":"The text to replace, exactly as it is in the file."},"new_text":{"type":"string","description":"What to put in its place."},"replace_all":{"type":["boolean","null"],"description":"Replace every occurrence; default false."}},"required":["path","old_text","new_text"],"additionalProperties":false}
