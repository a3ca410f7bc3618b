#!/usr/bin/env python3
"""Writes the built-in list of model facts as a C table. usage: facts.py FACTS.json OUTPUT.c"""

import json
import sys

# In the order of waldo__model_facts.
MEMBERS = ('window', 'max_output', 'input', 'cached_input', 'output', 'cache_write',
           'long_from', 'long_input', 'long_output')


def read(path):
    with open(path, encoding='utf-8') as file:
        for row in json.load(file)['models']:
            match = row.pop('match')
            numbers = [row.pop(name, 0 if name.startswith('long_') else None) for name in MEMBERS]
            if row or any(number is not None and not 0 <= number < 0xffffffff for number in numbers):
                raise SystemExit('%s: %s cannot be built in' % (path, match))
            yield [match] if isinstance(match, str) else match, numbers


def main():
    source, output = sys.argv[1:]
    rows = list(read(source))
    with open(output, 'w', encoding='ascii') as file:
        file.write('/* Made by src/model/facts.py. */\n#include "model/facts.h"\n\n'
                   'const char waldo__facts_builtin_matches[] =\n%s;\n\n' %
                   '\n'.join('    "%s\\0"' % ''.join(match + '\\0' for match in matches)
                             for matches, _ in rows))
        file.write('const uint32_t waldo__facts_builtin[][WALDO__MODEL_FACTS] = {\n%s\n};\n' %
                   '\n'.join('    { %s },' % ', '.join('UINT32_MAX' if number is None else
                                                      '%du' % number for number in numbers)
                             for _, numbers in rows))


if __name__ == '__main__':
    main()
