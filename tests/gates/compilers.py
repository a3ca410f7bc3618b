#!/usr/bin/env python3
"""Everything but the tests compiles as a release with gcc and with clang, warnings being errors.

usage: compilers.py --build FOLDER [--compiler gcc|clang]...    (FOLDER/gcc and FOLDER/clang stay)
"""

import os
import re
import subprocess
from pathlib import Path

import gate

PROBLEM = re.compile(r'^(\S+?):(\d+):(?:\d+:)? (?:fatal )?(?:error|warning): (.*)$', re.M)
UNDEFINED = re.compile(r"undefined reference to [`']\w+'")


def violations(root, build, compiler):
    folder = build / compiler
    if not (folder / 'build.ninja').is_file():
        done = subprocess.run(['meson', 'setup', folder, root, '--buildtype=release',
                               '-Dwerror=true', '-Dtests=false'],
                              env={**os.environ, 'CC': compiler}, capture_output=True, text=True)
        if done.returncode:
            yield 'meson.build', 1, f'meson setup with {compiler} failed:\n{done.stdout[-2000:]}'
            return
    done = subprocess.run(['ninja', '-j2', '-k0', '-C', folder], capture_output=True, text=True)
    if done.returncode:
        problems = [(os.path.relpath(folder / match[1], root), match[2], f'{compiler}: {match[3]}')
                    for match in PROBLEM.finditer(done.stdout)]
        problems += [('meson.build', 1, f'{compiler}: {undefined}')
                     for undefined in sorted(set(UNDEFINED.findall(done.stdout)))]
        yield from problems or [('meson.build', 1, f'{compiler}: {done.stdout[-2000:]}')]


def main():
    wanted = gate.arguments(__doc__, ('--build', {'type': Path, 'required': True}),
                            ('--compiler', {'action': 'append', 'choices': ['gcc', 'clang']}))
    found = []
    for compiler in wanted.compiler or ['gcc', 'clang']:
        found += violations(wanted.root, wanted.build, compiler)
    gate.finish(found)


if __name__ == '__main__':
    main()
