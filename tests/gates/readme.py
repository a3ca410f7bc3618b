#!/usr/bin/env python3
"""Every C program shown in README.md is one of the examples, and compiles with strict warnings."""

import re
import subprocess

import gate

PROGRAM = re.compile(r'^```c\n(.*?)^```', re.M | re.S)


def compile_errors(root, source):
    """What the compiler says against the public headers alone; None when it is content."""
    done = subprocess.run(['cc', '-std=c11', '-Wall', '-Wextra', '-pedantic', '-Werror',
                           '-fsyntax-only', '-I', root / 'include', '-x', 'c', '-'],
                          input=source, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[0] if done.returncode else None


def violations(root):
    readme = root / 'README.md'
    if not readme.is_file():
        yield 'README.md', 1, 'there is no README.md'
        return
    text = gate.read(readme)
    examples = {gate.read(root / path).strip() for path in gate.files(root, ('.c',), ('examples',))}
    for match in PROGRAM.finditer(text):
        line = gate.line_of(text, match.start())
        if match[1].strip() not in examples:
            yield 'README.md', line, 'this program equals no file in examples/'
        error = compile_errors(root, match[1])
        if error:
            yield 'README.md', line, f'this program does not compile: {error}'
    if not PROGRAM.search(text):
        yield 'README.md', 1, 'no C program (a ```c block) in it'


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
