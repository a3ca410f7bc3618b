exec_command

Run a shell command in the sandbox and return its exit code and output. Standard output and standard error come together, in the order they were written. The command has no terminal and no standard input. When it ends, processes it left in the background live on.

{"type":"object","properties":{"cmd":{"type":"string","description":"Shell text, run by /bin/sh -c."},"workdir":{"type":["string","null"],"description":"Folder to run in; default /workspace."},"timeout_ms":{"type":["integer","null"],"description":"End the command and all it started after so many milliseconds."},"login":{"type":["boolean","null"],"description":"Use a login shell (-lc); default false."}},"required":["cmd"],"additionalProperties":false}

You can run shell commands with exec_command. They run in an isolated sandbox, not on the user's machine; the working folder is /workspace. Commands start in a fresh shell: only files and background processes stay between calls. Long output is cut in the middle; the tool says how much is missing and where all of it can be read.
