write_stdin

Go on with a command that exec_command left running: write to its standard input or its terminal, wait, and return what it has printed since. Without chars it only waits and reads.

{"type":"object","properties":{"session_id":{"type":"integer","description":"Number that exec_command gave."},"chars":{"type":["string","null"],"description":"Text to write, with its newline. On a terminal \\u0003 is Ctrl-C and \\u0004 is Ctrl-D."},"yield_time_ms":{"type":["integer","null"],"description":"Wait so long at most for the command to end; default 1000."},"eof":{"type":["boolean","null"],"description":"Close its standard input after chars; default false."},"stop":{"type":["boolean","null"],"description":"End the command and all it started; default false."}},"required":["session_id"],"additionalProperties":false}
