#!/usr/bin/env python3
"""The shared library exports what tests/abi/symbols.txt lists, and every symbol has its prefix.

usage: symbols.py --build FOLDER [--update]     (a build without sanitizers)
"""

import re
import subprocess
from pathlib import Path

import gate

LIST = 'tests/abi/symbols.txt'


def defined(library, *options):
    """(symbol, object file) of each global symbol that a library defines."""
    done = subprocess.run(['nm', '--defined-only', '-A', *options, library],
                          capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        place, _, symbol = line.rpartition(' ')
        if ' ' in place:
            yield symbol.split('@')[0], place.split(':')[1] if place.count(':') > 1 else '-'


def exported_violations(root, library, exported):
    listed = gate.read(root / LIST).split() if (root / LIST).is_file() else []
    for line, symbol in enumerate(listed, 1):
        if symbol not in exported:
            yield LIST, line, f'{symbol} is listed, but {library.name} does not export it'
    for symbol in exported:
        if symbol not in listed:
            yield LIST, len(listed) + 1, f'{library.name} exports {symbol}, which is not listed'
        if not re.match(r'waldo_[a-z]', symbol):
            yield library.name, 1, f'exports {symbol} without the prefix waldo_'
    if not exported:
        yield library.name, 1, 'exports nothing'


def violations(root, build):
    shared = build / 'libwaldo.so'
    if not shared.exists():
        yield shared, 1, 'not built'
        return
    exported = sorted({symbol for symbol, _ in defined(shared, '-D')})
    yield from exported_violations(root, shared, exported)
    for symbol, member in defined(build / 'libwaldo.a', '-g'):
        if not symbol.startswith('waldo_'):
            yield 'libwaldo.a', 1, f'{member} defines {symbol} without waldo_ or waldo__'


def main():
    wanted = gate.arguments(__doc__, ('--build', {'type': Path, 'required': True}),
                            ('--update', {'action': 'store_true'}))
    if wanted.update:
        exported = sorted({symbol for symbol, _ in defined(wanted.build / 'libwaldo.so', '-D')})
        (wanted.root / LIST).write_text(''.join(symbol + '\n' for symbol in exported))
    gate.finish(list(violations(wanted.root, wanted.build)))


if __name__ == '__main__':
    main()
