#!/usr/bin/env python3
"""Writes one file for each frame of docs/hand-protocol.md, from the tables there and nothing else.

usage: make.py [--check]      (--check: writes nothing, says which files differ)
"""

import struct
import sys
from pathlib import Path

ID = 0x01020304
NONCE = bytes(range(0x10, 0x20))


def frame(kind, ident, payload=b''):
    return struct.pack('<IBI', len(payload), kind, ident) + payload


def field(tag, value):
    return struct.pack('<HI', tag, len(value)) + value


def u32(tag, value):
    return field(tag, struct.pack('<I', value))


def u64(tag, value):
    return field(tag, struct.pack('<Q', value))


def hello(arch, features, pid, uid, jobs, release):
    return b'WLD1' + struct.pack('<HHQ16sIIIIII', 1, arch, features, NONCE, pid, uid, 262144, jobs,
                                 release, 0)


def entry(kind, mode, size, seconds, nanos, uid, gid, name, target):
    return struct.pack('<BBHIQqIIII', kind, 0, len(name), mode, size, seconds, nanos, uid, gid,
                       len(target)) + name + target


def start_error(errno, phase):
    return struct.pack('<iB3x', errno, phase)


EXIT = struct.pack('<B3xiIi10Q', 2, 9, 0x2d, 28, 100, 200, 50, 60, 70, 80, 1 << 35, 11, 12, 13)
FILE = field(32, b'dir/f\xff') + field(33, b'/root')

FRAMES = {
    # host to hand
    'host-hello': frame(0x01, 0, hello(0, 0, 0, 0, 0, 0)),
    'run-argv': frame(0x02, ID, u32(1, 0x0f) + field(2, b'prog') + field(2, b'') + field(2, b'\xff\xfe')
                      + field(4, b'/w') + field(5, b'A=1') + field(5, b'B') + field(12, b'/c/out')
                      + u32(6, 120000) + u32(7, 0) + u64(8, 20000) + u32(9, 1000) + u64(10, 30000)
                      + u32(11, 2000) + u64(13, 1 << 33) + u64(14, 65536)),
    'run-script': frame(0x02, ID, field(3, b'echo hi\n')),
    'run-pty': frame(0x02, ID, u32(1, 0x10) + field(3, b'vi') + field(15, struct.pack('<HH', 50, 300))),
    'run-kept': frame(0x02, ID, u32(1, 0x21) + field(3, b'make') + u32(9, 65536) + field(18, b'l\0\xff')),
    'stdin': frame(0x03, ID, b'a\0\xffb'),
    'stdin-eof': frame(0x04, ID),
    'signal': frame(0x05, ID, struct.pack('<iB', 15, 2)),
    'host-credit': frame(0x06, ID, struct.pack('<Q', 1 << 40)),
    'cancel': frame(0x07, ID, struct.pack('<I', 0xffffffff)),
    'resize': frame(0x08, ID, struct.pack('<HH', 50, 300)),
    'ping': frame(0x09, ID, b'ping'),
    'shutdown': frame(0x0a, ID),
    'read': frame(0x10, ID, FILE + u32(1, 1) + u64(36, 5 << 32) + u64(37, 100)),
    'write': frame(0x11, ID, FILE + u32(1, 0x16) + u32(35, 0o751)),
    'write-data': frame(0x12, ID, b'data\0'),
    'write-end': frame(0x13, ID),
    'stat': frame(0x14, ID, FILE + u32(1, 1)),
    'list': frame(0x15, ID, FILE + u64(37, 7)),
    'mkdir': frame(0x16, ID, FILE + u32(1, 2)),
    'remove': frame(0x17, ID, FILE + u32(1, 0x20)),
    'rename': frame(0x18, ID, FILE + field(34, b'to') + u32(1, 0x10)),
    'job-attach': frame(0x21, ID, struct.pack('<IIQQ', 77, 0, 5 << 32, 1 << 20)),
    'job-forget': frame(0x22, ID),
    'job-list': frame(0x20, ID),
    'lease': frame(0x23, ID, struct.pack('<I', 86400000)),
    'keeper-kill': frame(0x30, 0),
    # hand to host
    'hello': frame(0x01, 0, hello(1, 3, 7, 1000, 64, 0x000102)),
    'credit': frame(0x06, ID, struct.pack('<Q', 4096)),
    'started': frame(0x80, ID, struct.pack('<I', 4321)),
    'start-error': frame(0x81, ID, start_error(2, 6)),
    'out': frame(0x82, ID, struct.pack('<Q', 1 << 34) + b'out\0\xff'),
    'err': frame(0x83, ID, struct.pack('<Q', 3) + b'e'),
    'exit': frame(0x84, ID, EXIT),
    'data': frame(0x85, ID, b'data\0\xff'),
    'data-entries': frame(0x85, ID, entry(1, 0o644, 5, 1700000000, 999999999, 1000, 100, b'na\xffme', b'')
                          + entry(3, 0o777, 2, -1, 0, 0, 0, b'l', b'to/x')),
    'done': frame(0x86, ID, struct.pack('<iBBHQ', 28, 6, 1, 0, 1 << 36)),
    'pong': frame(0x87, ID, b'pong'),
    'error': frame(0x88, 0, struct.pack('<HH', 4, 0) + b'unknown frame type'),
    'job-running': frame(0x89, ID, struct.pack('<IB3xQQ', 77, 1, 1 << 33, (1 << 33) - 9) + bytes(96)),
    'job-ended': frame(0x89, ID, struct.pack('<IB3xQQ', 78, 2, 100, 40) + EXIT + b'l\0\xff'),
    # keeper to host
    'keeper-started': frame(0xb0, 0, struct.pack('<I', 4321)),
    'keeper-failed': frame(0xb1, 0, start_error(13, 6)),
    'keeper-exit': frame(0xb2, 0, struct.pack('<BBHiI', 1, 1, 0, 3, 5000) + b'bad\n'),
}


def main():
    here = Path(__file__).parent
    check = '--check' in sys.argv
    different = [path.name for path in here.glob('*.bin') if path.stem not in FRAMES]
    for name, data in FRAMES.items():
        path = here / (name + '.bin')
        if not check:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            different.append(path.name)
    if different:
        sys.exit('not as the tables say: ' + ' '.join(sorted(different)))


if __name__ == '__main__':
    main()
