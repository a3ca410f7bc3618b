#!/usr/bin/env python3
"""shellcheck finds nothing in the shell scripts."""

import re
import subprocess

import gate

PROBLEM = re.compile(r'^(.*?):(\d+):\d+: \w+: (.*)$')


def violations(root):
    paths = [path.as_posix() for path in gate.files(root, ('.sh',))]
    if (root / '.ci/run').is_file():
        paths.append('.ci/run')
    done = subprocess.run(['shellcheck', '--format=gcc', *paths], cwd=root, capture_output=True,
                          text=True)
    for line in (done.stdout + done.stderr).splitlines():
        match = PROBLEM.match(line)
        yield match.groups() if match else ('tests', 1, line)


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
