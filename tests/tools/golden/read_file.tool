read_file

Read a text file in the sandbox, whole or a range of its lines. The answer is the text as it is, without line numbers; a note at the end says where to go on.

{"type":"object","properties":{"path":{"type":"string","description":"Absolute, or relative to /workspace."},"offset":{"type":["integer","null"],"description":"First line, counted from 1; default 1."},"limit":{"type":["integer","null"],"description":"Number of lines; default 2000."},"byte_offset":{"type":["integer","null"],"description":"Read from this byte on instead of by lines: for very long lines and captured output."}},"required":["path"],"additionalProperties":false}

Files in the sandbox are read and changed with read_file, write_file, edit_file, ls, glob and grep. Relative paths start at /workspace.
