#!/usr/bin/env python3
"""Public headers: each compiles alone in C11 and C++17, and every function says its contract."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import gate

WARNINGS = ['-Wall', '-Wextra', '-pedantic', '-Werror', '-fsyntax-only']
COMPILERS = [
    ['gcc', '-std=c11', '-x', 'c'],
    ['clang', '-std=c11', '-x', 'c'],
    ['g++', '-std=c++17', '-x', 'c++'],
]
DECLARATION = re.compile(r'^WALDO_API\b[^;]*?(\w+)\([^;]*;', re.M)
REQUIRED_WORDS = ('Thread:', 'Since:')


def compile_violations(root, header):
    """Compile a file that includes the header twice and nothing else."""
    name = header.relative_to('include').as_posix()
    source = f'#include <{name}>\n#include <{name}>\nint waldo_header_test;\n'
    for compiler in COMPILERS:
        done = subprocess.run([*compiler, *WARNINGS, '-I', root / 'include', '-'],
                              input=source, capture_output=True, text=True)
        if done.returncode:
            problem = re.search(r'(include/\S+?):(\d+):.*?: ((?:fatal )?error: .*)', done.stderr)
            place = (problem[1], problem[2]) if problem else (header, 1)
            said = problem[3] if problem else done.stderr.strip()
            yield *place, f'does not compile alone with {compiler[0]} {compiler[1]}: {said}'


def doc_violations(root, header):
    """A doc comment with the required words ends right above each exported function."""
    text = gate.read(root / header)
    for match in DECLARATION.finditer(gate.code_only(text)):
        above = text[:match.start()].rstrip()
        start = above.rfind('/**')
        comment = above[start:] if start >= 0 and above.endswith('*/') else ''
        if comment.count('*/') != 1:
            comment = ''
        missing = [word for word in REQUIRED_WORDS if word not in comment]
        if missing:
            yield (header, gate.line_of(text, match.start()),
                   f'{match[1]}() has no doc comment with {" and ".join(missing)}')


def violations(root):
    headers = gate.files(root, ('.h',), ('include/waldo',))
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda header: list(compile_violations(root, header)), headers):
            yield from found
    for header in headers:
        yield from doc_violations(root, header)


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
