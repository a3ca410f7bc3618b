"""The tools over local sandboxes as an ordinary user, where the tests run as root."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get('WALDO_BUILD', os.path.join(HERE, '..', '..', 'build'))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='the C tests ran as an ordinary user already')


@pytest.fixture(scope='module')
def place():
    """A folder that every user may enter, with the programs and golden files in it; pytest's are closed to others."""
    with tempfile.TemporaryDirectory(prefix='waldo-tools-') as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)
        shutil.copytree(os.path.join(HERE, 'golden'), folder / 'golden')
        yield folder


@pytest.mark.parametrize('name', ['files', 'exec', 'grep'])
def test_as_nobody(place, name):
    program = shutil.copy(os.path.join(BUILD, 'tests', 'tools', f'test-tools-{name}'), place)
    os.chmod(program, 0o755)
    done = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', program, 'local:',
                           str(place / 'golden')], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors='replace')
