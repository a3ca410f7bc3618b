#!/usr/bin/env python3
"""Every test belongs to a suite that tests/run.sh runs."""

import re

import gate

TEST = re.compile(r'^ *test\((?:[^()\']|\'[^\']*\'|\([^()]*\))*\)', re.M)
SUITE = re.compile(r'suite: *(\[[^\]]*\]|\'[^\']*\')')
SCRIPTS_OF_GATES = {'support'}


def violations(root):
    line = re.search(r"^all_suites='([^']*)'", gate.read(root / 'tests/run.sh'), re.M)
    known = set(line[1].split())
    for path in gate.files(root, ('meson.build',), ('tests',)):
        text = re.sub(r'#.*', lambda match: gate.blank(match[0]), gate.read(root / path))
        for test in TEST.finditer(text):
            suite = SUITE.search(test[0])
            if suite is None:
                yield path, gate.line_of(text, test.start()), 'a test without a suite never runs'
                continue
            for name in re.findall(r"'([^']*)'", suite[1]):
                if name not in known:
                    yield (path, gate.line_of(text, test.start() + suite.start()),
                           f"suite '{name}' is not one of tests/run.sh")
    for path in gate.files(root, ('.py',), ('tests',)):
        if path.name.startswith('test_') and path.parts[1] not in known | SCRIPTS_OF_GATES:
            yield path, 1, 'no suite runs this file'


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
