#!/usr/bin/env python3
"""Compiles and links the hand, and leaves out what only a linker or debugger reads.

usage: build.py OUTPUT COMPILER ARGUMENT...     (without -o)
"""

import os
import struct
import subprocess
import sys

EHDR = struct.Struct('<16sHHIQQQIHHHHHH')
PHDR = struct.Struct('<IIQQQQQQ')


def without_sections(image):
    """The image up to the end of its last segment; the section headers behind it are optional."""
    fields = list(EHDR.unpack_from(image))
    if fields[0][:6] != b'\x7fELF\x02\x01':
        sys.exit('build.py: not a little-endian 64-bit ELF program')
    start, size, count = fields[5], fields[9], fields[10]
    segments = [PHDR.unpack_from(image, start + i * size) for i in range(count)]
    end = max(offset + length for _, _, offset, _, _, length, _, _ in segments)
    fields[6] = fields[12] = fields[13] = 0
    return EHDR.pack(*fields) + image[EHDR.size:end]


def main():
    output, command = sys.argv[1], sys.argv[2:]
    whole = output + '.linked'
    code = subprocess.run(command + ['-o', whole], check=False).returncode
    if code != 0:
        sys.exit(code)
    with open(whole, 'rb') as file:
        image = without_sections(file.read())
    with open(whole, 'wb') as file:
        file.write(image)
    os.replace(whole, output)  # an earlier one may still run


if __name__ == '__main__':
    main()
