"""What every gate shares: the files of the tree, C without comments and strings, the report.

A gate is a program `gate.py [--root FOLDER]`: it prints `file:line: what is wrong` for each
violation and ends with status 1, or prints nothing and ends with 0.
"""

import argparse
import os
import re
import sys
from pathlib import Path

SKIPPED_FOLDERS = re.compile(r'^(build.*|\.git|\.cache|node_modules|__pycache__|subprojects)$')
C_FOLDERS = ('include', 'src', 'backends', 'examples', 'tests')


def arguments(description, *extra):
    """Parse --root and what the gate adds; each of extra is (name, keyword arguments)."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parents[2])
    for name, keywords in extra:
        parser.add_argument(name, **keywords)
    return parser.parse_args()


def files(root, suffixes, folders=('',)):
    """Paths below root/folder with one of the suffixes, relative to root, sorted."""
    found = set()
    for folder in folders:
        for parent, names, leaves in os.walk(root / folder):
            names[:] = [name for name in names if not SKIPPED_FOLDERS.match(name)]
            found.update(Path(parent, leaf).relative_to(root) for leaf in leaves
                         if leaf.endswith(tuple(suffixes)))
    return sorted(found)


def c_files(root, folders=C_FOLDERS):
    return files(root, ('.c', '.h'), folders)


def read(path):
    return path.read_text(encoding='utf-8', errors='replace')


C_TOKEN = re.compile(r'''//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*\'''', re.S)


def blank(text):
    """As many spaces and newlines as text has characters."""
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    """C source with comments blanked; strings and line numbers stay."""
    return C_TOKEN.sub(lambda match: blank(match[0]) if match[0][0] == '/' else match[0], text)


def code_only(text):
    """C source with comments and the insides of strings and characters blanked."""
    return C_TOKEN.sub(lambda match: blank(match[0]) if match[0][0] == '/'
                       else match[0][0] + blank(match[0][1:-1]) + match[0][0], text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


def finish(violations):
    """Print (file, line, message) violations and end the program."""
    for path, line, message in violations:
        print(f'{path}:{line}: {message}')
    sys.exit(1 if violations else 0)
