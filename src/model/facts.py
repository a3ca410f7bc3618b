#!/usr/bin/env python3
"""Writes the built-in list of model facts as a C table. usage: facts.py FACTS.json OUTPUT.c"""

import json
import os.path
import sys

# In the order of waldo__model_facts.
MEMBERS = ('window', 'max_output', 'input', 'cached_input', 'output', 'cache_write',
           'long_from', 'long_input', 'long_output')


PATTERN_MAX = 128  # that of facts.h


def read(path):
    with open(path, encoding='utf-8') as file:
        for row in json.load(file)['models']:
            match = row.pop('match')
            numbers = [row.pop(name, 0 if name.startswith('long_') else None) for name in MEMBERS]
            if row or any(number is not None and not 0 <= number < 0xffffffff for number in numbers):
                raise SystemExit('%s: %s cannot be built in' % (path, match))
            yield [match] if isinstance(match, str) else match, numbers


def shorten(rows):
    """Their patterns as C text, each without what it shares with the one before."""
    before = b''
    for matches, _ in rows:
        text = ''
        for match in map(str.encode, matches):
            same = len(os.path.commonprefix([before, match]))
            if len(match) >= PATTERN_MAX:
                raise SystemExit('%s is too long to be built in' % match)
            text += '\\%03o%s\\0' % (same + 1, match[same:].decode('ascii'))
            before = match
        yield text


def main():
    source, output = sys.argv[1:]
    rows = list(read(source))
    numbers = sorted({number for _, row in rows for number in row if number is not None})
    if len(numbers) >= 255:
        raise SystemExit('%s: too many different numbers' % source)
    with open(output, 'w', encoding='ascii') as file:
        file.write('/* Made by src/model/facts.py. */\n#include "model/facts.h"\n\n'
                   'const char waldo__facts_patterns[] =\n%s;\n\n' %
                   '\n'.join('    "%s\\0"' % text for text in shorten(rows)))
        file.write('const uint32_t waldo__facts_numbers[] = {\n%s\n    UINT32_MAX\n};\n\n' %
                   '\n'.join('    %du,' % number for number in numbers))
        numbers.append(None)
        file.write('const uint8_t waldo__facts_rows[][WALDO__MODEL_FACTS] = {\n%s\n};\n' %
                   '\n'.join('    { %s },' % ', '.join(str(numbers.index(number)) for number in row)
                             for _, row in rows))


if __name__ == '__main__':
    main()
