#!/usr/bin/env python3
"""Includes and provider names against tests/layers.txt."""

import re
from fnmatch import fnmatch

import gate

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
SHORT_NAMES = {'public': 'include/waldo', 'sys': 'include/waldo/sys',
               'error': 'include/waldo/sys/error.h'}
FOREIGN = 'foreign'  # the target of an include that is not a file of this tree


def read_table(path):
    """The sections of layers.txt as {section: [(key, [words], line)]}."""
    table, section = {}, None
    for number, line in enumerate(gate.read(path).splitlines(), 1):
        line = line.split('#')[0].strip()
        if line.startswith('['):
            section = table.setdefault(line.strip('[]'), [])
        elif line:
            key, _, words = line.partition(':')
            section.append((key.strip(), words.split(), number))
    return table


def covers(pattern, path):
    """True when the folder or file pattern covers the path."""
    return fnmatch(path, pattern) or fnmatch(path, pattern.rstrip('/') + '/*')


def folder_of(layers, path):
    """The longest row key that covers the path; None when there is none."""
    rows = [row for row in layers if covers(row[0], path)]
    return max(rows, key=lambda row: len(row[0]), default=None)


def target_of(root, path, mark, name):
    """The tree's own file that an include means, as a path from the root."""
    places = [root / 'include', root / 'src', root, root / 'tests/support']
    if mark == '"':
        places.insert(0, (root / path).parent)
    for place in places:
        candidate = place / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root.resolve()).as_posix()
    # A header of ours that is not there (or generated) still belongs to the folder it names.
    if name.startswith('waldo/'):
        return 'include/' + name
    if (root / 'src' / name.split('/')[0]).is_dir() and '/' in name:
        return 'src/' + name
    return FOREIGN


def permitted(row, target):
    """True when a file of this row may include that file of the tree."""
    key, words, _ = row
    own = key if '*' not in key else None
    if own and covers(own, target):
        return True
    for word in words:
        folder = SHORT_NAMES.get(word)
        folder = folder or (word if '/' in word else 'src/' + word)
        if word == 'public' and target.startswith('include/waldo/sys/'):
            continue
        if covers(folder, target):
            return True
    return False


def include_violations(root, table):
    layers = table['layers']
    for path in gate.c_files(root):
        row = folder_of(layers, path.as_posix())
        text = gate.without_comments(gate.read(root / path))
        if row is None:
            yield path, 1, 'no row of tests/layers.txt covers this file'
            continue
        for match in INCLUDE.finditer(text):
            line, name = gate.line_of(text, match.start(2)), match[2]
            target = target_of(root, path, match[1], name)
            if target == FOREIGN:
                for pattern, folders, _ in table['headers']:
                    allowed = path.parts[0] == 'tests' or any(
                        covers(folder, path.as_posix()) for folder in folders)
                    if fnmatch(name, pattern) and not allowed:
                        yield path, line, f'<{name}> may be included only by {" ".join(folders)}'
                continue
            same_backend = path.parts[:2] == tuple(target.split('/')[:2])
            if not permitted(row, target) and not (row[0] == 'backends/*' and same_backend):
                yield path, line, f'{row[0]} may not include {target} (tests/layers.txt:{row[2]})'


def name_violations(root, table):
    for words, allowed, row_line in table['names']:
        word = re.compile(r'(?<![a-z])(' + '|'.join(words.split()) + r')(?![a-z])', re.I)
        for path in gate.c_files(root, ('src',)):
            if any(covers(pattern, path.as_posix()) for pattern in allowed):
                continue
            text = gate.without_comments(gate.read(root / path))
            for match in word.finditer(text):
                yield (path, gate.line_of(text, match.start()),
                       f'the core names no provider: {match[1]} (tests/layers.txt:{row_line})')


if __name__ == '__main__':
    root = gate.arguments(__doc__).root
    table = read_table(root / 'tests/layers.txt')
    gate.finish([*include_violations(root, table), *name_violations(root, table)])
