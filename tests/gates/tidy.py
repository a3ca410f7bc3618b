#!/usr/bin/env python3
"""clang-tidy finds nothing in the library, the backends and the examples (checks: .clang-tidy).

usage: tidy.py --build FOLDER [FILE...]     (a build by clang: its flags are clang's)
"""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gate

PROBLEM = re.compile(r'^(\S+?):(\d+):\d+: (?:warning|error): (.*)$', re.M)
FOLDERS = ('src/', 'backends/', 'examples/')


def sources(root, build):
    """The compiled C files of the checked folders, as absolute paths."""
    commands = json.loads(gate.read(build / 'compile_commands.json'))
    paths = {Path(command['directory'], command['file']).resolve() for command in commands}
    own = (path for path in paths if path.is_relative_to(root))
    return sorted(path for path in own if path.relative_to(root).as_posix().startswith(FOLDERS))


def check(root, build, source):
    done = subprocess.run(['clang-tidy', '--quiet', '-p', build, source],
                          cwd=root, capture_output=True, text=True)
    found = {(os.path.relpath((build / match[1]).resolve(), root), int(match[2]), match[3])
             for match in PROBLEM.finditer(done.stdout)}
    if done.returncode and not found:
        found = {(source.relative_to(root), 1, done.stdout + done.stderr)}
    return found


def main():
    wanted = gate.arguments(__doc__, ('--build', {'type': Path, 'required': True}),
                            ('files', {'nargs': '*', 'type': Path}))
    root, build = wanted.root.resolve(), wanted.build.resolve()
    chosen = [path.resolve() for path in wanted.files] or sources(root, build)
    found = set()
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(lambda source: check(root, build, source), chosen):
            found |= result
    gate.finish(sorted(found, key=str))


if __name__ == '__main__':
    main()
