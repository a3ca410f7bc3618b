#!/usr/bin/env python3
"""Writes hand programs as packed C arrays, each with its SHA-256; refuses one that is not fit.

usage: embed.py OUTPUT.c NATIVE RELEASE PROTOCOL.h [PROGRAM...]
NATIVE is the processor of the library, or "-"; what each program is made for, it says itself.
"""

import hashlib
import re
import struct
import sys

SIZE_MAX = 40 * 1024
PLACES_MAX = 400  # earlier ones that are looked at for equal bytes

# ELF's number of a machine: its name for people and for images.
MACHINES = {62: ('x86_64', 'amd64'), 183: ('aarch64', 'arm64')}

ENTRY = '''static unsigned char image_{name}[{size}];
static pthread_once_t once_{name} = PTHREAD_ONCE_INIT;

static const unsigned char packed_{name}[] = {{
{packed}
}};

static const unsigned char sha256_{name}[WALDO__HAND_SHA256_LEN] = {{
{sha256}
}};

static void unpack_{name}(void)
{{
    waldo__hand_unpack(packed_{name}, sizeof packed_{name}, image_{name}, sizeof image_{name});
}}

'''

TEMPLATE = '''/* Made by src/hand/embed.py. */
#include "hand/embedded.h"

{entries}const waldo__hand_program waldo__hands[] = {{
{table}
}};

const size_t waldo__hand_count = {count};
const size_t waldo__hand_native_index = {native};
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


def gamma(value):
    """A number from 1 on: as many zeros as bits follow its first one, then those bits."""
    return '0' * (value.bit_length() - 1) + format(value, 'b')


def same(data, first, second):
    """How many bytes from second on are those from first on."""
    length = 0
    while second + length < len(data) and data[first + length] == data[second + length]:
        length += 1
    return length


def relate_calls(data):
    """With the place that a call of x86-64 goes to instead of how far that is."""
    data, at = bytearray(data), 0
    while at + 5 <= len(data):
        if data[at] == 0xE8:
            distance, = struct.unpack_from('<I', data, at + 1)
            struct.pack_into('<I', data, at + 1, distance + at + 5 & 0xFFFFFFFF)
            at += 4
        at += 1
    return bytes(data)


def pack(data):
    """What waldo__hand_unpack() reads, along the cheapest way through the data."""
    best = [(0, '', 0, 0)] + [None] * len(data)  # bits so far, the last ones, whence, distance
    places = {}

    def offer(start, length, bits, distance):
        price = best[start][0] + len(bits)
        if best[start + length] is None or price < best[start + length][0]:
            best[start + length] = (price, bits, start, distance)

    for at in range(len(data)):
        last = best[at][3]
        offer(at, 1, '0' + format(data[at], '08b'), last)
        if last:
            for length in range(1, same(data, at - last, at) + 1):
                offer(at, length, '11' + gamma(length), last)
        known = places.setdefault(data[at:at + 2], [])
        longest = 1
        for place in known[:-PLACES_MAX:-1]:
            distance = at - place
            found = same(data, place, at)
            for length in range(longest + 1, found + 1):
                offer(at, length, '10' + gamma((distance - 1 >> 8) + 1) +
                      format(distance - 1 & 255, '08b') + gamma(length - 1), distance)
            longest = max(longest, found)
        known.append(at)
    bits, at = [], len(data)
    while at > 0:
        bits.append(best[at][1])
        at = best[at][2]
    bits = ''.join(reversed(bits))
    bits += '0' * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, 'big')


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
        packed = pack(relate_calls(image) if name == 'x86_64' else image)
        entries.append(ENTRY.format(name=name, size=len(image), packed=rows(packed),
                                    sha256=rows(hashlib.sha256(image).digest())))
        table.append('    {{ "{0}", "{1}", image_{0}, sizeof image_{0}, sha256_{0}, &once_{0}, '
                     'unpack_{0} }},'.format(name, arch))
    with open(output, 'w', encoding='ascii') as file:
        file.write(TEMPLATE.format(
            entries=''.join(entries), table='\n'.join(table) or '    { NULL, NULL, NULL, 0, NULL, NULL, NULL },',
            count=len(names),
            native=names.index(native) if native in names else len(names)))


if __name__ == '__main__':
    main()
