"""Patches of the sandbox layer: git apply takes them and makes exactly the other tree."""

import os
import random
import shutil
import subprocess
import sys

import pytest

BUILD = os.environ.get('WALDO_BUILD', os.path.join(os.path.dirname(__file__), '..', '..', 'build'))
TOOL = os.path.join(BUILD, 'tests', 'contract', 'patch-tool')
WORDS = ['a', 'bb', 'the line', '', '\tindent', 'x' * 300, '\\ No newline', '-- minus', '+plus', '@@ -1 +1 @@',
         'trailing ', 'caf\u00e9', 'cr\r']
NAMES = ['a', 'b.txt', 'dir', 'with space', 'quo"te', 'back\\slash', 'tab\there', 'new\nline', 'uml\u00e4ut',
         'README', '-dash', 'x.bin']


def snapshot(root):
    """path -> (kind, content) of everything git tracks."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != '.git']
        for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                found[key] = ('link', os.readlink(os.fsencode(path)))
            else:
                with open(path, 'rb') as file:
                    found[key] = ('exec' if os.stat(path).st_mode & 0o100 else 'file', file.read())
    return found


def content(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return b''
    if kind == 1:
        return rng.randbytes(rng.choice([1, 51, 52, 53, 100, 65535, 65536, 200000]))
    lines = [rng.choice(WORDS).encode() for _ in range(rng.randrange(1, 60))]
    return b'\n'.join(lines) + (b'' if kind == 2 else b'\n')


def edit(rng, text):
    if b'\0' in text or not text:
        return content(rng)
    lines = text.split(b'\n')
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(lines) + 1)
        action = rng.randrange(3)
        if action == 0:
            lines.insert(at, rng.choice(WORDS).encode())
        elif action == 1 and lines:
            del lines[min(at, len(lines) - 1)]
        elif lines:
            lines[min(at, len(lines) - 1)] = rng.choice(WORDS).encode()
    return b'\n'.join(lines)


def write(root, path, rng, text=None):
    target = os.path.join(root, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        if os.path.isdir(target) and not os.path.islink(target):
            return
        os.unlink(target)
    if rng.randrange(8) == 0:
        os.symlink(rng.choice(['a', '../out', '/etc/passwd', 'no where']), target)
        return
    with open(target, 'wb') as file:
        file.write(content(rng) if text is None else text)
    os.chmod(target, rng.choice([0o644, 0o755, 0o600]))


def random_path(rng):
    return os.path.join(*(rng.choice(NAMES) for _ in range(rng.randrange(1, 4))))


def populate(root, rng, count):
    os.makedirs(root)
    for _ in range(count):
        try:
            write(root, random_path(rng), rng)
        except OSError:
            pass  # a file stands where a folder would be


def mutate(root, rng):
    for path in sorted(snapshot(root)):
        action = rng.randrange(6)
        target = os.path.join(root, path)
        if action == 0:
            os.unlink(target)
        elif action == 1:
            write(root, path, rng)
        elif action in (2, 3) and not os.path.islink(target):
            with open(target, 'rb') as file:
                text = file.read()
            write(root, path, rng, edit(rng, text))
    for _ in range(rng.randrange(6)):
        try:
            write(root, random_path(rng), rng)
        except OSError:
            pass


def make_patch(older, newer):
    paths = sorted(set(snapshot(older)) | set(snapshot(newer)))
    done = subprocess.run([TOOL, older, newer], input=b''.join(os.fsencode(p) + b'\0' for p in paths),
                          capture_output=True, timeout=60, check=True)
    return done.stdout


def git(root, *args, **kwargs):
    env = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1', HOME=str(root))
    return subprocess.run(['git', *args], cwd=root, env=env, capture_output=True, timeout=60, **kwargs)


def check(older, newer, tmp_path, options=()):
    patch = make_patch(str(older), str(newer))
    work = tmp_path / 'work'
    shutil.copytree(older, work, symlinks=True)
    if not patch:
        assert snapshot(older) == snapshot(newer)
        return patch
    done = git(work, 'apply', '--whitespace=nowarn', *options, '-', input=patch)
    assert done.returncode == 0, done.stderr
    assert snapshot(work) == snapshot(newer)
    done = git(work, 'apply', '-R', '--whitespace=nowarn', '-', input=patch)
    assert done.returncode == 0, done.stderr
    assert snapshot(work) == snapshot(older)
    shutil.rmtree(work)
    return patch


@pytest.mark.parametrize('seed', range(60))
def test_random_trees(seed, tmp_path):
    rng = random.Random(seed)
    populate(tmp_path / 'old', rng, rng.randrange(1, 15))
    shutil.copytree(tmp_path / 'old', tmp_path / 'new', symlinks=True)
    mutate(tmp_path / 'new', rng)
    check(tmp_path / 'old', tmp_path / 'new', tmp_path)


def test_every_small_text(tmp_path):
    texts = [b'', b'a', b'a\n', b'a\nb', b'a\nb\n', b'\n', b'b\na\n', b'a\r\nb\n']
    for number, (before, after) in enumerate((x, y) for x in texts for y in texts):
        base = tmp_path / str(number)
        for side, text in (('old', before), ('new', after)):
            (base / side).mkdir(parents=True)
            (base / side / 'f').write_bytes(text)
        check(base / 'old', base / 'new', base)


def test_long_texts(tmp_path):
    rng = random.Random(7)
    lines = [b'%d' % rng.randrange(50) for _ in range(20000)]
    other = list(lines)
    for _ in range(300):
        other[rng.randrange(len(other))] = b'changed'
    for name, text in (('old', lines), ('new', other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'few').write_bytes(b'\n'.join(text))
        (tmp_path / name / 'all').write_bytes(b'\n'.join(b'%d' % rng.randrange(10**6) for _ in range(20000)))
    patch = check(tmp_path / 'old', tmp_path / 'new', tmp_path)
    assert patch.count(b'+changed') == sum(a != b'changed' and b == b'changed' for a, b in zip(lines, other))


def test_binary_reproduces(tmp_path):
    for size in (1, 52, 65534, 65535, 65536, 131071, 3_000_000):
        base = tmp_path / str(size)
        for side in ('old', 'new'):
            (base / side).mkdir(parents=True)
            (base / side / 'f').write_bytes(b'\0' + random.Random(side).randbytes(size))
        check(base / 'old', base / 'new', base)


if __name__ == '__main__':
    sys.exit(pytest.main([__file__, '-q']))
