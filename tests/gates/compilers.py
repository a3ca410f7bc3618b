#!/usr/bin/env python3
"""A release compiles with gcc and with clang, and clang reads the tests, warnings being errors.

usage: compilers.py --build FOLDER [--compiler gcc|clang]...    (FOLDER/gcc and FOLDER/clang stay)
"""

import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gate

PROBLEM = re.compile(r'^(\S+?):(\d+):(?:\d+:)? (?:fatal )?(?:error|warning): (.*)$', re.M)
UNDEFINED = re.compile(r"undefined reference to [`']\w+'")


def configure(root, folder, compiler, *options):
    """Once; what meson says when it fails, else nothing."""
    if (folder / 'build.ninja').is_file():
        return ''
    done = subprocess.run(['meson', 'setup', folder, root, '-Dwerror=true', *options],
                          env={**os.environ, 'CC': compiler}, capture_output=True, text=True)
    return done.stdout[-2000:] if done.returncode else ''


def problems(root, folder, compiler, output):
    return [(os.path.relpath(folder / match[1], root), match[2], f'{compiler}: {match[3]}')
            for match in PROBLEM.finditer(output)]


def release(root, folder, compiler):
    if failed := configure(root, folder, compiler, '--buildtype=release', '-Dtests=false'):
        yield 'meson.build', 1, f'meson setup with {compiler} failed:\n{failed}'
        return
    done = subprocess.run(['ninja', '-j2', '-k0', '-C', folder], capture_output=True, text=True)
    if done.returncode:
        found = problems(root, folder, compiler, done.stdout)
        found += [('meson.build', 1, f'{compiler}: {undefined}')
                  for undefined in sorted(set(UNDEFINED.findall(done.stdout)))]
        yield from found or [('meson.build', 1, f'{compiler}: {done.stdout[-2000:]}')]


def read_only(command):
    """The same compilation, of which nothing is kept."""
    words = shlex.split(command)
    words = words[words.index('clang'):]
    for option, count in (('-o', 2), ('-MD', 1), ('-MQ', 2), ('-MF', 2), ('-fcolor-diagnostics', 1)):
        if option in words:
            at = words.index(option)
            del words[at:at + count]
    return [*words, '-fsyntax-only']


def tests(root, folder):
    """gcc compiles them where they run."""
    if failed := configure(root, folder, 'clang'):
        yield 'meson.build', 1, f'meson setup with clang failed:\n{failed}'
        return
    commands = [command for command in json.loads(gate.read(folder / 'compile_commands.json'))
                if (folder / command['file']).resolve().is_relative_to(root / 'tests')]
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda command: subprocess.run(
                read_only(command['command']), cwd=folder, capture_output=True, text=True), commands):
            if done.returncode:
                yield from problems(root, folder, 'clang', done.stderr) or [
                    ('tests', 1, done.stderr[-2000:])]


def main():
    wanted = gate.arguments(__doc__, ('--build', {'type': Path, 'required': True}),
                            ('--compiler', {'action': 'append', 'choices': ['gcc', 'clang']}))
    found = []
    for compiler in wanted.compiler or ['gcc', 'clang']:
        found += release(wanted.root, wanted.build / compiler, compiler)
        if compiler == 'clang':
            found += tests(wanted.root.resolve(), wanted.build.resolve() / 'clang-tests')
    gate.finish(found)


if __name__ == '__main__':
    main()
