#!/usr/bin/env python3
"""Writes the hand program as a C array, with its SHA-256.

usage: embed.py OUTPUT.c MAXIMUM [PROGRAM]     (no PROGRAM: an empty image)
"""

import hashlib
import sys

TEMPLATE = '''/* Made by src/hand/embed.py. */
#include "hand/embedded.h"

static const unsigned char image[] = {{
{image}
}};

static const unsigned char sha256[WALDO__HAND_SHA256_LEN] = {{
{sha256}
}};

const unsigned char *waldo__hand_image(size_t *ret_len)
{{
    *ret_len = {length};
    return {length} != 0 ? image : NULL;
}}

const unsigned char *waldo__hand_sha256(void)
{{
    return sha256;
}}
'''


def rows(data):
    return '\n'.join('    ' + ' '.join('%d,' % byte for byte in data[at:at + 20])
                     for at in range(0, len(data), 20))


def main():
    output, maximum = sys.argv[1], int(sys.argv[2])
    image = b''
    if len(sys.argv) > 3:
        with open(sys.argv[3], 'rb') as file:
            image = file.read()
        if not image.startswith(b'\x7fELF'):
            sys.exit('embed.py: %s is not an ELF program' % sys.argv[3])
        if len(image) > maximum:
            sys.exit('embed.py: the hand has %d bytes, its budget is %d' % (len(image), maximum))
    with open(output, 'w', encoding='ascii') as file:
        file.write(TEMPLATE.format(image=rows(image or b'\0'), length=len(image),
                                   sha256=rows(hashlib.sha256(image).digest())))


if __name__ == '__main__':
    main()
