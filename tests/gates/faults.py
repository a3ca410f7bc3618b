#!/usr/bin/env python3
"""Each fault of tests/contract/peer_faults.txt is held by tests that exist and run."""

import re

import gate

TABLE = 'tests/contract/peer_faults.txt'
LAST = 43
ROW = re.compile(r'F(\d\d) (sandbox|local|docker|any|later) (.+)')
# Where both columns are started, and the word that starts them.
COLUMNS = {
    'tests/contract/test_faults.c': [('tests/contract/meson.build', "test('contract_local_faults'"),
                                     ('tests/docker/test_contract.py', '"test-faults"')],
    'tests/contract/case_': [('tests/contract/meson.build', "'contract_' + backend + '_' + group"),
                             ('tests/docker/test_contract.py', '"test-contract"')],
    'tests/hostile/': [('tests/hostile/test_hostile.py', 'params=["local", "docker"]')],
}


def unstarted(root, place):
    """Why a test of this file does not run against both backends, or None."""
    for prefix, starts in COLUMNS.items():
        if place.startswith(prefix):
            for path, word in starts:
                if word not in gate.read(root / path):
                    return f'{path} does not run it'
            if prefix.endswith('case_'):
                for path in ('tests/contract/meson.build', 'tests/docker/test_contract.py'):
                    group = re.search(r'const size_t (\w+?)_case_count', gate.read(root / place))
                    names = {'file': 'files'}
                    name = names.get(group[1], group[1])
                    text = gate.read(root / path)
                    if 'GROUPS.split(' in text:  # all that the program names
                        continue
                    if not re.search(rf'[\'"]{name}[\'"]', text):
                        return f'{path} does not run its group'
            return None
    return 'it does not run against both backends'


def missing(root, place, test):
    """Why there is no such test, or None."""
    if not (root / place).is_file():
        return f'there is no {place}'
    text = gate.read(root / place)
    if place.endswith('.py'):
        return None if re.search(rf'^def {test}\(', text, re.M) else f'{place} has no {test}'
    text = gate.without_comments(text)
    if not re.search(rf'^static void {test}\(void \*\*', text, re.M):
        return f'{place} has no {test}'
    used = re.search(rf'\b\w+\({test}[,)]', text)
    return None if used else f'{place} does not run {test}'


def check_row(root, kind, what):
    if kind == 'later':
        return None
    place, _, test = what.partition(':')
    if not re.fullmatch(r'\w+', test):
        return 'a row names FILE:TEST'
    return missing(root, place, test) or (unstarted(root, place) if kind == 'sandbox' else None)


def violations(root):
    seen = set()
    lines = gate.read(root / TABLE).splitlines()
    for number, line in enumerate(lines, 1):
        line = line.partition('#')[0].strip()
        if not line:
            continue
        row = ROW.fullmatch(line)
        if row is None:
            yield TABLE, number, 'a row is NUMBER KIND FILE:TEST, or NUMBER later REASON'
            continue
        seen.add(int(row[1]))
        wrong = check_row(root, row[2], row[3])
        if wrong:
            yield TABLE, number, wrong
    for number in sorted(set(range(1, LAST + 1)) - seen):
        yield TABLE, len(lines), f'F{number:02} has no row'


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
