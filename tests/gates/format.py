#!/usr/bin/env python3
"""clang-format finds nothing to change (the options are in .clang-format)."""

import re
import subprocess

import gate

PROBLEM = re.compile(r'^(.*?):(\d+):\d+: (?:error|warning): (.*)$')


def violations(root):
    paths = [path.as_posix() for path in gate.c_files(root)]
    if not paths:
        return
    done = subprocess.run(['clang-format', '--dry-run', '-Werror', '--ferror-limit=1', *paths],
                          cwd=root, capture_output=True, text=True)
    problems = [PROBLEM.match(line) for line in done.stderr.splitlines()]
    for match in filter(None, problems):
        yield match[1], match[2], 'not formatted, run: ninja -C build clang-format'
    if done.returncode != 0 and not any(problems):
        yield '.clang-format', 1, done.stderr.strip()


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
