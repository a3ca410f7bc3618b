ls

List a folder in the sandbox: one entry a line, folders with a slash, files with their size in bytes, links with their target.

{"type":"object","properties":{"path":{"type":["string","null"],"description":"The folder; default /workspace."}},"required":[],"additionalProperties":false}
