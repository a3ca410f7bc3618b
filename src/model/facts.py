#!/usr/bin/env python3
"""Writes the built-in list of model facts as a C text. usage: facts.py FACTS.json OUTPUT.c"""

import json
import sys


def main():
    source, output = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        text = json.dumps(json.load(file), separators=(',', ':'))
    with open(output, 'w', encoding='ascii') as file:
        file.write('/* Made by src/model/facts.py. */\n#include "model/facts.h"\n\n'
                   'const unsigned char waldo__facts_builtin[] = {\n%s\n};\n' %
                   '\n'.join('    ' + ' '.join('%d,' % byte for byte in text.encode()[at:at + 20])
                             for at in range(0, len(text), 20)))
        file.write('const size_t waldo__facts_builtin_len = sizeof waldo__facts_builtin;\n')


if __name__ == '__main__':
    main()
