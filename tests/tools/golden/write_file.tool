write_file

Write a file in the sandbox, replacing it if it exists. Missing folders are made. The permissions of a replaced file stay.

{"type":"object","properties":{"path":{"type":"string","description":"Absolute, or relative to /workspace."},"content":{"type":"string","description":"The whole new content."}},"required":["path","content"],"additionalProperties":false}
