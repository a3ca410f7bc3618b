#!/usr/bin/env python3
"""Writes hand programs as C arrays, each with its SHA-256; refuses one that is not fit.

usage: embed.py OUTPUT.c NATIVE RELEASE PROTOCOL.h [PROGRAM...]
NATIVE is the processor of the library, or "-"; what each program is made for, it says itself.
"""

import hashlib
import re
import struct
import sys

SIZE_MAX = 40 * 1024

# ELF's number of a machine: its name for people and for images.
MACHINES = {62: ('x86_64', 'amd64'), 183: ('aarch64', 'arm64')}

ENTRY = '''static const unsigned char image_{name}[] = {{
{image}
}};

static const unsigned char sha256_{name}[WALDO__HAND_SHA256_LEN] = {{
{sha256}
}};

'''

TEMPLATE = '''/* Made by src/hand/embed.py. */
#include "hand/embedded.h"

{entries}static const waldo__hand_program hands[] = {{
{table}
}};

const waldo__hand_program *waldo__hand_at(size_t index)
{{
    return index < {count} ? &hands[index] : NULL;
}}

const waldo__hand_program *waldo__hand_native(void)
{{
    return {native};
}}
'''


def fail(path, text, *values):
    sys.exit('embed.py: %s %s' % (path, text % values))


def protocol_version(path):
    with open(path, encoding='utf-8') as file:
        return re.search(r'^#define WALDO_HAND_VERSION (\d+)\b', file.read(), re.M).group(1)


def read_program(path, statement):
    """The bytes of a hand and the machine it is made for."""
    try:
        with open(path, 'rb') as file:
            image = file.read()
    except OSError as error:
        fail(path, 'cannot be read: %s', error.strerror)
    if not image.startswith(b'\x7fELF') or len(image) < 64:
        fail(path, 'is not an ELF program')
    kind, machine = struct.unpack_from('<HH', image, 16)
    if image[4:6] != b'\x02\x01' or kind not in (2, 3) or machine not in MACHINES:
        fail(path, 'is not a program for %s',
             ' or '.join(sorted(name for name, _ in MACHINES.values())))
    if len(image) > SIZE_MAX:
        fail(path, 'has %d bytes, the budget is %d', len(image), SIZE_MAX)
    if statement not in image:
        said = re.search(rb'waldo-hand [0-9.]+, protocol [0-9]+\n', image)
        fail(path, 'is %s; this library needs %s',
             said.group().decode().strip() if said else 'no waldo-hand',
             statement.decode().strip())
    return image, machine


def rows(data):
    return '\n'.join('    ' + ' '.join('%d,' % byte for byte in data[at:at + 20])
                     for at in range(0, len(data), 20))


def main():
    output, native, release, protocol = sys.argv[1:5]
    statement = ('waldo-hand %s, protocol %s\n' % (release, protocol_version(protocol))).encode()
    entries, table, names = [], [], []
    for path in sys.argv[5:]:
        image, machine = read_program(path, statement)
        name, arch = MACHINES[machine]
        said = re.search(r'-(x86_64|aarch64)$', path)
        if said and said.group(1) != name:
            fail(path, 'is a program for %s', name)
        if name in names:
            fail(path, 'is the second program for %s', name)
        names.append(name)
        entries.append(ENTRY.format(name=name, image=rows(image),
                                    sha256=rows(hashlib.sha256(image).digest())))
        table.append('    {{ "{0}", "{1}", image_{0}, sizeof image_{0}, sha256_{0} }},'
                     .format(name, arch))
    with open(output, 'w', encoding='ascii') as file:
        file.write(TEMPLATE.format(
            entries=''.join(entries), table='\n'.join(table) or '    { NULL, NULL, NULL, 0, NULL },',
            count=len(names),
            native='&hands[%d]' % names.index(native) if native in names else 'NULL'))


if __name__ == '__main__':
    main()
