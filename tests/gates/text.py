#!/usr/bin/env python3
"""Whitespace, and notes to oneself that were left behind."""

import re

import gate

SUFFIXES = ('.c', '.h', '.py', '.sh', '.md', '.txt', '.build', '.json', '.js', '.mjs')
NOTES = re.compile(r'\b(' + '|'.join(('TO' 'DO', 'FIX' 'ME', 'XX' 'X', 'HA' 'CK')) + r')\b')
COLUMNS = {'.c': 100, '.h': 100, '.py': 120}
# Golden files and corpora hold bytes that must stay as they are.
EXEMPT = re.compile(r'(^|/)(golden|corpus|data|fixtures)/')


def violations(root):
    for path in gate.files(root, SUFFIXES):
        if EXEMPT.search(path.as_posix()) or path.name == 'package-lock.json':
            continue
        text = (root / path).read_bytes().decode('utf-8', 'replace')
        for number, line in enumerate(text.split('\n'), 1):
            if line != line.rstrip():
                yield path, number, 'white space at the end of the line'
            if '\t' in line and path.suffix in ('.c', '.h', '.py', '.build'):
                yield path, number, 'a tab, use spaces'
            if len(line) > COLUMNS.get(path.suffix, len(line)):
                yield (path, number, f'{len(line)} columns, '
                                     f'a line has at most {COLUMNS[path.suffix]}')
            if re.match(r'(<<<<<<<|>>>>>>>) ', line):
                yield path, number, 'a conflict marker'
            note = NOTES.search(line)
            if note:
                yield path, number, f'{note[1]} left in the file'
        if text and not text.endswith('\n'):
            yield path, text.count('\n') + 1, 'no newline at the end of the file'
        if text.endswith('\n\n'):
            yield path, text.count('\n'), 'empty line at the end of the file'


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
