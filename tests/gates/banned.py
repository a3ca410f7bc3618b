#!/usr/bin/env python3
"""Calls that the library, the backends and the examples must not make."""

import re
from fnmatch import fnmatch

import gate

LIBRARY = ('src', 'backends')
ALL = ('src', 'backends', 'examples')

# (names, where it is banned, files where it is allowed, what to use instead)
RULES = [
    ('sprintf vsprintf', ALL, (), 'snprintf or waldo__buf'),
    ('strcpy strcat strncpy strncat stpcpy', ALL, (), 'memcpy with a known length, or waldo__buf'),
    ('strtok', ALL, (), 'waldo_str and a loop'),
    ('atoi atol atoll atof', ALL, (), 'strtol family with its end and errno checked'),
    ('gets', ALL, (), 'fgets'),
    ('alloca', ALL, (), 'a bounded array or waldo__alloc'),
    ('system popen', ALL, (), 'a child through the loop, with an argument vector'),
    ('strerror', ALL, (), 'strerror_r: strerror shares one buffer between threads'),
    ('localtime gmtime ctime asctime', ALL, (), 'the _r form'),
    ('rand srand random', ALL, (), 'base/rand'),
    ('getenv secure_getenv setenv putenv', ALL, ('src/base/env.c', 'examples/cli/*'),
     'an option; the environment is read in src/base/env.c only'),
    ('curl_easy_perform', ALL, (), 'a transfer on the loop'),
    ('cJSON_GetObjectItem', ALL, (), 'cJSON_GetObjectItemCaseSensitive'),
    ('cJSON_Parse', ALL, (), 'cJSON_ParseWithLengthOpts'),
    ('cJSON_InitHooks', ALL, (), 'nothing: it changes the allocator of the whole process'),
    ('malloc calloc realloc free strdup strndup asprintf vasprintf', LIBRARY,
     ('src/base/alloc.c', 'src/hand/*', 'src/testing/*'), 'the waldo__alloc family'),
    ('signal sigaction', LIBRARY, ('src/hand/*', 'src/loop/child.c'), 'nothing: signal handlers belong to the host'),
    ('setjmp longjmp sigsetjmp siglongjmp', ALL, (), 'status codes'),
]


def violations(root):
    for names, folders, allowed, instead in RULES:
        call = re.compile(r'(?<![\w.])(?<!->)(' + '|'.join(names.split()) + r')\s*\(')
        for path in gate.c_files(root, folders):
            if any(fnmatch(path.as_posix(), pattern) for pattern in allowed):
                continue
            code = gate.code_only(gate.read(root / path))
            for match in call.finditer(code):
                yield (path, gate.line_of(code, match.start()),
                       f'{match[1]}() is banned, use {instead}')


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
