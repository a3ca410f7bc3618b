glob

Find files in the sandbox by a pattern: * and ? within a name, ** across folders, [a-z] sets, {a,b} alternatives. Answers sorted paths that the other tools take; hidden files are among them, the content of .git only when the pattern names it.

{"type":"object","properties":{"pattern":{"type":"string","description":"Such as **/*.py; without a slash it is held against file names anywhere."},"path":{"type":["string","null"],"description":"Folder to look in; default /workspace. The pattern is relative to it."}},"required":["pattern"],"additionalProperties":false}
