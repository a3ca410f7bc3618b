#!/usr/bin/env python3
"""No file over 800 lines, no function over 80."""

import re

import gate

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80


def functions(text):
    """(first line, name, lines) of each function; formatted code has its braces in column 0."""
    code = gate.code_only(text).splitlines()
    opened = None
    for number, line in enumerate(code, 1):
        if line.startswith('{'):
            opened = number
        elif line.startswith('}') and opened is not None:
            head = ' '.join(code[max(0, opened - 6):opened - 1])
            names = re.findall(r'(\w+)\s*\(', head)
            signature = re.findall(r'(\w+)\s*\([^;{}]*\)\s*$', head)
            yield opened, (signature or names or ['?'])[0], number - opened + 1
            opened = None


def violations(root):
    for path in gate.files(root, ('.c', '.h', '.py', '.sh')):
        text = gate.read(root / path)
        lines = text.count('\n')
        if lines > MAX_FILE_LINES:
            yield path, lines, f'{lines} lines, a file has at most {MAX_FILE_LINES}'
        if path.suffix == '.c':
            for line, name, length in functions(text):
                if length > MAX_FUNCTION_LINES:
                    yield (path, line, f'{name}() has {length} lines, '
                                       f'a function has at most {MAX_FUNCTION_LINES}')


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
