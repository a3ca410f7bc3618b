grep

Search files in the sandbox for an extended regular expression. Answers path:line:text. Binary files and .git are left out.

{"type":"object","properties":{"pattern":{"type":"string","description":"Extended regular expression (ERE)."},"path":{"type":["string","null"],"description":"Folder or file to search; default /workspace."},"glob":{"type":["string","null"],"description":"Only files that match this pattern, such as *.c."},"ignore_case":{"type":["boolean","null"],"description":"Letters match without regard to case; default false."}},"required":["pattern"],"additionalProperties":false}
