"""What may be embedded as a hand: src/hand/embed.py, and -Dhands=prebuilt."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMBED = ROOT / 'src/hand/embed.py'
PROTOCOL = ROOT / 'src/hand/protocol.h'
BUILD = pathlib.Path(os.environ.get('WALDO_BUILD', ROOT / 'build'))
RELEASE = re.search(r"version: '([0-9.]+)'", (ROOT / 'meson.build').read_text()).group(1)
STATEMENT = b'waldo-hand %s, protocol ' % RELEASE.encode()

X86_64, AARCH64, RISCV = 62, 183, 243


@pytest.fixture(name='hand')
def _hand():
    return (BUILD / 'src/hand/waldo-hand').read_bytes()


def embed(folder, *programs, release=RELEASE):
    paths = []
    for index, program in enumerate(programs):
        paths.append(folder / ('hand-%d' % index))
        paths[-1].write_bytes(program)
    return subprocess.run(
        [sys.executable, str(EMBED), str(folder / 'image.c'), 'x86_64', release, str(PROTOCOL)] +
        [str(path) for path in paths], capture_output=True, text=True, check=False)


def machine(program, number):
    return program[:18] + number.to_bytes(2, 'little') + program[20:]


def test_embeds_each_processor(hand, tmp_path):
    result = embed(tmp_path, machine(hand, AARCH64), machine(hand, X86_64))
    assert (result.returncode, result.stderr) == (0, '')
    text = (tmp_path / 'image.c').read_text()
    assert '{ "aarch64", "arm64", image_aarch64' in text
    assert '{ "x86_64", "amd64", image_x86_64' in text
    assert 'waldo__hand_native_index = 1;' in text


def test_embeds_none(tmp_path):
    assert embed(tmp_path).returncode == 0
    text = (tmp_path / 'image.c').read_text()
    assert 'waldo__hand_count = 0;' in text and 'waldo__hand_native_index = 0;' in text


def test_no_native_one(hand, tmp_path):
    assert embed(tmp_path, machine(hand, AARCH64)).returncode == 0
    text = (tmp_path / 'image.c').read_text()
    assert 'waldo__hand_count = 1;' in text and 'waldo__hand_native_index = 1;' in text


@pytest.mark.parametrize('change, message', [
    (lambda hand: b'#!/bin/sh\n' * 10, 'is not an ELF program'),
    (lambda hand: b'', 'is not an ELF program'),
    (lambda hand: hand[:40], 'is not an ELF program'),
    (lambda hand: machine(hand, RISCV), 'is not a program for aarch64 or x86_64'),
    (lambda hand: hand[:4] + b'\x01' + hand[5:], 'is not a program for aarch64 or x86_64'),
    (lambda hand: hand[:5] + b'\x02' + hand[6:], 'is not a program for aarch64 or x86_64'),
    (lambda hand: hand[:16] + b'\x01\x00' + hand[18:], 'is not a program for aarch64 or x86_64'),
    (lambda hand: hand + bytes(40961 - len(hand)), 'has 40961 bytes, the budget is 40960'),
    (lambda hand: hand.replace(STATEMENT, b'waldo-hand 9.9.9, protocol '), 'is waldo-hand 9.9.9,'),
    (lambda hand: hand.replace(STATEMENT + b'1', STATEMENT + b'7'), 'protocol 7; this library'),
    (lambda hand: hand.replace(b'waldo-hand', b'another-it'), 'is no waldo-hand; this library'),
])
def test_refuses(hand, tmp_path, change, message):
    result = embed(tmp_path, change(hand))
    assert result.returncode == 1
    assert 'hand-0 ' in result.stderr and message in result.stderr
    assert not (tmp_path / 'image.c').exists()


def test_refuses_another_release(hand, tmp_path):
    result = embed(tmp_path, hand, release='7.0.0')
    assert result.returncode == 1
    assert 'is waldo-hand %s, protocol' % RELEASE in result.stderr
    assert 'needs waldo-hand 7.0.0, protocol' in result.stderr


def test_refuses_two_for_one_processor(hand, tmp_path):
    result = embed(tmp_path, hand, hand)
    assert result.returncode == 1
    assert 'hand-1 is the second program for' in result.stderr


def test_the_budget_is_the_last_byte(hand, tmp_path):
    more = random.Random(1).randbytes(40960 - len(hand))  # equal ones take minutes to pack
    assert embed(tmp_path, hand + more).returncode == 0


def configure(folder, hands):
    return subprocess.run(
        ['meson', 'setup', str(folder), str(ROOT), '-Dhands=prebuilt', '-Dhands_dir=%s' % hands,
         '-Dtests=false', '-Dexamples=false', '-Dcli=false'],
        capture_output=True, text=True, check=False)


def test_prebuilt(hand, tmp_path):
    for name in ('x86_64', 'aarch64'):
        (tmp_path / ('waldo-hand-' + name)).write_bytes(
            machine(hand, X86_64 if name == 'x86_64' else AARCH64))
    result = configure(tmp_path / 'build', tmp_path)
    assert result.returncode == 0, result.stdout
    subprocess.run(['ninja', '-C', str(tmp_path / 'build'), 'src/hand/hand_image.c'], check=True,
                   stdout=subprocess.DEVNULL)
    text = (tmp_path / 'build/src/hand/hand_image.c').read_text()
    assert '"aarch64"' in text and '"x86_64"' in text
    # A file for another machine than its name says.
    shutil.copy(tmp_path / 'waldo-hand-aarch64', tmp_path / 'waldo-hand-x86_64')
    result = subprocess.run(['ninja', '-C', str(tmp_path / 'build'), 'src/hand/hand_image.c'],
                            capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert 'waldo-hand-x86_64 is a program for aarch64' in result.stdout


def test_prebuilt_without_files(tmp_path):
    result = configure(tmp_path / 'build', tmp_path)
    assert result.returncode != 0
    assert '-Dhands=prebuilt needs -Dhands_dir=FOLDER' in result.stdout


def test_hands_are_within_the_budget_and_reproducible():
    """What was built states itself, and holds neither section headers nor a folder's name."""
    programs = sorted((BUILD / 'src/hand').glob('waldo-hand*'))
    assert programs
    for path in programs:
        program = path.read_bytes()
        assert len(program) <= 40960, path
        assert STATEMENT in program, path
        assert program[40:48] == bytes(8) and program[60:64] == bytes(4), path
        assert str(ROOT).encode() not in program, path
